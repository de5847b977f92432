package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// netTools are the programs that kube-proxy and the pod network call, and what those read, as paths in the node's root
// file system.
var netTools = []string{
	"/usr/sbin/xtables-legacy-multi", "/usr/sbin/xtables-nft-multi", "/usr/sbin/nft", "/usr/sbin/ipset",
	"/usr/sbin/conntrack", "/usr/bin/kmod", "/etc/protocols", "/etc/services",
}

// netToolsLayer copies the tools out of the root file system with every library that they load: those that the linker
// names, and those of iptables' matches and targets, which it loads by name when a rule wants them. (Without the
// libraries of those, a match is just not there: "statistic" wants the mathematics library.)
func netToolsLayer(ctx context.Context, root string) (layer, error) {
	l := newLayer()
	extensions, err := filepath.Glob(filepath.Join(root, "usr/lib/*/xtables/*.so"))
	if err != nil || len(extensions) == 0 {
		return l, fmt.Errorf("no iptables extensions below %s: %w", root, err)
	}
	paths := netTools
	for _, file := range extensions {
		paths = append(paths, strings.TrimPrefix(file, root))
	}
	libraries, err := librariesOf(ctx, root, paths)
	if err != nil {
		return l, err
	}
	for _, file := range append(paths, libraries...) {
		if err := l.copy(root, file); err != nil {
			return l, err
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		l.link(dir, "usr/"+dir)
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, variant := range []string{"legacy", "nft"} {
			for _, tool := range []string{"", "-save", "-restore"} {
				l.link("usr/sbin/"+family+"-"+variant+tool, "xtables-"+variant+"-multi")
			}
		}
	}
	l.link("usr/sbin/modprobe", "../bin/kmod")
	l.directory("run", 0o755)
	return l, nil
}

// librariesOf asks the root file system's own linker.
func librariesOf(ctx context.Context, root string, paths []string) ([]string, error) {
	var programs []string
	for _, p := range paths {
		if !strings.HasPrefix(p, "/etc/") {
			programs = append(programs, p)
		}
	}
	out, err := output(ctx, "chroot", append([]string{root, "ldd"}, programs...)...)
	if err != nil {
		return nil, err
	}
	if strings.Contains(out, "not found") {
		return nil, fmt.Errorf("a library is missing in the root file system:\n%s", out)
	}
	seen := map[string]bool{}
	var libraries []string
	for field := range strings.FieldsSeq(out) {
		// A line is "NAME => PATH (ADDRESS)" or, for the loader, "PATH (ADDRESS)"; "PATH:" heads a program's lines.
		if strings.HasPrefix(field, "/") && !strings.HasSuffix(field, ":") && !seen[field] {
			seen[field] = true
			libraries = append(libraries, field)
		}
	}
	return libraries, nil
}

// copy adds the file at the path in the root file system, and what it links to. /lib and its like link to /usr there.
func (l layer) copy(root, file string) error {
	for _, dir := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
		if strings.HasPrefix(file, dir) {
			file = "/usr" + file
		}
	}
	source := filepath.Join(root, file)
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return l.file(file[1:], info.Mode().Perm(), source)
	}
	target, err := os.Readlink(source)
	if err != nil {
		return err
	}
	l.link(file[1:], target)
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(file), target)
	}
	return l.copy(root, target)
}
