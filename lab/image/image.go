// Package image makes container images without a container builder: FROM scratch, with files of this machine.
package image

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of an image: what a file of this machine holds, or a link.
type File struct {
	Path   string // in the image, absolute
	Source string // on this machine
	Link   string // target, where it is a symbolic link
}

// Image is an image to make.
type Image struct {
	Tag        string // with registry and version: "docker.io/proxylab/echo:latest"
	Entrypoint []string
}

// Write writes an archive, as docker save does, with images that all have the same files. Whatever is in it is as old as can
// be, so that the same files make the same image.
func Write(archive string, files []File, images ...Image) error {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return stream(files), nil },
		tarball.WithCompressionLevel(gzip.NoCompression)) // it is going to a node nearby
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	all := map[name.Reference]v1.Image{}
	for _, i := range images {
		tag, err := name.NewTag(i.Tag)
		if err != nil {
			return err
		}
		if all[tag], err = i.build(layer); err != nil {
			return fmt.Errorf("image %s: %w", i.Tag, err)
		}
	}
	return tarball.MultiRefWriteToFile(archive, all)
}

func (i Image) build(layer v1.Layer) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = i.Entrypoint
	config.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return mutate.ConfigFile(image, config)
}

// stream is the files as a tar archive, made while it is read.
func stream(files []File) io.ReadCloser {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(writeTar(w, files)) }() // it always returns nil
	return r
}

func writeTar(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	made := map[string]bool{".": true}
	for _, f := range files {
		p := strings.TrimPrefix(f.Path, "/")
		if err := directories(t, path.Dir(p), made); err != nil {
			return err
		}
		if err := f.write(t, p); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return t.Close()
}

func directories(t *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := directories(t, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
}

func (f File) write(t *tar.Writer, p string) error {
	if f.Link != "" {
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: p, Linkname: f.Link, Mode: 0o777, ModTime: time.Unix(0, 0)})
	}
	source, err := os.Open(f.Source)
	if err != nil {
		return err
	}
	info, err := source.Stat()
	if err == nil {
		err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: p, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0)})
	}
	if err == nil {
		_, err = io.Copy(t, source)
	}
	return errors.Join(err, source.Close())
}
