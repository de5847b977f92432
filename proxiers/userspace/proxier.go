package userspace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conntrack"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// Options for New.
type Options struct {
	// Backend of iptables that the redirect rules are written with: "legacy", "nft", or "auto" (also empty), which takes
	// the one that the node uses.
	Backend string
	Log     *slog.Logger // slog.Default() if nil
}

// Proxier is the userspace proxier of the network namespace that it was made in: every thread of the process must be in
// it. Close ends its connections.
type Proxier struct {
	backend string
	log     *slog.Logger
	conns   *connections
	tables  []*tables
	addrs   func() []netip.Addr // this node's, each once
	flows   interface {
		Sync(context.Context, services.Snapshot) (int, error)
	}

	mu      sync.Mutex // Sync, Cleanup and Close come from different goroutines at the end
	closed  bool
	portals map[services.Key]*portal
	places  map[services.Family]place
	synced  bool // the mirror of the rules is right
	// stale are the local ports that rules of an earlier process lead to, until they are replaced: whoever is sent there
	// must not meet another Service. Nil until they were looked for.
	stale map[uint16]bool
	told  map[services.Key]bool
}

var _ runner.Proxier = (*Proxier)(nil)

// New looks for the tools; it changes nothing. IPv6 is left out, with a warning, where its tool is missing or the
// kernel lacks it.
func New(o Options) (*Proxier, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	ctx := context.Background() // each tool has its own time limit
	backend, reason, err := xtables.ChooseBackend(ctx, o.Backend)
	if err != nil {
		return nil, fmt.Errorf("userspace: %w", err)
	}
	if reason != "" {
		o.Log.Info("iptables back end chosen", "backend", backend, "because", reason)
	}
	p := &Proxier{backend: backend, log: o.Log, conns: newConnections(), portals: map[services.Key]*portal{},
		flows: conntrack.New(conntrack.Options{Log: o.Log}), addrs: localAddrs,
		places: map[services.Family]place{}, told: map[services.Key]bool{}}
	for _, f := range []services.Family{services.IPv4, services.IPv6} {
		t, err := xtables.Open(ctx, f, backend, "nat", "filter")
		switch {
		case err == nil:
			p.tables = append(p.tables, newTables(f, t))
		case f == services.IPv6:
			o.Log.Warn("IPv6 is left out", "error", err)
		default:
			return nil, fmt.Errorf("userspace: %w", err)
		}
	}
	return p, nil
}

// Backend is the iptables back end in use: "legacy" or "nft".
func (p *Proxier) Backend() string { return p.backend }

// Close refuses new connections, ends those that are open, which live in this process, and returns when all is ended.
// The rules stay: until somebody removes them, what they redirect is refused.
func (p *Proxier) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, portal := range p.portals {
		portal.close()
	}
	p.portals = map[services.Key]*portal{}
	p.conns.close()
	return nil
}

// Sync implements runner.Proxier. New ports are open before rules lead to them, and old ones are closed when no rule
// does any more. The report's destinations are the endpoints in use, each counted for every Service port.
func (p *Proxier) Sync(ctx context.Context, want services.Snapshot) (runner.SyncReport, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return runner.SyncReport{}, errors.New("the proxier is closed")
	}
	moved := p.moved(want.Node)
	full := want.Full || !p.synced || moved
	p.synced = false
	report := runner.SyncReport{Full: full}
	if err := p.findStale(ctx); err != nil {
		return report, err
	}
	dropped, err := p.open(want, p.affected(want, full))
	report.StaleFlows = dropped
	err = errors.Join(err, p.write(ctx, want, p.affected(want, full), full))
	if err != nil {
		return report, err
	}
	p.release(want)
	p.synced, p.stale = true, map[uint16]bool{}
	report.Objects = p.objects(want)
	removed, err := p.flows.Sync(ctx, p.flowsOf(want, p.affected(want, full), full))
	report.StaleFlows += removed
	if err != nil {
		return report, fmt.Errorf("remove stale UDP flows: %w", err)
	}
	return report, nil
}

// findStale looks, once, for rules of an earlier process.
func (p *Proxier) findStale(ctx context.Context) error {
	if p.stale != nil {
		return nil
	}
	stale := map[uint16]bool{}
	for _, t := range p.tables {
		if err := t.targets(ctx, stale); err != nil {
			return err
		}
	}
	p.stale = stale
	return nil
}

// moved notes what of the node concerns the rules and says whether it changed.
func (p *Proxier) moved(n services.Node) bool {
	changed, local := false, p.addrs()
	for _, t := range p.tables {
		at := placeOf(n, t.family, local)
		changed = changed || p.places[t.family] != at
		p.places[t.family] = at
	}
	return changed
}

// affected are the keys to look at: wanted ones and those to remove.
func (p *Proxier) affected(want services.Snapshot, full bool) map[services.Key]struct{} {
	if !full {
		return want.Changed
	}
	keys := map[services.Key]struct{}{}
	for k := range want.Ports {
		keys[k] = struct{}{}
	}
	for k := range p.portals {
		keys[k] = struct{}{}
	}
	return keys
}

// wanted returns the port of a key that this proxier serves, or nil.
func (p *Proxier) wanted(want services.Snapshot, k services.Key) *services.ServicePort {
	sp := want.Ports[k]
	if sp == nil || supported(k.Protocol) {
		return sp
	}
	if !p.told[k] {
		p.told[k] = true
		p.log.Warn("the protocol cannot be proxied in user space, the port is left out", "service", name(k), "protocol", k.Protocol)
	}
	return nil
}

// open makes the portals match.
func (p *Proxier) open(want services.Snapshot, keys map[services.Key]struct{}) (dropped int, err error) {
	for k := range keys {
		sp := p.wanted(want, k)
		if sp == nil {
			continue
		}
		if p.portals[k] == nil {
			p.portals[k] = &portal{}
		}
		n, failed := p.portals[k].update(sp, func() (*front, error) { return newFront(k, p.conns, p.log, p.stale) })
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("service %s: %w", name(k), failed))
		}
		dropped += n
	}
	return dropped, err
}

// write brings the rules of both families up to date, side by side.
func (p *Proxier) write(ctx context.Context, want services.Snapshot, keys map[services.Key]struct{}, full bool) error {
	changes := map[services.Family][]change{}
	for k := range keys {
		c := change{key: k}
		if sp := p.wanted(want, k); sp != nil {
			if !p.portals[k].complete(sp) {
				continue // it failed to open, and that is reported already
			}
			c.rules = p.portals[k].render(sp, p.places[k.Family])
		}
		changes[k.Family] = append(changes[k.Family], c)
	}
	errs := make([]error, len(p.tables))
	var group errgroup.Group
	for i, t := range p.tables {
		group.Go(func() error {
			errs[i] = t.sync(ctx, changes[t.family], full)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs, all of them
	return errors.Join(errs...)
}

// release closes what no rule leads to any more.
func (p *Proxier) release(want services.Snapshot) {
	for k, portal := range p.portals {
		if sp := p.wanted(want, k); sp != nil {
			portal.trim(sp)
		} else {
			portal.close()
			delete(p.portals, k)
		}
	}
	for k := range p.told {
		if want.Ports[k] == nil {
			delete(p.told, k)
		}
	}
}

func (p *Proxier) objects(want services.Snapshot) map[string]int {
	o := map[string]int{"rules": 0, "services": len(p.portals), "destinations": 0}
	for _, t := range p.tables {
		o["rules"] += t.count()
	}
	for k := range p.portals {
		seen := map[netip.AddrPort]bool{}
		for _, list := range [][]services.Endpoint{want.Ports[k].ClusterEndpoints, want.Ports[k].LocalEndpoints} {
			for _, e := range list {
				seen[e.Addr] = true
			}
		}
		o["destinations"] += len(seen)
	}
	return o
}

// flowsOf says to the tracker of conntrack entries which are right: those that lead to this process and, because the
// mode that ran before left them, those that lead straight to an endpoint that still serves.
func (p *Proxier) flowsOf(want services.Snapshot, keys map[services.Key]struct{}, full bool) services.Snapshot {
	var local []netip.Addr
	ports := map[services.Key]*services.ServicePort{}
	for k := range keys {
		sp, portal := want.Ports[k], p.portals[k]
		if k.Protocol != corev1.ProtocolUDP || portal == nil {
			continue
		}
		if local == nil {
			local = p.addrs()
		}
		with := *sp
		with.ServingEndpoints = append([]netip.AddrPort{}, sp.ServingEndpoints...)
		for _, f := range []*front{portal.cluster, portal.local} {
			for _, a := range local {
				if f != nil && a.Is6() == (k.Family == services.IPv6) {
					with.ServingEndpoints = append(with.ServingEndpoints, netip.AddrPortFrom(a, f.hold.port))
				}
			}
		}
		ports[k] = &with
	}
	want.Ports, want.Full = ports, full
	return want
}

// localAddrs are this node's addresses, each once.
func localAddrs() []netip.Addr {
	all, _ := net.InterfaceAddrs() // without them REDIRECT is used, and too many flows are looked at: it works
	seen := map[netip.Addr]bool{}
	var list []netip.Addr
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if addr, ok := netip.AddrFromSlice(n.IP); ok && !seen[addr.Unmap()] {
			seen[addr.Unmap()] = true
			list = append(list, addr.Unmap())
		}
	}
	return list
}
