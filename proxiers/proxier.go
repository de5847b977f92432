// Package proxiers is the list of the Service proxies that a node can run, and how to run each.
//
// A native proxier implements runner.Proxier and is run by runner.Run; an upstream one is the real kube-proxy. What a
// process reports after each sync is the same for both (runner.Report).
package proxiers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"proxylab/proxiers/iptables"
	"proxylab/proxiers/kubeproxy"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/userspace"
)

// Proxier is what a native proxier implements.
type Proxier = runner.Proxier

// Info describes a proxier.
type Info struct {
	Name    string // as on the command line
	Mode    string // the kind of rules: proxiers of one mode use the same names in the kernel
	Native  bool   // ours; otherwise the real kube-proxy
	Summary string
}

// upstream is what the names of the real kube-proxy's modes begin with.
const upstream = "kube-proxy/"

// All lists the proxiers.
func All() []Info {
	return []Info{
		{"userspace", "userspace", true, "a port per Service port, connections carried by the process, as kube-proxy's first mode"},
		{"iptables", "iptables", true, "NAT rules by iptables-restore, with kube-proxy's chain names"},
		{upstream + "iptables", "iptables", false, "the real kube-proxy in mode iptables"},
		{upstream + "nftables", "nftables", false, "the real kube-proxy in mode nftables"},
		{upstream + "ipvs", "ipvs", false, "the real kube-proxy in mode ipvs"},
	}
}

// Lookup finds a proxier. Its error lists the names there are.
func Lookup(name string) (Info, error) {
	all := All()
	names := make([]string, len(all))
	for i, p := range all {
		if p.Name == name {
			return p, nil
		}
		names[i] = p.Name
	}
	return Info{}, fmt.Errorf("proxier %q is not known: accepted are %s", name, strings.Join(names, ", "))
}

// Options say how to run a proxier, on the same terms for all.
type Options struct {
	Name       string // of the proxier
	Node       string // name of this node's Node object
	Kubeconfig string // path
	// MinSyncPeriod is the least time between two syncs, SyncPeriod the most until everything is checked again.
	MinSyncPeriod time.Duration
	SyncPeriod    time.Duration
	Backend       string    // of iptables: "legacy", "nft", "auto"
	Reports       io.Writer // one runner.Report as a JSON line per sync
	Log           *slog.Logger
}

// Run runs a proxier in the network namespace of this process until ctx ends. Its rules stay.
func Run(ctx context.Context, o Options) error {
	info, err := Lookup(o.Name)
	if err != nil {
		return err
	}
	if !info.Native {
		return kubeproxy.Run(ctx, kubeproxy.Options{
			Mode: info.Mode, Node: o.Node, Kubeconfig: o.Kubeconfig, MinSyncPeriod: o.MinSyncPeriod,
			SyncPeriod: o.SyncPeriod, Backend: o.Backend, Reports: o.Reports, Log: o.Log,
		})
	}
	p, closeProxier, err := native(info, o)
	if err != nil {
		return err
	}
	defer closeProxier()
	client, err := runner.Client(o.Kubeconfig)
	if err != nil {
		return err
	}
	return runner.Run(ctx, runner.Config{
		Proxier: p, Mode: info.Mode, Node: o.Node, Client: client, MinSyncPeriod: o.MinSyncPeriod,
		SyncPeriod: o.SyncPeriod, Reports: o.Reports, Log: o.Log,
	})
}

// native makes a proxier of ours, and how to end what it runs beside its rules.
func native(info Info, o Options) (p Proxier, end func(), err error) {
	switch info.Name {
	case "iptables":
		p, err := iptables.New(iptables.Options{Backend: o.Backend, Log: o.Log})
		return p, func() {}, err
	case "userspace":
		p, err := userspace.New(userspace.Options{Backend: o.Backend, Log: o.Log})
		return p, func() {
			if p != nil {
				p.Close()
			}
		}, err
	}
	return nil, nil, fmt.Errorf("proxier %q is not one of ours", info.Name)
}

// Cleanup removes from this network namespace all that proxiers of the named one's mode left in it, and says what of it
// is still there.
func Cleanup(ctx context.Context, o Options) (leftovers []string, err error) {
	info, err := Lookup(o.Name)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	switch info.Mode {
	case "userspace":
		err = userspace.Cleanup(ctx, o.Log)
	case "iptables":
		err = iptables.Cleanup(ctx, o.Log)
	case "ipvs": // whose chains jump to those that it shares with mode iptables
		err = errors.Join(cleanupIPVS(ctx), iptables.Cleanup(ctx, o.Log))
	default:
		err = kubeproxy.Cleanup(ctx, info.Mode)
	}
	leftovers, leftErr := Leftovers(ctx, info.Mode)
	return leftovers, errors.Join(err, leftErr)
}

// Leftovers says what a mode has in this network namespace, one entry for each thing, such as
// "iptables-legacy nat KUBE-SERVICES" or "link kube-ipvs0".
func Leftovers(ctx context.Context, mode string) ([]string, error) {
	switch mode {
	case "userspace":
		return userspace.Leftovers(ctx)
	case "iptables":
		return iptables.Leftovers(ctx)
	case "nftables":
		return kubeproxy.Leftovers(ctx)
	}
	if mode != "ipvs" {
		return nil, fmt.Errorf("there is no mode %q", mode)
	}
	own, err := ipvsLeftovers(ctx)
	shared, sharedErr := iptables.Leftovers(ctx)
	return slices.Concat(own, shared), errors.Join(err, sharedErr)
}

// Preflight says what this machine lacks for a proxier, with the remedy, by trying the real thing in a network namespace
// that is gone afterwards. It needs root.
func Preflight(ctx context.Context, name, backend string) error {
	info, err := Lookup(name)
	if err != nil {
		return err
	}
	mode := info.Mode
	if mode == "userspace" { // its redirects are iptables rules
		mode = "iptables"
	}
	if err := kubeproxy.Preflight(ctx, mode, backend); err != nil {
		if inner := errors.Unwrap(err); inner != nil { // it names the mode of kube-proxy that was tried
			err = inner
		}
		return fmt.Errorf("proxier %s: %w", name, err)
	}
	return nil
}
