package ipvs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"proxylab/proxiers/conntrack"
	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// Options for New.
type Options struct {
	// Scheduler is one of Schedulers; empty: DefaultScheduler.
	Scheduler string
	// Backend is of iptables: "legacy", "nft", or "auto" (also empty), which takes the one that the node uses.
	Backend string
	// DrainLimit is how long a server that is to go may keep its connections; 0: DefaultDrainLimit.
	DrainLimit time.Duration
	// Log is slog.Default() if nil.
	Log *slog.Logger
}

// Proxier is the native ipvs proxier of the network namespace that it was made in. It is used by one goroutine at a time.
type Proxier struct {
	kernel     kernel.Kernel
	end        func()
	families   []*family
	backend    string
	scheduler  string
	drainLimit time.Duration
	release    string
	notes      []string
	flows      interface {
		Sync(context.Context, services.Snapshot) (int, error)
	}
	log *slog.Logger
	now func() time.Time
	// moved says whether addresses of the node came or went since it was last asked.
	moved func() bool

	valid    bool // what follows can be believed
	env      env
	want     *wanted
	is       state
	draining map[kernel.Key]struct{} // virtual servers that have servers with weight 0
}

var (
	_ runner.Proxier   = (*Proxier)(nil)
	_ runner.Checker   = (*Proxier)(nil)
	_ runner.Backender = (*Proxier)(nil)
)

// New looks for the tools and for what the kernel can do; nothing is changed yet. It fails with the remedy where the
// kernel lacks IPVS (kernel.ErrNoIPVS), the scheduler, dummy links or ipsets, or a tool is missing.
func New(o Options) (*Proxier, error) {
	ctx := context.Background() // each tool has its own time limit
	if err := CheckScheduler(o.Scheduler); err != nil {
		return nil, err
	}
	scheduler := cmp.Or(o.Scheduler, DefaultScheduler)
	if err := kernel.Check(ctx, scheduler); err != nil {
		return nil, err
	}
	backend, reason, err := xtables.ChooseBackend(ctx, o.Backend)
	if err != nil {
		return nil, err
	}
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	if reason != "" {
		log.Info("iptables back end chosen", "backend", backend, "because", reason)
	}
	k, closeKernel, err := kernel.Open()
	if err != nil {
		return nil, err
	}
	p := newProxier(k, conntrack.New(conntrack.Options{Log: log}), log)
	moved, endWatch, err := kernel.WatchAddrs(Link, log)
	if err != nil {
		closeKernel()
		return nil, err
	}
	end := func() { endWatch(); closeKernel() }
	p.end, p.backend, p.scheduler, p.drainLimit = end, backend, scheduler, cmp.Or(o.DrainLimit, DefaultDrainLimit)
	p.moved = moved
	for _, f := range families {
		t, err := xtables.Open(ctx, f, backend, tables...)
		switch {
		case err == nil:
			p.addFamily(f, t, t.RandomFully())
		case f == services.IPv6:
			p.notes = append(p.notes, fmt.Sprintf("IPv6 is left out: %v", err))
			log.Warn("IPv6 is left out", "error", err)
		default:
			end()
			return nil, err
		}
	}
	return p, nil
}

func newProxier(k kernel.Kernel, flows interface {
	Sync(context.Context, services.Snapshot) (int, error)
}, log *slog.Logger) *Proxier {
	return &Proxier{kernel: k, end: func() {}, flows: flows, log: log, now: time.Now, moved: func() bool { return false }, scheduler: DefaultScheduler,
		drainLimit: DefaultDrainLimit, release: kernelRelease()}
}

func (p *Proxier) addFamily(f services.Family, t xtables.Tool, randomFully bool) {
	p.families = append(p.families, &family{name: f, tool: t, randomFully: randomFully})
}

// Backend is the iptables back end in use: "legacy" or "nft".
func (p *Proxier) Backend() string { return p.backend }

// Notes say what was left out and why; empty if nothing was.
func (p *Proxier) Notes() []string { return p.notes }

// Close ends the connection to the kernel. Everything stays as it is.
func (p *Proxier) Close() error {
	p.end()
	return nil
}

// Sync implements runner.Proxier. A partial pass asks the kernel for nothing: it compares what the changed ports want
// with what was written before.
func (p *Proxier) Sync(ctx context.Context, want services.Snapshot) (runner.SyncReport, error) {
	full := want.Full || !p.valid || !want.Node.Equal(p.env.node)
	if moved, err := p.readdressed(); err != nil {
		p.valid = false
		return runner.SyncReport{Full: full}, err
	} else if moved {
		full = true
	}
	var err error
	if full {
		err = p.syncAll(ctx, want)
	} else {
		err = p.syncChanges(ctx, want)
	}
	report := runner.SyncReport{Full: full}
	if err != nil {
		p.valid = false
		return report, err
	}
	if err := p.sweep(); err != nil {
		p.log.Warn("servers that were to go are still there", "error", err)
	}
	report.Objects = p.objects()
	removed, err := p.flows.Sync(ctx, want)
	report.StaleFlows = removed
	if err != nil {
		// The servers are right. What is left over is tried again at the next sync.
		p.log.Warn("stale UDP flows were not all removed", "error", err)
	}
	return report, nil
}

// readdressed says whether the node has other addresses than those that node ports were written for. A link that comes or
// goes with an address that others have as well, as those of pods do, is no reason.
func (p *Proxier) readdressed() (bool, error) {
	if !p.moved() || !p.valid {
		return false, nil
	}
	local, err := p.kernel.Links.LocalAddrs(Link)
	return !sameAddrs(local, p.env.local), err
}

func sameAddrs(a, b map[netip.Addr]string) bool {
	return maps.EqualFunc(a, b, func(string, string) bool { return true })
}

func (p *Proxier) objects() map[string]int {
	objects := map[string]int{"services": len(p.is.servers), "addresses": len(p.is.addrs), "entries": len(p.is.entries)}
	for _, s := range p.is.servers {
		objects["destinations"] += len(s.backends)
	}
	for _, f := range p.families {
		objects["sets"] += int(numSets)
		for _, c := range f.written.chains() {
			objects["chains"]++
			objects["rules"] += len(c.rules)
		}
	}
	return objects
}

func (p *Proxier) serves(f services.Family) bool {
	return slices.ContainsFunc(p.families, func(o *family) bool { return o.name == f })
}

func (p *Proxier) syncChanges(ctx context.Context, want services.Snapshot) error {
	t := newTouched()
	for k := range want.Changed {
		if sp := want.Ports[k]; sp == nil {
			p.want.set(k, nil, t)
		} else if p.serves(k.Family) {
			p.want.set(k, p.env.render(sp), t)
		}
	}
	return writer{p, &p.is}.write(ctx, p.want.plan(p.is, t), "", nil, false)
}

// syncAll looks at everything there is.
func (p *Proxier) syncAll(ctx context.Context, want services.Snapshot) error {
	if err := p.kernel.Links.Ensure(Link); err != nil {
		return err
	}
	local, err := p.kernel.Links.LocalAddrs(Link)
	if err != nil {
		return err
	}
	p.env = env{node: want.Node, local: local, scheduler: p.scheduler}
	if err := applySettings(p.kernel, wantedSettings(p.release, nodeLinks(want.Node, local))); err != nil {
		return err
	}
	all := newWanted()
	for k, sp := range want.Ports {
		if p.serves(k.Family) {
			all.set(k, p.env.render(sp), newTouched())
		}
	}
	is, err := p.survey(ctx, all)
	if err != nil {
		return err
	}
	p.want, p.is = all, is
	create := ""
	takeover := false
	for _, f := range p.families {
		f.env = p.ruleEnv(f, want.Node)
		if err := f.look(ctx, false); err != nil {
			return err
		}
		takeover = takeover || f.other
		for id := range numSets {
			create += createSet(f.name, id)
		}
	}
	if err := (writer{p, &p.is}).write(ctx, all.plan(is, all.all(is)), create, func() error { return p.writeRules(ctx) }, takeover); err != nil {
		return err
	}
	p.valid = true
	return nil
}

func (p *Proxier) writeRules(ctx context.Context) error {
	var errs []error
	for _, f := range p.families {
		if err := f.write(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Proxier) ruleEnv(f *family, node services.Node) ruleEnv {
	e := ruleEnv{family: f.name, randomFully: f.randomFully}
	for _, c := range node.PodCIDRs {
		if c.Addr().Is6() == (f.name == services.IPv6) && e.podCIDR == "" {
			e.podCIDR = c.Masked().String()
		}
	}
	v, err := p.kernel.Settings.Get("net/netfilter/nf_conntrack_tcp_be_liberal")
	e.tcpLiberal = err == nil && v != "0" && v != ""
	return e
}

// nodeLinks are those that have an address that the API knows the node by.
func nodeLinks(node services.Node, local map[netip.Addr]string) []string {
	found := map[string]bool{}
	for _, a := range node.Addresses {
		if l := local[a]; l != "" {
			found[l] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Intact implements runner.Checker: it compares names and numbers, not the servers behind each virtual server. It also
// removes servers that have drained, which is due as often.
func (p *Proxier) Intact(ctx context.Context) (bool, error) {
	if !p.valid {
		return false, nil
	}
	if err := p.sweep(); err != nil {
		p.log.Warn("servers that were to go are still there", "error", err)
	}
	why, err := p.damage(ctx)
	if why != "" {
		p.log.Warn("the node is not as it was written", "difference", why)
	}
	return why == "", err
}
