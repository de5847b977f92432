// Package netns is the embedded lab: nodes and pods are network namespaces of this machine, the control plane is real.
//
// All that a lab has on the machine can be found by its name: processes by a mark in their environment (package
// procs), namespaces by the names of their files (package fabric), and files in one directory, /var/lib/proxylab/<name>.
// That is why any proxylab process can use or remove a lab that another one made, or was killed while making.
package netns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"proxylab/lab"
	"proxylab/lab/controlplane"
	"proxylab/lab/labdir"
	"proxylab/lab/netns/fabric"
)

// Kind is what Lab.Kind returns.
const Kind = "netns"

// DefaultNodes is the number of nodes of a lab whose options say none.
const DefaultNodes = 2

// Options say what lab to make.
type Options struct {
	Name       string                  // a DNS label, at most 40 characters
	Nodes      int                     // 1 to fabric.MaxNodes; 0: DefaultNodes, or as many as the lab has already
	Executable string                  // the binary whose sub-commands the lab's processes are; empty: this one
	Background controlplane.Background // dummy Services that are there from the start
	CacheDir   string                  // for populated control plane data; empty: the user's cache directory
	Proxier    *lab.ProxierSpec        // what Up starts on each node that has none; nil: nothing
	LBaaS      *lab.LBaaSSpec          // load balancers for Services of type LoadBalancer; nil: none
	Log        *slog.Logger            // progress; nil: slog.Default()
}

// Lab is a lab of network namespaces. It is a name and options; what there is, is looked up each time.
type Lab struct {
	opts Options
	log  *slog.Logger // of the options, with the lab's name
}

var _ lab.Lab = (*Lab)(nil)

// New checks the options and returns a lab that Up can make, or complete if it is there. The error names every
// mistake.
func New(o Options) (*Lab, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	errs := []error{fabric.ValidName(o.Name)}
	if o.Nodes < 0 || o.Nodes > fabric.MaxNodes {
		errs = append(errs, fmt.Errorf("%d nodes: want 1 to %d", o.Nodes, fabric.MaxNodes))
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
	if isOther(name) {
		return nil, fmt.Errorf("lab %s is of kind %s, not %s: %w", name, s.Kind, Kind, fs.ErrNotExist)
	}
	o := Options{Name: name, Nodes: s.Nodes, Background: s.Background, Proxier: s.Proxier}
	if s.LBaaS != nil {
		o.LBaaS = &s.LBaaS.LBaaSSpec
	}
	return New(o)
}

// Name returns the lab's name.
func (l *Lab) Name() string { return l.opts.Name }

// Kind returns "netns".
func (l *Lab) Kind() string { return Kind }

// Kubeconfig is the path of a kubeconfig with all rights, for this machine.
func (l *Lab) Kubeconfig() string { return l.kubeconfig("admin") }

// Dir is the directory with everything that the lab writes: logs, reports, certificates, data.
func (l *Lab) Dir() string { return labdir.Dir(l.opts.Name) }

// kubeconfig is where the control plane, whose directory is the lab's, keeps the one for an identity.
func (l *Lab) kubeconfig(identity string) string {
	return labdir.Kubeconfig(l.Name(), identity)
}

// plan is the lab's address plan. The lab that is there has the say over its size.
func (l *Lab) plan() (fabric.Plan, error) {
	s, err := loadState(l.opts.Name)
	if err != nil {
		return fabric.Plan{}, err
	}
	return fabric.Plan{Lab: s.Name, Count: s.Nodes}, nil
}

// node finds a node of the lab.
func (l *Lab) node(name string) (fabric.Node, error) {
	p, err := l.plan()
	if err != nil {
		return fabric.Node{}, err
	}
	return p.Node(name)
}

// Nodes lists the nodes, node1 first.
func (l *Lab) Nodes(context.Context) ([]lab.Node, error) {
	p, err := l.plan()
	if err != nil {
		return nil, err
	}
	var nodes []lab.Node
	for _, n := range p.Nodes() {
		nodes = append(nodes, toNode(n))
	}
	return nodes, nil
}

func toNode(n fabric.Node) (out lab.Node) {
	out.Name = n.Name
	out.Addresses = append(out.Addresses, n.Addr4.Addr(), n.Addr6.Addr())
	return out
}
