package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeAgnhost writes the image of the pods of Kubernetes' own tests under the name that these use. The program is agnhost,
// compiled; around it the tests want a shell, curl, nc and other tools, which the nodes' root file system has.
func writeAgnhost(ctx context.Context, c partsCache, program, reference, output string) error {
	keys, err := newKeys(ctx)
	if err != nil {
		return err
	}
	base, err := c.part(ctx, "base", keys.base, buildBase)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "agnhost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	files := newLayer()
	if err := files.file("agnhost", 0o755, program); err != nil {
		return err
	}
	files.directory("uploads", 0o777)
	own, err := files.image(work, "agnhost")
	if err != nil {
		return err
	}
	root, err := tarball.LayerFromFile(filepath.Join(base, "layer.tar.gz"))
	if err != nil {
		return err
	}
	image, err := makeImage(v1.Config{Env: []string{searchPath}, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}, root, own)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(output, tag, image)
}
