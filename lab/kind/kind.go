// Package kind is the lab on a real cluster: nodes are containers that sigs.k8s.io/kind makes, pods are real pods, and the
// upstream proxier is the kube-proxy that the cluster came with.
//
// The nodes are on this machine, and that is made use of: processes on them have numbers here, so that what a proxier costs
// is measured as in the netns lab; their files are below /proc/<pid of the node>/root; and a command runs on a node, or in
// a pod, by entering its namespaces. Nothing is mounted into the nodes and no port of them is opened, so that a
// cluster that was there before (which is then adopted) is as good as one made here.
//
// All that a lab has on the machine can be found by its name: containers by kind's label with the cluster's name, which is
// the lab's, and by our own label; processes by the mark in their environment (package procs), also those on the nodes; and
// files in one directory, /var/lib/proxylab/<name>.
package kind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/netns/fabric"
)

// Kind is what Lab.Kind returns.
const Kind = "kind"

// DefaultNodes is the number of nodes of a lab whose options say none: one with the control plane, one worker.
const DefaultNodes = 2

// MaxNodes bounds what one machine is asked to bear.
const MaxNodes = 16

// Options say what lab to make.
type Options struct {
	// Name is the lab's and the cluster's. A kind cluster of that name that this program did not make is adopted: it is
	// used, and neither made nor deleted.
	Name string
	// Nodes is how many there are in all, one of them with the control plane; all run pods. 0: DefaultNodes, or as many as
	// the cluster has or the configuration file says.
	Nodes      int
	Image      string // of the nodes; empty: the configuration file's, or kind's own default
	ConfigFile string // the user's own kind configuration; empty: one is generated
	Executable string // the binary that runs on the nodes and in pods, linked statically; empty: this one
	Proxier    *lab.ProxierSpec
	LBaaS      *lab.LBaaSSpec // load balancers for Services of type LoadBalancer; nil: none
	// Fill puts objects into the cluster once its nodes are ready; nil: none.
	Fill func(ctx context.Context, kubeconfig string) error
	Log  *slog.Logger // progress; nil: slog.Default()
}

// Lab is a lab on kind. It is a name and options; what there is, is looked up when it is first needed.
type Lab struct {
	opts   Options
	log    *slog.Logger
	docker docker

	mu         sync.Mutex
	containers []container // of the nodes, node 1 first; nil: not looked up
	client     *api        // nil: not connected
}

var _ lab.Lab = (*Lab)(nil)

// New checks the options and returns a lab that Up can make, adopt, or complete if it is there. The error names every
// mistake.
func New(o Options) (*Lab, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	errs := []error{fabric.ValidName(o.Name)}
	if o.Nodes < 0 || o.Nodes > MaxNodes {
		errs = append(errs, fmt.Errorf("%d nodes: want 1 to %d", o.Nodes, MaxNodes))
	}
	if o.ConfigFile != "" {
		if o.Nodes > 0 {
			errs = append(errs, errors.New("the nodes are what the kind configuration says: give it or a number of nodes"))
		}
		if _, err := readConfig(o.ConfigFile); err != nil {
			errs = append(errs, err)
		}
	}
	if o.Executable == "" {
		exe, err := os.Executable()
		if err != nil {
			errs = append(errs, fmt.Errorf("find this program's own file: %w", err))
		}
		o.Executable = exe
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Lab{opts: o, log: o.Log.With("lab", o.Name)}, nil
}

// Open finds a lab that Up was called for. Its error is fs.ErrNotExist where there is none of that name.
func Open(name string) (*Lab, error) {
	if err := fabric.ValidName(name); err != nil {
		return nil, err
	}
	s, err := loadState(name)
	if err != nil {
		return nil, err
	}
	return New(Options{Name: name, Image: s.Image, Proxier: s.Proxier})
}

// Adopted says whether the cluster of a lab was there before it.
func Adopted(name string) bool {
	s, err := loadState(name)
	return err == nil && s.Adopted
}

// Name returns the lab's name.
func (l *Lab) Name() string { return l.opts.Name }

// Kind returns "kind".
func (l *Lab) Kind() string { return Kind }

// Kubeconfig is the path of a kubeconfig with all rights, for this machine.
func (l *Lab) Kubeconfig() string { return labdir.Kubeconfig(l.Name(), "admin") }

// Nodes lists the nodes: workers first, so that the first is one where there is any, then those with a control plane.
func (l *Lab) Nodes(ctx context.Context) ([]lab.Node, error) {
	all, err := l.nodes(ctx)
	if err != nil {
		return nil, err
	}
	var nodes []lab.Node
	for _, c := range all {
		nodes = append(nodes, lab.Node{Name: c.Name, Addresses: c.Addresses})
	}
	return nodes, nil
}

// nodes are the containers of the nodes. They are looked up once, and again after a node has been started anew.
func (l *Lab) nodes(ctx context.Context) ([]container, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.containers != nil && allRun(l.containers) {
		return l.containers, nil
	}
	all, err := l.docker.nodes(ctx, l.Name())
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("cluster %s has no nodes", l.Name())
	}
	for _, c := range all {
		if c.PID == 0 {
			return nil, fmt.Errorf("node %s does not run: docker start %s", c.Name, c.Name)
		}
	}
	l.containers = all
	return all, nil
}

// node finds a node by its name.
func (l *Lab) node(ctx context.Context, name string) (container, error) {
	all, err := l.nodes(ctx)
	if err != nil {
		return container{}, err
	}
	names := make([]string, len(all))
	for i, c := range all {
		if c.Name == name {
			return c, nil
		}
		names[i] = c.Name
	}
	return container{}, fmt.Errorf("lab %s has no node %q: it has %v", l.Name(), name, names)
}
