// Package conform lets package conformance try its behaviours in a lab.
package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"proxylab/lab"
	"proxylab/proxiers"
	"proxylab/proxiers/conformance"
	"proxylab/proxiers/runner"
)

// Cluster is a lab as package conformance sees it.
type Cluster struct {
	lab    lab.Lab
	client kubernetes.Interface
	nodes  []conformance.Node
	specs  map[string]lab.ProxierSpec // by name

	mu       sync.Mutex
	backends map[string]string // by proxier
}

var _ conformance.Cluster = (*Cluster)(nil)

// New looks at a lab that is up. Proxiers are started as the specs say.
func New(ctx context.Context, l lab.Lab, specs []lab.ProxierSpec) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of lab %s: %w", l.Name(), err)
	}
	config.QPS, config.Burst = 500, 1000
	config.UserAgent = "proxylab-conformance"
	config.WarningHandler = rest.NoWarnings{} // that externalIPs are deprecated is no news
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	nodes, err := l.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{lab: l, client: client, specs: map[string]lab.ProxierSpec{}, backends: map[string]string{}}
	for _, n := range nodes {
		c.nodes = append(c.nodes, conformance.Node{Name: n.Name, Addresses: n.Addresses})
	}
	for _, s := range specs {
		c.specs[s.Name] = s
	}
	return c, nil
}

// Proxiers describes the named proxiers.
func Proxiers(names []string) ([]conformance.Proxier, error) {
	var all []conformance.Proxier
	var errs []error
	for _, name := range names {
		info, err := proxiers.Lookup(name)
		all, errs = append(all, conformance.Proxier{Name: info.Name, Mode: info.Mode, Native: info.Native}), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// Kind is the lab's.
func (c *Cluster) Kind() string { return c.lab.Kind() }

// Client has all rights.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Labels are of what is made in the lab.
func (c *Cluster) Labels() map[string]string { return map[string]string{lab.MadeLabel: lab.Manager} }

// Nodes are the lab's.
func (c *Cluster) Nodes() []conformance.Node { return c.nodes }

// Backends says by which iptables back end each proxier programmed its rules, where it told.
func (c *Cluster) Backends() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backends
}

// Exec runs a program in the lab.
func (c *Cluster) Exec(ctx context.Context, at conformance.Place, cmd conformance.Command) (conformance.Process, error) {
	return c.lab.Exec(ctx, lab.Place{Node: at.Node, Namespace: at.Namespace, Pod: at.Pod},
		lab.Command{Args: cmd.Args, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr})
}

func (c *Cluster) spec(p conformance.Proxier) (lab.ProxierSpec, error) {
	s, ok := c.specs[p.Name]
	if !ok {
		return s, fmt.Errorf("nobody said how to run proxier %s", p.Name)
	}
	return s, nil
}

// Start starts a proxier on a node.
func (c *Cluster) Start(ctx context.Context, node string, p conformance.Proxier) error {
	spec, err := c.spec(p)
	if err != nil {
		return err
	}
	if err := c.lab.StartProxier(ctx, node, spec); err != nil {
		return err
	}
	state, err := c.Running(ctx, node)
	if err == nil && state.Backend != "" {
		c.mu.Lock()
		c.backends[p.Name] = state.Backend
		c.mu.Unlock()
	}
	return err
}

// Stop ends the proxier of a node.
func (c *Cluster) Stop(ctx context.Context, node string) error { return c.lab.StopProxier(ctx, node) }

// Kill ends the proxier of a node as a crash does: what it has started goes on by itself. Another may run there when Kill returns:
// a kubelet starts one anew.
func (c *Cluster) Kill(ctx context.Context, node string) error {
	is, err := c.lab.Proxier(ctx, node)
	if err != nil || is == nil {
		return err
	}
	if err := unix.Kill(is.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill the proxier of %s: %w", node, err)
	}
	for {
		left, err := c.lab.Proxier(ctx, node)
		if err != nil || left == nil || left.PID != is.PID {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill the proxier of %s: %w", node, context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Cleanup removes a mode's rules from a node.
func (c *Cluster) Cleanup(ctx context.Context, node string, p conformance.Proxier) ([]string, error) {
	spec, err := c.spec(p)
	if err != nil {
		return nil, err
	}
	return c.lab.CleanupProxier(ctx, node, spec)
}

// Running reads what the proxier of a node reported last.
func (c *Cluster) Running(ctx context.Context, node string) (conformance.State, error) {
	is, err := c.lab.Proxier(ctx, node)
	if err != nil {
		return conformance.State{}, err
	}
	if is == nil {
		return conformance.State{}, fmt.Errorf("no proxier runs on %s", node)
	}
	state := conformance.State{Proxier: is.Name, Log: tail(is.Log)}
	lines := strings.Split(strings.TrimSpace(tail(is.Reports)), "\n")
	var report struct {
		runner.Report
		Proxier string
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err == nil { // a line that is being written: next time
		state.Backend, state.Error = report.Backend, report.Error
		if report.Proxier != "" {
			state.Proxier = report.Proxier
		}
	}
	return state, nil
}

// tail is the end of a file; empty where there is none.
func tail(path string) string {
	const most = 16 << 10
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(b)
}

// TakeOver stops the proxiers that run in a lab that is not the run's own and removes their rules. What is returned
// starts them again.
func (c *Cluster) TakeOver(ctx context.Context) (giveBack func(context.Context) error, err error) {
	ran := map[string]lab.ProxierSpec{}
	giveBack = func(ctx context.Context) error {
		var errs []error
		for node, spec := range ran {
			errs = append(errs, c.lab.StartProxier(ctx, node, spec))
		}
		return errors.Join(errs...)
	}
	for _, n := range c.nodes {
		is, err := c.lab.Proxier(ctx, n.Name)
		if err != nil {
			return giveBack, err
		}
		if is == nil {
			continue
		}
		if err := c.lab.StopProxier(ctx, n.Name); err != nil {
			return giveBack, err
		}
		ran[n.Name] = is.ProxierSpec
		if _, err := c.lab.CleanupProxier(ctx, n.Name, is.ProxierSpec); err != nil {
			return giveBack, err
		}
	}
	return giveBack, nil
}
