// Package controlplane runs the control plane of a lab: etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler, the real ones, each a process of this same binary.
//
// All of it is in one directory: data, certificates, kubeconfigs, logs. etcd answers on a unix socket there,
// kube-apiserver on the host's loopback and inside the lab's network, the others nowhere. Processes are detached: they
// outlive whoever started them, and Stop finds them by the lab's name.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"proxylab/lab/procs"
)

// parts in the order in which they build on one another.
var parts = []string{etcdPart, kubeAPIServer, kubeControllerManager, kubeScheduler}

// ControlPlane is a control plane that works.
type ControlPlane struct {
	paths paths
	state state
}

// Start brings the control plane up, or back up, and returns when the API answers, the controllers have made the
// default service account and the scheduler has seen the cluster. What runs already is left alone, and what died is
// started again on the same data, certificates and ports. A component that ends instead of getting ready makes Start
// fail at once, with the last lines that it wrote.
//
// After an error whatever is up stays up: call Start again, or Stop.
func Start(ctx context.Context, cfg Config) (*ControlPlane, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := cfg.checkMachine(); err != nil {
		return nil, err
	}
	s := &starter{Config: cfg, paths: paths{cfg.Dir}}
	for _, dir := range []string{cfg.Dir, s.run(), s.logs()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("directory of the control plane: %w", err)
		}
	}
	unlock, err := lockFile(ctx, s.lock())
	if err != nil {
		return nil, err
	}
	defer unlock()
	begin := time.Now()
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("control plane of lab %s: %w", cfg.Lab, err)
	}
	cfg.Log.Info("control plane is up", "lab", cfg.Lab, "api", s.state.server(false), "seconds", time.Since(begin).Seconds())
	return &ControlPlane{paths: s.paths, state: s.state}, nil
}

// Server is the URL of the API on this machine's loopback.
func (c *ControlPlane) Server() string { return c.state.server(false) }

// AdminKubeconfig is the path of a kubeconfig with all rights, for kubectl on this machine.
func (c *ControlPlane) AdminKubeconfig() string { return c.paths.kubeconfig(admin.file) }

// AgentKubeconfig is the path of the node agent's kubeconfig, for an agent in this machine's own network.
func (c *ControlPlane) AgentKubeconfig() string { return c.paths.kubeconfig(agent.file) }

// NodeKubeconfig is the path of the node agent's kubeconfig, for use inside the lab's network.
func (c *ControlPlane) NodeKubeconfig() string { return c.paths.kubeconfig(node.file) }

// ProxierKubeconfig is the path of a kubeconfig for use inside the lab's network by the user system:kube-proxy, who
// may read Services, EndpointSlices and Nodes and write Events (the built-in ClusterRole system:node-proxier).
func (c *ControlPlane) ProxierKubeconfig() string { return c.paths.kubeconfig(proxier.file) }

// Stop ends the control plane of a lab, in whatever state it is, and returns when its processes are gone. The
// directory stays, and Start continues with it.
func Stop(ctx context.Context, lab string) error {
	dirs, err := directories(lab)
	if err != nil {
		return fmt.Errorf("stop control plane of lab %s: %w", lab, err)
	}
	var g errgroup.Group
	for _, part := range parts[1:] {
		g.Go(func() error { return procs.Stop(ctx, lab, part, 2*goodbye) })
	}
	err = errors.Join(g.Wait(), procs.Stop(ctx, lab, etcdPart, 2*goodbye), procs.Stop(ctx, lab, backgroundPart, goodbye))
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(paths{dir}.run())) // what a killed process could not take away
	}
	if err != nil {
		return fmt.Errorf("stop control plane of lab %s: %w", lab, err)
	}
	return nil
}

// directories are those that the running components of a lab work in.
func directories(lab string) ([]string, error) {
	running, err := procs.Find(lab)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, p := range running {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err != nil {
			continue // it has just ended
		}
		args := strings.Split(string(b), "\x00")
		for i := 1; i+3 < len(args); i++ {
			if args[i] == "component" && args[i+1] == p.Part && args[i+2] == "--dir" && filepath.IsAbs(args[i+3]) {
				dirs = append(dirs, args[i+3])
			}
		}
	}
	return dirs, nil
}

// lockFile waits for a lock that ends with the process that holds it.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if stop := procs.Sleep(ctx, 50*time.Millisecond); stop != nil {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s is held by another process: %w", path, stop)
		}
	}
}
