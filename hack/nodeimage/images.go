package main

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// searchPath is where images look for programs.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// podnetImage is named in manifests/default-cni.yaml.
const podnetImage = "docker.io/proxylab/podnet:v1"

// writeImages writes into the archive every image that a cluster needs without a registry: those that kubeadm asks for,
// under the names that it uses, that of a pod's sandbox, and the pod network. Programs are those compiled into dir.
func writeImages(ctx context.Context, dir, root, archive string) error {
	listed, err := output(ctx, filepath.Join(dir, "kubeadm"), "config", "images", "list", "--kubernetes-version", kubernetesVersion)
	if err != nil {
		return err
	}
	sandbox, err := sandboxImage(ctx)
	if err != nil {
		return err
	}
	tools, err := netToolsLayer(ctx, root)
	if err != nil {
		return err
	}
	netTools, err := tools.image(dir, "nettools")
	if err != nil {
		return err
	}
	images := map[name.Tag]v1.Image{}
	for _, reference := range append(strings.Fields(listed), sandbox, podnetImage) {
		tag, err := name.NewTag(reference)
		if err != nil {
			return err
		}
		if images[tag], err = programImage(dir, path.Base(tag.RepositoryStr()), netTools); err != nil {
			return fmt.Errorf("image %s: %w", reference, err)
		}
	}
	return tarball.MultiWriteToFile(archive, images)
}

// programImage is an image of the one program of that name, with the tools where it calls them.
func programImage(dir, program string, netTools v1.Layer) (v1.Image, error) {
	files := newLayer()
	install := func(target, compiled string) error { return files.file(target, 0o755, filepath.Join(dir, compiled)) }
	config := v1.Config{Env: []string{searchPath}}
	layers := []v1.Layer{}
	var err error
	switch program {
	case "kube-proxy":
		layers = append(layers, netTools)
		// The name under which kubeadm starts it is the one of the program that chooses iptables' variant first.
		if err = install("usr/local/bin/kube-proxy", "proxystart"); err == nil {
			err = install("usr/local/lib/kube-proxy", "kube-proxy")
		}
	case "podnet":
		layers = append(layers, netTools)
		config.Entrypoint = []string{"/usr/local/bin/podnet"}
		err = install("usr/local/bin/podnet", "podnet")
	case "pause", "coredns":
		config.Entrypoint = []string{"/" + program}
		config.User = "65532:65532"
		if program == "coredns" {
			config.WorkingDir = "/"
		}
		err = install(program, program)
	case "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler":
		err = install("usr/local/bin/"+program, program)
	default:
		err = fmt.Errorf("kubeadm wants it, and nothing here builds it")
	}
	if err != nil {
		return nil, err
	}
	// Programs in images have somewhere to write what is theirs alone.
	files.directory("tmp", fs.ModeSticky|0o777)
	own, err := files.image(dir, "image-"+program)
	if err != nil {
		return nil, err
	}
	return makeImage(config, append(layers, own)...)
}

// makeImage puts the layers one over the other.
func makeImage(config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Config = runtime.GOARCH, "linux", config
	return mutate.ConfigFile(image, file)
}
