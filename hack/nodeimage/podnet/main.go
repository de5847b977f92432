// Podnet is the pod network of the node image: on every node it tells the container runtime which addresses pods get (the
// ptp and host-local plugins), keeps a route to every other node's pods, and masquerades what pods send out of the
// cluster. It serves clusters with IPv4, IPv6 and both, and needs no Service proxy: it asks the API server at its own
// address.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// resync is how often everything is put right again though no node has changed: somebody else may have removed a
	// route or flushed the rules.
	resync = 30 * time.Second
	// startTimeout is how long the API server may take to answer for the first time.
	startTimeout = 2 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("NODE_NAME"), os.Getenv("CONTROL_PLANE_ENDPOINT")); err != nil {
		slog.Error("stopped", "error", err)
		stop()
		os.Exit(1)
	}
}

// run keeps the node's network until the context ends. An empty endpoint means the API server's Service.
func run(ctx context.Context, node, endpoint string) error {
	if node == "" {
		return fmt.Errorf("NODE_NAME is not set: the manifest has to give the node's name")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	if endpoint != "" {
		config.Host = "https://" + endpoint
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	if _, err := nodes.Informer().AddEventHandler(notify(changed)); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	started, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(started.Done(), nodes.Informer().HasSynced) {
		return fmt.Errorf("listing the nodes at %s took more than %v", config.Host, startTimeout)
	}
	list := func() ([]*v1.Node, error) { return nodes.Lister().List(labels.Everything()) }
	return keep(ctx, node, list, changed)
}

// keep applies the network of all nodes whenever one has changed, and again after resync or a failure.
func keep(ctx context.Context, node string, list func() ([]*v1.Node, error), changed <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-timer.C:
		}
		wait := resync
		all, err := list()
		if err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		plan, err := planFor(node, all)
		if err == nil {
			err = plan.apply(ctx)
		}
		switch {
		case err != nil:
			slog.Error("not applied, trying again", "error", err)
			wait = time.Second
		case plan.String() != last:
			last = plan.String()
			slog.Info("applied", "network", last)
		}
		timer.Reset(wait)
	}
}

// notify signals a change at most once until it has been read.
func notify(changed chan<- struct{}) cache.ResourceEventHandlerFuncs {
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal() },
		UpdateFunc: func(any, any) { signal() },
		DeleteFunc: func(any) { signal() },
	}
}
