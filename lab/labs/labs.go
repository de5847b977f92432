// Package labs knows all kinds of labs: it makes one of the kind asked for, and finds one by its name alone.
package labs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"proxylab/lab"
	"proxylab/lab/controlplane"
	"proxylab/lab/kind"
	"proxylab/lab/labdir"
	"proxylab/lab/netns"
	"proxylab/lab/netns/fabric"
)

// Default is the kind of lab that is made when nobody says which.
const Default = netns.Kind

// Kinds lists the kinds of labs.
func Kinds() []string { return []string{netns.Kind, kind.Kind} }

// Options say what lab to make. Those below the line are for kind alone.
type Options struct {
	Kind       string
	Name       string
	Nodes      int // 0: as the kind of lab has by default, or as many as there are
	Background controlplane.Background
	Proxier    *lab.ProxierSpec // nil: none
	LBaaS      *lab.LBaaSSpec   // load balancers; nil: none
	Log        *slog.Logger

	Image      string // of the nodes
	ConfigFile string // the user's own kind configuration
}

// Validate says all that is wrong with the options, before anything is looked at.
func (o Options) Validate() error {
	var errs []error
	if !slices.Contains(Kinds(), o.Kind) {
		return fmt.Errorf("kind of lab %q: accepted are %s", o.Kind, strings.Join(Kinds(), ", "))
	}
	if o.Kind != kind.Kind && (o.Image != "" || o.ConfigFile != "") {
		errs = append(errs, errors.New("an image of nodes and a kind configuration are for labs of kind \"kind\""))
	}
	if o.Nodes < 0 || o.Nodes > MaxNodes(o.Kind) {
		errs = append(errs, fmt.Errorf("%d nodes: accepted are 1 to %d", o.Nodes, MaxNodes(o.Kind)))
	}
	return errors.Join(errs...)
}

// MaxNodes is the most nodes that a lab of a kind may have.
func MaxNodes(k string) int {
	if k == kind.Kind {
		return kind.MaxNodes
	}
	return fabric.MaxNodes
}

// Elastic says whether nodes of such a lab can come and go (lab.Elastic).
func Elastic(k string) bool { return k == netns.Kind }

// HostTools says whether the nodes of such a lab use this machine's programs, so that what this machine lacks is lacking
// there. Otherwise they have their own.
func HostTools(k string) bool { return k == netns.Kind }

// New checks the options and returns a lab that Up can make, or complete if it is there.
func New(o Options) (lab.Lab, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Kind == kind.Kind {
		return kind.New(kind.Options{Name: o.Name, Nodes: o.Nodes, Image: o.Image, ConfigFile: o.ConfigFile,
			Proxier: o.Proxier, LBaaS: o.LBaaS, Fill: fill(o.Background), Log: o.Log})
	}
	return netns.New(netns.Options{Name: o.Name, Nodes: o.Nodes, Background: o.Background, Proxier: o.Proxier, LBaaS: o.LBaaS, Log: o.Log})
}

// fill puts the background into a cluster through its API; nil where there is none.
func fill(b controlplane.Background) func(context.Context, string) error {
	if b.Services == 0 {
		return nil
	}
	return b.Create
}

// Open finds a lab that is up, of whatever kind. Its error is fs.ErrNotExist where there is none of that name.
func Open(name string) (lab.Lab, error) {
	if k, err := labdir.Kind(name); err == nil && k == kind.Kind {
		return kind.Open(name)
	}
	return netns.Open(name)
}

// List lists all labs on this machine, sorted by name, also what a crash left of one.
func List(ctx context.Context) ([]lab.Info, error) {
	all, err := netns.List(ctx)
	if err != nil {
		return nil, err
	}
	more, err := kind.List(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, more...)
	slices.SortFunc(all, func(a, b lab.Info) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Remove takes down whatever a lab of that name has on this machine. Its error is fs.ErrNotExist where there is nothing.
func Remove(ctx context.Context, name string) error {
	if k, err := labdir.Kind(name); err == nil && k == kind.Kind {
		l, err := kind.Open(name)
		if err != nil {
			return err
		}
		return l.Down(ctx)
	}
	return netns.Remove(ctx, name)
}

// DownAll takes down every lab, of whatever kind, also what a crash left of one.
func DownAll(ctx context.Context) error {
	return errors.Join(kind.DownAll(ctx), netns.DownAll(ctx))
}

// Exists says whether there is a lab of that name, of whatever kind.
func Exists(name string) bool {
	_, err := labdir.Kind(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// Adopted says whether the cluster of a lab was there before it, and stays.
func Adopted(name string) bool { return kind.Adopted(name) }

// Preflight says what this machine lacks for labs of a kind, with that many nodes.
func Preflight(ctx context.Context, k string, nodes int) []lab.Missing {
	if k == kind.Kind {
		return kind.Preflight(ctx, nodes)
	}
	return netns.Preflight()
}
