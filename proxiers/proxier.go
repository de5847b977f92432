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
	"proxylab/proxiers/ipvs"
	"proxylab/proxiers/kubeproxy"
	"proxylab/proxiers/nftables"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/userspace"
)

// Proxier is what a native proxier implements.
type Proxier = runner.Proxier

// Info describes a proxier.
type Info struct {
	Name    string // as on the command line
	Mode    string // the kind of rules
	Native  bool   // ours; otherwise the real kube-proxy
	Summary string
}

// Rules says whose rules the proxier writes: those with the same word use the same names in the kernel, and take over from
// one another what is there. In mode nftables each has tables of its own.
func (p Info) Rules() string {
	if p.Mode == "nftables" {
		return p.Name
	}
	return p.Mode
}

// upstream is what the names of the real kube-proxy's modes begin with.
const upstream = "kube-proxy/"

// All lists the proxiers.
func All() []Info {
	return []Info{
		{"userspace", "userspace", true, "a port per Service port, connections carried by the process, as kube-proxy's first mode"},
		{"iptables", "iptables", true, "NAT rules by iptables-restore, with kube-proxy's chain names"},
		{"nftables", "nftables", true, "maps of Services and endpoints in tables of its own; the rules do not grow with them"},
		{"ipvs", "ipvs", true, "IPVS virtual servers on kube-ipvs0 and ipsets, with kube-proxy's names"},
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
	Scheduler     string    // of IPVS, one of ipvs.Schedulers; empty: its default
	Fallback      string    // proxier to run where this machine cannot run the named one; empty: none
	TakenOverBy   string    // for Cleanup: the proxier that runs now, whose rules stay; empty: none
	TakeOver      bool      // for Run of a native proxier: after the first full sync, TakeOver
	Reports       io.Writer // one runner.Report as a JSON line per sync
	Log           *slog.Logger
}

// Run runs a proxier in the network namespace of this process until ctx ends. Its rules stay. Where there is a fallback,
// which one runs is decided first (Choose), and said in the log and in every report.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Fallback != "" {
		name, refusal, err := Choose(ctx, o)
		if err != nil {
			return err
		}
		if refusal != nil {
			o.Log.Warn("the proxier asked for cannot run here, its fallback runs in its place", "asked", o.Name, "runs", name, "because", refusal)
			o.Name = name
		}
	}
	info, err := Lookup(o.Name)
	if err != nil {
		return err
	}
	if !info.Native {
		return kubeproxy.Run(ctx, kubeproxy.Options{
			Mode: info.Mode, Node: o.Node, Kubeconfig: o.Kubeconfig, MinSyncPeriod: o.MinSyncPeriod,
			SyncPeriod: o.SyncPeriod, Backend: o.Backend, Scheduler: o.Scheduler, Reports: o.Reports, Log: o.Log,
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
	config := runner.Config{
		Proxier: p, Name: info.Name, Mode: info.Mode, Node: o.Node, Client: client, MinSyncPeriod: o.MinSyncPeriod,
		SyncPeriod: o.SyncPeriod, Reports: o.Reports, Log: o.Log,
	}
	if o.TakeOver {
		config.FirstSynced = func(ctx context.Context) {
			leftovers, err := TakeOver(ctx, info, o.Log)
			if err != nil || len(leftovers) > 0 {
				o.Log.Warn("something of other proxiers is still on the node", "what", leftovers, "error", err)
			}
		}
	}
	return runner.Run(ctx, config)
}

// native makes a proxier of ours, and how to end what it runs beside its rules.
func native(info Info, o Options) (p Proxier, end func(), err error) {
	switch info.Name {
	case "iptables":
		p, err := iptables.New(iptables.Options{Backend: o.Backend, Log: o.Log})
		return p, func() {}, err
	case "nftables":
		p, err := nftables.New(nftables.Options{Log: o.Log})
		return p, func() {}, err
	case "ipvs":
		p, err := ipvs.New(ipvs.Options{Scheduler: o.Scheduler, Backend: o.Backend, Log: o.Log})
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

// Cleanup removes from this network namespace all that proxiers of the named one's mode, and of its fallback's, left in
// it, and says what of it is still there. What the proxier in TakenOverBy needs stays: its own mode, and of the modes
// iptables and ipvs the chains that both have, which the one that runs has written.
func Cleanup(ctx context.Context, o Options) (leftovers []string, err error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	now := ""
	if info, err := Lookup(o.TakenOverBy); err == nil {
		now = info.Rules()
	} else if o.TakenOverBy != "" {
		return nil, err
	}
	var errs []error
	var old []Info
	for _, name := range []string{o.Name, o.Fallback} {
		if name == "" {
			continue
		}
		info, err := Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		old = append(old, info)
	}
	leftovers, err = cleanup(ctx, old, now, o.Log)
	return leftovers, errors.Join(append(errs, err)...)
}

// TakeOver removes from this network namespace all that proxiers with other rules than this one's left in it, and says what
// of it is still there.
func TakeOver(ctx context.Context, by Info, log *slog.Logger) (leftovers []string, err error) {
	leftovers, err = cleanup(ctx, All(), by.Rules(), log)
	slices.Sort(leftovers)
	return slices.Compact(leftovers), err // modes that share chains name them twice
}

// cleanup removes what these proxiers left, each mode's once, but for the rules that are in use now.
func cleanup(ctx context.Context, old []Info, now string, log *slog.Logger) (leftovers []string, err error) {
	var errs []error
	var done []string
	for _, info := range old {
		if info.Rules() == now || slices.Contains(done, info.Mode) {
			continue
		}
		done = append(done, info.Mode)
		left, err := cleanupMode(ctx, info.Mode, now, log)
		leftovers, errs = append(leftovers, left...), append(errs, err)
	}
	return leftovers, errors.Join(errs...)
}

// OwnCleanup does what "kube-proxy --cleanup" does, no more, in this network namespace: for seeing what that leaves behind.
func OwnCleanup(name string) error {
	info, err := Lookup(name)
	if err != nil {
		return err
	}
	if info.Native {
		return fmt.Errorf("%s is not kube-proxy: its clean-up is Cleanup", name)
	}
	return kubeproxy.OwnCleanup()
}

func cleanupMode(ctx context.Context, mode, now string, log *slog.Logger) (leftovers []string, err error) {
	switch {
	case mode == "userspace":
		err = userspace.Cleanup(ctx, log)
	case mode == "iptables" && now == "ipvs":
		err = cleanupIPTablesUnderIPVS(ctx, log)
	case mode == "iptables":
		err = iptables.Cleanup(ctx, log)
	case mode == "ipvs" && now == "iptables":
		err = ipvs.Cleanup(ctx, true, log)
	case mode == "ipvs": // rules of mode iptables may lead to chains that it shares
		err = errors.Join(ipvs.Cleanup(ctx, false, log), iptables.Cleanup(ctx, log))
	default:
		return cleanupNFTables(ctx, now)
	}
	if mode == "ipvs" && now == "iptables" { // what that has is no leftover
		left, leftErr := ipvs.Leftovers(ctx)
		return left, errors.Join(err, leftErr)
	}
	leftovers, leftErr := Leftovers(ctx, mode)
	if mode == "iptables" && now == "ipvs" {
		leftovers = slices.DeleteFunc(leftovers, isShared)
	}
	return leftovers, errors.Join(err, leftErr)
}

// cleanupNFTables removes the tables of ours and kube-proxy's, but for those that are in use now.
func cleanupNFTables(ctx context.Context, now string) (leftovers []string, err error) {
	var errs []error
	if now != "nftables" {
		err := nftables.Cleanup(ctx)
		left, leftErr := nftables.Leftovers(ctx)
		leftovers, errs = append(leftovers, left...), append(errs, err, leftErr)
	}
	if now != upstream+"nftables" {
		err := kubeproxy.Cleanup(ctx, "nftables")
		left, leftErr := kubeproxy.Leftovers(ctx)
		leftovers, errs = append(leftovers, left...), append(errs, err, leftErr)
	}
	return leftovers, errors.Join(errs...)
}

// isShared says whether a leftover is a chain that the modes iptables and ipvs both have.
func isShared(leftover string) bool {
	words := strings.Fields(leftover)
	return len(words) == 3 && ipvs.IsSharedChain(words[2])
}

// cleanupIPTablesUnderIPVS removes what mode iptables alone has, while ipvs runs in chains of the same names.
func cleanupIPTablesUnderIPVS(ctx context.Context, log *slog.Logger) error {
	return errors.Join(ipvs.RemoveOtherMode(ctx, log), iptables.CleanupExcept(ctx, ipvs.IsSharedChain, log))
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
		own, err := nftables.Leftovers(ctx)
		theirs, theirErr := kubeproxy.Leftovers(ctx)
		return slices.Concat(own, theirs), errors.Join(err, theirErr)
	}
	if mode != "ipvs" {
		return nil, fmt.Errorf("there is no mode %q", mode)
	}
	own, err := ipvs.Leftovers(ctx)
	shared, sharedErr := iptables.Leftovers(ctx)
	return slices.Concat(own, shared), errors.Join(err, sharedErr)
}

// Preflight says what this machine lacks for a proxier, with the remedy, by trying the real thing in a network namespace
// that is gone afterwards. It needs root.
func Preflight(ctx context.Context, name, backend string) error {
	return preflight(ctx, Options{Name: name, Backend: backend})
}

func preflight(ctx context.Context, o Options) error {
	info, err := Lookup(o.Name)
	if err != nil {
		return err
	}
	mode := info.Mode
	if mode == "ipvs" { // both the native one and kube-proxy need the same of the kernel
		if err := ipvs.Preflight(ctx, o.Scheduler); err != nil {
			return fmt.Errorf("proxier %s: %w", o.Name, err)
		}
	}
	if info.Native && mode == "nftables" {
		if err := nftables.Preflight(ctx); err != nil {
			return fmt.Errorf("proxier %s: %w", o.Name, err)
		}
		return nil
	}
	if mode == "userspace" { // its redirects are iptables rules
		mode = "iptables"
	}
	if err := kubeproxy.Preflight(ctx, mode, o.Backend); err != nil {
		if inner := errors.Unwrap(err); inner != nil { // it names the mode of kube-proxy that was tried
			err = inner
		}
		return fmt.Errorf("proxier %s: %w", o.Name, err)
	}
	return nil
}

// Choose says which proxier these options come to on this machine: the named one or, if that cannot run here, its
// fallback; then refusal says why. The error is that neither can.
func Choose(ctx context.Context, o Options) (name string, refusal, err error) {
	refusal = preflight(ctx, o)
	if refusal == nil {
		return o.Name, nil, nil
	}
	if o.Fallback == "" || o.Fallback == o.Name {
		return "", nil, refusal
	}
	other := o
	other.Name = o.Fallback
	if err := preflight(ctx, other); err != nil {
		return "", nil, errors.Join(refusal, fmt.Errorf("nor can its fallback: %w", err))
	}
	return o.Fallback, refusal, nil
}
