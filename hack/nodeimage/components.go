package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// component is one program compiled from a module.
type component struct {
	name    string
	pkg     string
	module  string // the folder of the module that requires it
	node    bool   // it is a program of the node, not one in an image
	version string // linker flags
}

func componentList() []component {
	const base, client = "k8s.io/component-base/version.", "k8s.io/client-go/pkg/version."
	stamp := strings.Join([]string{
		"-X " + base + "gitVersion=" + kubernetesVersion,
		"-X " + base + "gitMajor=1",
		"-X " + base + "gitMinor=" + strings.Split(kubernetesVersion, ".")[1],
		"-X " + base + "gitTreeState=clean",
		"-X " + client + "gitVersion=" + kubernetesVersion,
	}, " ")
	list := []component{
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"},
		{name: "coredns", pkg: "./coredns"},
		// cri-tools wants newer modules than Kubernetes has, which would have to be compiled anew for all of it.
		{name: "crictl", pkg: "sigs.k8s.io/cri-tools/cmd/crictl", module: "crictl", node: true},
		{name: "pause", pkg: "./pause"},
		{name: "podnet", pkg: "./podnet"},
		{name: "proxystart", pkg: "./proxystart"},
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		list = append(list, component{name: name, pkg: "k8s.io/kubernetes/cmd/" + name, version: stamp})
	}
	for _, name := range []string{"kubeadm", "kubectl", "kubelet"} {
		list = append(list, component{name: name, pkg: "k8s.io/kubernetes/cmd/" + name, version: stamp, node: true})
	}
	return list
}

// buildComponents makes the two layers with compiled programs: dir/programs.tar.gz with those of the node, and
// dir/images.tar.gz with containerd's store, which holds the images of the others.
func buildComponents(ctx context.Context, base, dir string) error {
	work, err := os.MkdirTemp(dir, "work-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	programs := newLayer()
	for _, c := range componentList() {
		slog.Info("compiling", "program", c.name)
		target := filepath.Join(work, c.name)
		if err := compile(ctx, c, target); err != nil {
			return err
		}
		if c.node {
			if err := programs.file("usr/bin/"+c.name, 0o755, target); err != nil {
				return err
			}
		}
	}
	if err := programs.write(filepath.Join(dir, "programs.tar.gz")); err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	if err := unpack(ctx, filepath.Join(base, "layer.tar.gz"), root); err != nil {
		return err
	}
	archive := filepath.Join(root, "images.tar")
	if err := writeImages(ctx, work, root, archive); err != nil {
		return err
	}
	if err := importImages(ctx, root); err != nil {
		return err
	}
	store := filepath.Join(dir, "images.tar.gz")
	// What it holds is compressed already.
	return execute(command(ctx, "tar", "-C", root, "--use-compress-program=gzip -1", "-cf", store, "var/lib/containerd"))
}

func compile(ctx context.Context, c component, target string) error {
	cmd := command(ctx, "nice", "go", "build", "-ldflags", strings.TrimSpace("-s -w "+c.version), "-o", target, c.pkg)
	cmd.Dir = c.module
	// Static programs: they run in images that hold nothing else.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return execute(cmd)
}

func unpack(ctx context.Context, archive, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := execute(command(ctx, "tar", "-C", dir, "--numeric-owner", "-xpf", archive)); err != nil {
		return fmt.Errorf("unpacking a layer: %w", err)
	}
	return nil
}
