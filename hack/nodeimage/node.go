package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// nodeImage puts the parts together: Debian, the programs, the images, and the files that make it a node of kind, whose
// layer is written below work, where it has to stay as long as the image is used.
func nodeImage(ctx context.Context, work, base, components string) (v1.Image, error) {
	var layers []v1.Layer
	for _, file := range []string{
		filepath.Join(base, "layer.tar.gz"), filepath.Join(components, "programs.tar.gz"), filepath.Join(components, "images.tar.gz"),
	} {
		l, err := tarball.LayerFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", file, err)
		}
		layers = append(layers, l)
	}
	files, err := nodeFiles(ctx)
	if err != nil {
		return nil, err
	}
	l, err := files.image(work, "files")
	if err != nil {
		return nil, err
	}
	// As in kind's own: systemd ends by this signal, and knows by the variable that it is in a container.
	return makeImage(v1.Config{
		Env: []string{searchPath, "container=docker"}, StopSignal: "SIGRTMIN+3",
		Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
	}, append(layers, l)...)
}

// nodeFiles are kind's files for a node out of its module, and ours in files/.
func nodeFiles(ctx context.Context) (layer, error) {
	l := newLayer()
	kind, err := kindFiles(ctx)
	if err != nil {
		return l, err
	}
	for _, dir := range []string{kind, "files"} {
		if err := l.tree(dir); err != nil {
			return l, err
		}
	}
	l.text("kind/version", 0o644, []byte(kubernetesVersion))
	for _, unit := range []string{"containerd", "kubelet", "undo-mount-hacks"} {
		l.link("etc/systemd/system/multi-user.target.wants/"+unit+".service", "/etc/systemd/system/"+unit+".service")
	}
	return l, nil
}

// tree adds the files below the directory, the scripts among them executable.
func (l layer) tree(dir string) error {
	return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		target, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(string(content), "#!") {
			mode = 0o755
		}
		l.text(target, mode, content)
		return nil
	})
}

// deliver loads the image into Docker under the name, or writes it to the output file if one is given.
func deliver(ctx context.Context, reference string, image v1.Image, output string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	if output != "" {
		return tarball.WriteToFile(output, tag, image)
	}
	cmd := command(ctx, "docker", "load", "--quiet")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		err := tarball.Write(tag, image, in)
		if closeErr := in.Close(); err == nil {
			err = closeErr
		}
		written <- err
	}()
	if err := execute(cmd); err != nil {
		return err
	}
	if err := <-written; err != nil {
		return fmt.Errorf("giving the image to docker load: %w", err)
	}
	return nil
}

// imageExists says whether Docker has an image of the name.
func imageExists(ctx context.Context, reference string) bool {
	return command(ctx, "docker", "image", "inspect", reference).Run() == nil
}
