// Nodeimage assembles a node image for kind without any registry: Debian's packages, Kubernetes, etcd and CoreDNS
// compiled from the Go module proxy, kind's own files from its module, and a small pod network. It prints the image's
// name, which says what it was made from; where Docker has that image there is nothing to do. Parts are kept under
// ${XDG_CACHE_HOME:-~/.cache}/proxylab/nodeimage, so that a Docker daemon that has lost the image gets it back at once.
//
// It is started by "make node-image", as root: mmdebstrap and chroot want that.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	kubernetesVersion = "v1.37.2"
	repository        = "proxylab/node"
)

func main() {
	output := flag.String("output", "", "write the image to this file (docker load reads it), not to the Docker daemon")
	agnhost := flag.String("agnhost", "", "this program, compiled: make the image of the pods of Kubernetes' own tests instead")
	reference := flag.String("name", "", "with -agnhost: the image's name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := start(ctx, *agnhost, *reference, *output); err != nil {
		slog.Error("no node image", "error", err)
		stop()
		os.Exit(1)
	}
}

// start makes the one image or the other.
func start(ctx context.Context, agnhost, reference, output string) error {
	c, err := openCache()
	if err != nil {
		return err
	}
	if agnhost == "" {
		return run(ctx, c, output)
	}
	if reference == "" || output == "" {
		return fmt.Errorf("-agnhost wants -name and -output too")
	}
	return writeAgnhost(ctx, c, agnhost, reference, output)
}

// run makes the image, gives it to Docker or writes it to the output file, and prints its name on stdout.
func run(ctx context.Context, c partsCache, output string) error {
	started := time.Now()
	keys, err := newKeys(ctx)
	if err != nil {
		return err
	}
	name := repository + ":" + kubernetesVersion + "-" + keys.image
	if output == "" && imageExists(ctx, name) {
		fmt.Println(name)
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("assembling a root file system takes root: sudo make node-image")
	}
	base, err := c.part(ctx, "base", keys.base, buildBase)
	if err != nil {
		return err
	}
	components, err := c.part(ctx, "components", keys.components, func(ctx context.Context, dir string) error {
		return buildComponents(ctx, base, dir)
	})
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "nodeimage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	image, err := nodeImage(ctx, work, base, components)
	if err != nil {
		return err
	}
	if err := deliver(ctx, name, image, output); err != nil {
		return err
	}
	slog.Info("the node image is ready", "image", name, "took", time.Since(started).Round(time.Second))
	fmt.Println(name)
	return nil
}
