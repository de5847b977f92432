package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Where Debian's, and most others', dynamic loader looks without being told, in this order (ld.so(8)).
func libraryDirs() []string {
	dirs := []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}
	more, _ := filepath.Glob("/usr/lib/*-linux-gnu*") // the pattern is well formed
	return append(more, dirs...)
}

// Tools are files of this machine by which the named programs run elsewhere: each program, the libraries that it and they
// need, the loader, and the extensions of iptables, which no program names. Programs that are missing here are left out, and
// returned.
func Tools(names ...string) (files []File, absent []string, err error) {
	c := closure{seen: map[string]bool{}}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			absent = append(absent, name)
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, nil, err
		}
		if err := c.add(real); err != nil {
			return nil, nil, err
		}
		if as := "/usr/sbin/" + name; as != real && !c.seen[as] { // a program with many names goes by the one it is called by
			c.seen[as] = true
			c.files = append(c.files, File{Path: as, Link: real})
		}
	}
	for _, dir := range libraryDirs() {
		extensions, _ := filepath.Glob(filepath.Join(dir, "xtables", "*.so")) // the pattern is well formed
		for _, e := range extensions {
			if err := c.addAt(e); err != nil {
				return nil, nil, err
			}
		}
	}
	return c.files, absent, nil
}

// closure collects files with all that they need.
type closure struct {
	files []File
	seen  map[string]bool
}

// addAt adds a file under the name it has, with what is behind it where that is a link.
func (c *closure) addAt(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if err := c.add(real); err != nil {
		return err
	}
	if real != path && !c.seen[path] {
		c.seen[path] = true
		c.files = append(c.files, File{Path: path, Link: real})
	}
	return nil
}

func (c *closure) add(path string) error {
	if c.seen[path] {
		return nil
	}
	c.seen[path] = true
	c.files = append(c.files, File{Path: path, Source: path})
	f, err := elf.Open(path)
	if err != nil {
		if format := (*elf.FormatError)(nil); errors.As(err, &format) {
			return nil // a script: what it calls is its own business
		}
		return err
	}
	defer func() { _ = f.Close() }()
	if loader, ok := interpreter(f); ok {
		if err := c.addAt(loader); err != nil {
			return err
		}
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, library := range needed {
		file, err := find(library, f.Class)
		if err != nil {
			return fmt.Errorf("%s needs %s: %w", path, library, err)
		}
		if err := c.addAt(file); err != nil {
			return err
		}
	}
	return nil
}

func interpreter(f *elf.File) (string, bool) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, p.Filesz)
		if _, err := p.ReadAt(text, 0); err == nil {
			return strings.TrimRight(string(text), "\x00"), true
		}
	}
	return "", false
}

// find looks for a library of a class, 32 or 64 bits.
func find(library string, class elf.Class) (string, error) {
	dirs := libraryDirs()
	i := slices.IndexFunc(dirs, func(dir string) bool {
		f, err := elf.Open(filepath.Join(dir, library))
		if err != nil {
			return false
		}
		defer func() { _ = f.Close() }()
		return f.Class == class
	})
	if i < 0 {
		return "", fmt.Errorf("%w in %s", fs.ErrNotExist, strings.Join(dirs, ", "))
	}
	return filepath.Join(dirs[i], library), nil
}

// ProxierTools are the programs that native proxiers run.
func ProxierTools() []string {
	var all []string
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, backend := range []string{"", "-legacy", "-nft"} {
			for _, verb := range []string{"", "-save", "-restore"} {
				all = append(all, family+backend+verb)
			}
		}
	}
	return append(all, "nft", "ipset", "conntrack")
}

// Self is this program's own file in an image, as /proxylab.
func Self(executable string) (File, error) {
	if _, err := os.Stat(executable); err != nil {
		return File{}, err
	}
	return File{Path: "/proxylab", Source: executable}, nil
}
