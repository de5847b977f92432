package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layer is a set of files of an image, by their path without a leading slash. The same files make the same bytes.
type layer struct{ entries map[string]entry }

type entry struct {
	mode    fs.FileMode
	content func() (io.ReadCloser, int64, error) // of a file
	target  string                               // of a symbolic link
}

func newLayer() layer { return layer{map[string]entry{}} }

// file adds the file of the machine at source.
func (l layer) file(name string, mode fs.FileMode, source string) error {
	if _, err := os.Stat(source); err != nil {
		return err
	}
	l.entries[name] = entry{mode: mode, content: func() (io.ReadCloser, int64, error) {
		f, err := os.Open(source)
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, 0, err
		}
		return f, info.Size(), nil
	}}
	return nil
}

func (l layer) text(name string, mode fs.FileMode, text []byte) {
	l.entries[name] = entry{mode: mode, content: func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
	}}
}

func (l layer) link(name, target string) {
	l.entries[name] = entry{mode: fs.ModeSymlink | 0o777, target: target}
}

func (l layer) directory(name string, mode fs.FileMode) {
	l.entries[name] = entry{mode: fs.ModeDir | mode}
}

// write writes the layer as a compressed archive.
func (l layer) write(file string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(l.withParents())) {
		if err := l.entries[name].write(archive, name); err != nil {
			return fmt.Errorf("layer file %s: %w", name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

// withParents adds the directories that the files are in.
func (l layer) withParents() map[string]entry {
	for _, name := range slices.Collect(maps.Keys(l.entries)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, there := l.entries[dir]; !there {
				l.directory(dir, 0o755)
			}
		}
	}
	return l.entries
}

func (e entry) write(archive *tar.Writer, name string) error {
	header := &tar.Header{Name: name, Mode: int64(e.mode.Perm()), ModTime: time.Unix(0, 0)}
	if e.mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	switch {
	case e.mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return archive.WriteHeader(header)
	case e.mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.target
		return archive.WriteHeader(header)
	}
	content, size, err := e.content()
	if err != nil {
		return err
	}
	defer content.Close()
	header.Typeflag, header.Size = tar.TypeReg, size
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// image writes the layer into the directory and returns it as an image's.
func (l layer) image(dir, name string) (v1.Layer, error) {
	file := filepath.Join(dir, name+".tar.gz")
	if err := l.write(file); err != nil {
		return nil, err
	}
	return tarball.LayerFromFile(file)
}
