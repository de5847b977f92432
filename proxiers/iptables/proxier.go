package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"proxylab/proxiers/conntrack"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// Options for New.
type Options struct {
	// Backend is "legacy", "nft", or "auto" (also empty), which takes the one that the node uses.
	Backend string
	// Families to serve; both if empty. IPv6 is left out, with a note, where the kernel lacks it.
	Families []services.Family
	// Log is slog.Default() if nil.
	Log *slog.Logger
}

// Proxier is the native iptables proxier of the network namespace that it was made in.
type Proxier struct {
	backend  string
	notes    []string
	families []*family
	flows    interface {
		Sync(context.Context, services.Snapshot) (int, error)
	}
	watch    watch
	sys      sysctls
	log      *slog.Logger
	loopback bool // node ports on 127.0.0.1 were made possible, or that failed and was said
}

var _ runner.Proxier = (*Proxier)(nil)

// New looks for the tools and for what the kernel can do. It fails where a tool is missing (the error names it and its
// Debian package) or the kernel lacks iptables; nothing is changed yet.
func New(o Options) (*Proxier, error) {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	ctx := context.Background() // each tool has its own time limit
	backend, reason, err := xtables.ChooseBackend(ctx, o.Backend)
	if err != nil {
		return nil, err
	}
	if reason != "" {
		log.Info("iptables back end chosen", "backend", backend, "because", reason)
	}
	p := &Proxier{backend: backend, log: log, sys: sysctls{"/proc/sys"}, flows: conntrack.New(conntrack.Options{Log: log})}
	if p.backend == xtables.BackendNFT {
		p.watch.generation = nftGeneration
	}
	families := o.Families
	if len(families) == 0 {
		families = []services.Family{services.IPv4, services.IPv6}
	}
	for _, f := range families {
		tool, err := xtables.Open(ctx, f, p.backend, tableNat, tableFilter)
		switch {
		case err == nil:
			p.addFamily(f, tool, tool.RandomFully())
		case f == services.IPv6 && len(o.Families) == 0:
			p.notes = append(p.notes, fmt.Sprintf("IPv6 is left out: %v", err))
			log.Warn("IPv6 is left out", "error", err)
		default:
			return nil, err
		}
	}
	return p, nil
}

func (p *Proxier) addFamily(f services.Family, t xtables.Tool, randomFully bool) *family {
	fam := &family{name: f, tool: t, sys: p.sys, log: p.log, now: time.Now, threshold: LargeThreshold,
		base: env{v6: f == services.IPv6, randomFully: randomFully}}
	if p.backend == xtables.BackendNFT {
		fam.batch.chunk = nftChunk
	}
	p.families = append(p.families, fam)
	return fam
}

// Backend is the back end in use: "legacy" or "nft".
func (p *Proxier) Backend() string { return p.backend }

// Notes say what was left out and why; empty if nothing was.
func (p *Proxier) Notes() []string { return p.notes }

// Sync implements runner.Proxier. Both families are written side by side; when one fails the other is still finished.
func (p *Proxier) Sync(ctx context.Context, want services.Snapshot) (runner.SyncReport, error) {
	p.loopbackNodePorts(want)
	untouched := p.watch.begin()
	var report runner.SyncReport
	whole, errs := make([]bool, len(p.families)), make([]error, len(p.families))
	var g errgroup.Group
	for i, f := range p.families {
		f.untouched = untouched
		g.Go(func() error {
			if whole[i], errs[i] = f.sync(ctx, want); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", f.name, errs[i])
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, all of them
	rules, chains, commits, sure := 0, 0, 0, true
	for i, f := range p.families {
		report.Full = report.Full || whole[i]
		commits, sure = commits+f.commits, sure && f.sure && errs[i] == nil
		r, c := f.mirror.objects()
		rules, chains = rules+r, chains+c
	}
	p.watch.end(sure, commits)
	if err := errors.Join(errs...); err != nil {
		return report, err
	}
	report.Objects = map[string]int{"rules": rules, "chains": chains}
	removed, err := p.flows.Sync(ctx, want)
	report.StaleFlows = removed
	if err != nil {
		// The rules are right. What is left over is tried again at the next sync.
		p.log.Warn("stale UDP flows were not all removed", "error", err)
	}
	return report, nil
}

// loopbackNodePorts makes node ports work on 127.0.0.1, once there is one.
func (p *Proxier) loopbackNodePorts(want services.Snapshot) {
	if p.loopback && !want.Full || !hasNodePort(want) {
		return
	}
	for _, f := range p.families {
		if f.name != services.IPv4 || p.sys.on(sysctlRouteLocalnet) {
			continue
		}
		err := f.tool.EnsureChain(tableNat, chainLocalnetNote)
		if err == nil {
			err = p.sys.set(sysctlRouteLocalnet, "1")
		}
		if err != nil && !p.loopback {
			p.log.Warn("node ports do not answer on 127.0.0.1", "error", err)
		}
	}
	p.loopback = true
}

func hasNodePort(want services.Snapshot) bool {
	if want.Full {
		for _, sp := range want.Ports {
			if sp.NodePort != 0 && sp.Family == services.IPv4 {
				return true
			}
		}
		return false
	}
	for k := range want.Changed {
		if sp := want.Ports[k]; sp != nil && sp.NodePort != 0 && sp.Family == services.IPv4 {
			return true
		}
	}
	return false
}
