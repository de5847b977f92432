package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"

	"sigs.k8s.io/knftables"

	"proxylab/proxiers/conntrack"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

// Options for New.
type Options struct {
	// Families to serve; both if empty. IPv6 is left out, with a note, where the kernel lacks it.
	Families []services.Family
	// Log is slog.Default() if nil.
	Log *slog.Logger
}

// Proxier is the native nftables proxier of the network namespace that it was made in.
type Proxier struct {
	families []*family
	kernel   kernel
	notes    []string
	flows    interface {
		Sync(context.Context, services.Snapshot) (int, error)
	}
	log *slog.Logger

	trusted bool   // after the pass that ended with generation, all tables were as the mirrors say
	last    uint32 // the kernel's count of transactions then
}

var (
	_ runner.Proxier = (*Proxier)(nil)
	_ runner.Checker = (*Proxier)(nil)
)

// New looks for nft, 1.0.1 at least, and asks whether it may change tables. Nothing is changed yet. The errors are about what
// is missing and name the remedy.
func New(o Options) (*Proxier, error) {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return nil, fmt.Errorf("%w: install it (Debian: apt-get install nftables)", err)
	}
	p := &Proxier{kernel: netlinkKernel{}, log: log, flows: conntrack.New(conntrack.Options{Log: log})}
	families := o.Families
	if len(families) == 0 {
		families = []services.Family{services.IPv4, services.IPv6}
	}
	for _, name := range families {
		nft, err := open(name)
		switch {
		case err == nil:
			p.addFamily(name, nft)
		case name == services.IPv6 && len(o.Families) == 0:
			p.notes = append(p.notes, fmt.Sprintf("IPv6 is left out: %v", err))
			log.Warn("IPv6 is left out", "error", err)
		default:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return p, nil
}

// open makes sure that nft is there, new enough, and allowed to. Comments of objects, which it would try first, are not used.
func open(name services.Family) (knftables.Interface, error) {
	family := knftables.IPv4Family
	if name == services.IPv6 {
		family = knftables.IPv6Family
	}
	nft, err := knftables.New(family, Table)
	if err != nil {
		return nil, err
	}
	return grouped{nft}, nil
}

func (p *Proxier) addFamily(name services.Family, nft knftables.Interface) {
	p.families = append(p.families, &family{name: name, nft: nft, kernel: p.kernel, log: p.log, base: env{v6: name == services.IPv6}})
}

// Notes say what was left out and why; empty if nothing was.
func (p *Proxier) Notes() []string { return p.notes }

// Sync implements runner.Proxier. Families are written one after the other, as the kernel would have them wait for one another
// anyway; when one fails the other is still finished.
func (p *Proxier) Sync(ctx context.Context, want services.Snapshot) (runner.SyncReport, error) {
	before, genErr := p.kernel.generation()
	trusted := genErr == nil && p.trusted && before == p.last
	var (
		report  runner.SyncReport
		errs    []error
		commits uint32
	)
	rewritten := true
	for _, f := range p.families {
		whole, err := f.sync(ctx, want, trusted)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
		report.Full = report.Full || whole
		rewritten = rewritten && whole
		commits += uint32(f.commits)
	}
	p.remember(before, commits, genErr == nil && len(errs) == 0 && (trusted || rewritten || want.Full))
	if err := errors.Join(errs...); err != nil {
		return report, err
	}
	report.Objects = map[string]int{}
	for _, f := range p.families {
		f.mirror.objects(report.Objects)
	}
	removed, err := p.flows.Sync(ctx, want)
	report.StaleFlows = removed
	if err != nil {
		// The rules are right. What is left over is tried again at the next sync.
		p.log.Warn("stale UDP flows were not all removed", "error", err)
	}
	return report, nil
}

// remember notes the kernel's count of transactions, if none but ours were made meanwhile and the tables were seen or known
// to be right.
func (p *Proxier) remember(before, ours uint32, sure bool) {
	p.trusted = false
	if !sure {
		return
	}
	after, err := p.kernel.generation()
	p.trusted, p.last = err == nil && after == before+ours, after
}

// Intact implements runner.Checker: as long as nobody made a transaction nothing has changed; otherwise the rules of each
// chain are counted. Elements are not looked at.
func (p *Proxier) Intact(context.Context) (bool, error) {
	now, err := p.kernel.generation()
	if err != nil {
		return false, err
	}
	if p.trusted && now == p.last {
		return true, nil
	}
	for _, f := range p.families {
		if !f.valid {
			return true, nil // the next pass writes everything anyway
		}
		if difference := f.intact(); difference != "" {
			p.log.Warn("the table is not as it was written", "family", f.name, "difference", difference)
			f.valid = false
			return false, nil
		}
	}
	p.trusted, p.last = true, now
	return true, nil
}

// Cleanup implements runner.Proxier.
func (p *Proxier) Cleanup(ctx context.Context) error {
	p.trusted = false
	for _, f := range p.families {
		f.valid = false
	}
	return Cleanup(ctx)
}
