package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// kindFiles is the folder with the files that kind puts into a node, inside its own module.
func kindFiles(ctx context.Context) (string, error) {
	dir, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kind")
	if err != nil {
		return "", err
	}
	if dir == "" {
		if err := execute(command(ctx, "go", "mod", "download", "sigs.k8s.io/kind")); err != nil {
			return "", err
		}
		return kindFiles(ctx)
	}
	return filepath.Join(dir, "images", "base", "files"), nil
}

// sandboxImage is the one that kind's configuration of containerd names for a pod's sandbox; kubeadm's may be another.
func sandboxImage(ctx context.Context) (string, error) {
	dir, err := kindFiles(ctx)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "etc/containerd/config.toml")
	config, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^\s*sandbox_image = "([^"]+)"`).FindSubmatch(config)
	if found == nil {
		return "", fmt.Errorf("%s names no sandbox image", file)
	}
	return string(found[1]), nil
}

// importImages starts the root file system's containerd and has it take the images in /images.tar into its store, which
// is /var/lib/containerd. They are not unpacked: a node does that to those that it runs, which are fewer on most, and kind
// copies the whole store into each node's volume.
func importImages(ctx context.Context, root string) error {
	script, err := os.ReadFile("containerd.sh")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "import.sh"), script, 0o755); err != nil {
		return err
	}
	// In namespaces of its own everything that it starts and mounts ends with it.
	return execute(command(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child",
		"sh", "-c", `mount -t proc proc "$0/proc" && exec chroot "$0" /bin/sh /import.sh`, root))
}
