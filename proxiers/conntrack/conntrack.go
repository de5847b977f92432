// Package conntrack removes the kernel's memory of UDP flows that lead nowhere.
//
// Translation of a Service's address is decided for the first packet of a flow and remembered by conntrack. TCP notices
// when the other side is gone; a UDP sender that keeps its port keeps the entry alive for ever. After rules changed,
// three kinds of entries are wrong: those translated to an endpoint that is gone, those of an address that no Service
// has any more, and those that were made, untranslated, before the Service had an endpoint. Only these are removed:
// flows to endpoints that still serve stay where they are, over a restart of the proxier too.
package conntrack

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// Options for New.
type Options struct {
	Log *slog.Logger // slog.Default() if nil
}

// Tracker finds and removes stale flows after each sync of a proxier. It belongs to one network namespace, and to one
// goroutine at a time.
type Tracker struct {
	table    table
	log      *slog.Logger
	known    map[services.Key]*record // UDP ports as of the last Sync
	started  bool
	suspects map[services.Family]*suspects
}

// Flow is a UDP conntrack entry, as far as it matters here.
type Flow struct {
	Dst   netip.AddrPort // where the sender sent it
	Reply netip.AddrPort // from where answers come: the endpoint it was translated to
}

// table is the kernel's conntrack table.
type table interface {
	// deleteIf removes the family's UDP flows for which stale says true, in one pass over the table. It is called with
	// a flow more than once where the pass has to be repeated.
	deleteIf(ctx context.Context, f services.Family, stale func(Flow) bool) (removed int, err error)
	// localAddrs are the addresses of this namespace's interfaces.
	localAddrs(f services.Family) ([]netip.Addr, error)
}

// New makes a Tracker for the network namespace that it is used in.
func New(o Options) *Tracker {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	return &Tracker{table: kernel{}, log: log, known: map[services.Key]*record{}, suspects: map[services.Family]*suspects{}}
}

// record is what flows to a UDP Service port may look like.
type record struct {
	vips     []netip.AddrPort // cluster IP, external IPs, load balancer IPs
	nodePort uint16
	alive    []netip.AddrPort // sorted
}

// suspects are destinations in one family whose flows have to be looked at, with the endpoints that are alive behind
// them; nil: none is.
type suspects struct {
	vips      map[netip.AddrPort]*record
	nodePorts map[uint16]*record
}

func newRecord(sp *services.ServicePort) *record {
	r := &record{nodePort: sp.NodePort}
	for _, list := range [][]netip.Addr{{sp.ClusterIP}, sp.ExternalIPs, sp.LoadBalancerVIPs} {
		for _, a := range list {
			if a.IsValid() {
				r.vips = append(r.vips, netip.AddrPortFrom(a, sp.Port))
			}
		}
	}
	r.alive = slices.Clone(sp.ServingEndpoints)
	for _, list := range [][]services.Endpoint{sp.ClusterEndpoints, sp.LocalEndpoints} {
		for _, ep := range list {
			r.alive = append(r.alive, ep.Addr)
		}
	}
	slices.SortFunc(r.alive, netip.AddrPort.Compare)
	r.alive = slices.Compact(r.alive)
	return r
}

func (r *record) has(ep netip.AddrPort) bool {
	if r == nil {
		return false
	}
	_, ok := slices.BinarySearchFunc(r.alive, ep, netip.AddrPort.Compare)
	return ok
}

// Sync removes the flows that became stale with want. It is called after the rules for want are in the kernel. The
// conntrack table is read only if some flow can have become stale, once for each family concerned. After an error what
// was to be looked at is looked at again by the next Sync. Errors are the kernel's; the number of flows removed counts
// also then.
func (t *Tracker) Sync(ctx context.Context, want services.Snapshot) (removed int, err error) {
	t.observe(want)
	var errs []error
	for _, f := range []services.Family{services.IPv4, services.IPv6} {
		s := t.suspects[f]
		if s == nil {
			continue
		}
		n, err := t.clean(ctx, f, s)
		removed += n
		if err != nil {
			errs = append(errs, err)
			continue
		}
		delete(t.suspects, f)
	}
	if removed > 0 {
		t.log.Info("removed stale UDP flows", "flows", removed)
	}
	return removed, errors.Join(errs...)
}

// observe compares with what was known and notes suspects.
func (t *Tracker) observe(want services.Snapshot) {
	update := func(k services.Key) {
		if k.Protocol == corev1.ProtocolUDP {
			t.update(k, want.Ports[k])
		}
	}
	if want.Full || !t.started {
		for k := range t.known {
			update(k)
		}
		for k := range want.Ports {
			update(k)
		}
	} else {
		for k := range want.Changed {
			update(k)
		}
	}
	t.started = true
}

func (t *Tracker) update(k services.Key, sp *services.ServicePort) {
	was := t.known[k]
	if sp == nil {
		delete(t.known, k)
		if was != nil {
			t.orphan(k.Family, was, nil)
		}
		return
	}
	is := newRecord(sp)
	t.known[k] = is
	s := t.suspects[k.Family]
	if s != nil {
		s.refresh(is, was)
	}
	if was != nil {
		t.orphan(k.Family, was, is)
	}
	if t.suspicious(was, is) {
		t.of(k.Family).add(is)
	}
}

// suspicious: can there be a flow to this port that is stale now?
func (t *Tracker) suspicious(was, is *record) bool {
	if was == nil {
		// Before the first sync anything may have happened. Later a new port without endpoints has no flows: they are
		// refused before conntrack keeps them.
		return !t.started || len(is.alive) > 0
	}
	if len(was.alive) == 0 && len(is.alive) > 0 {
		return true
	}
	for _, ep := range was.alive {
		if !is.has(ep) {
			return true
		}
	}
	for _, a := range is.vips {
		if !slices.Contains(was.vips, a) {
			return true
		}
	}
	return is.nodePort != was.nodePort
}

// orphan makes suspects of the destinations that a port had and has no more, unless another port has them.
func (t *Tracker) orphan(f services.Family, was, is *record) {
	if is == nil {
		is = &record{}
	}
	for _, a := range was.vips {
		if !slices.Contains(is.vips, a) {
			t.of(f).vips[a] = t.owner(f, func(r *record) bool { return slices.Contains(r.vips, a) })
		}
	}
	if n := was.nodePort; n != 0 && n != is.nodePort {
		t.of(f).nodePorts[n] = t.owner(f, func(r *record) bool { return r.nodePort == n })
	}
}

// owner finds the port that has a destination now, if there is one.
func (t *Tracker) owner(f services.Family, has func(*record) bool) *record {
	for k, r := range t.known {
		if k.Family == f && has(r) {
			return r
		}
	}
	return nil
}

func (t *Tracker) of(f services.Family) *suspects {
	if t.suspects[f] == nil {
		t.suspects[f] = &suspects{map[netip.AddrPort]*record{}, map[uint16]*record{}}
	}
	return t.suspects[f]
}

func (s *suspects) add(r *record) {
	for _, a := range r.vips {
		s.vips[a] = r
	}
	if r.nodePort != 0 {
		s.nodePorts[r.nodePort] = r
	}
}

// refresh: a suspect left over from a failure, or orphaned a moment ago by a port that comes earlier, is judged by what
// its port is now.
func (s *suspects) refresh(is, was *record) {
	for _, a := range is.vips {
		if r, ok := s.vips[a]; ok && (r == nil || r == was) {
			s.vips[a] = is
		}
	}
	if r, ok := s.nodePorts[is.nodePort]; ok && (r == nil || r == was) {
		s.nodePorts[is.nodePort] = is
	}
}

// clean removes a family's stale flows.
func (t *Tracker) clean(ctx context.Context, f services.Family, s *suspects) (int, error) {
	var local []netip.Addr
	if len(s.nodePorts) > 0 {
		var err error
		if local, err = t.table.localAddrs(f); err != nil {
			return 0, err
		}
	}
	return t.table.deleteIf(ctx, f, func(flow Flow) bool {
		r, ok := s.vips[flow.Dst]
		if !ok {
			if r, ok = s.nodePorts[flow.Dst.Port()]; !ok {
				return false
			}
			// The same port of somebody else is none of our business.
			a := flow.Dst.Addr()
			ok = a.IsLoopback() || slices.Contains(local, a)
		}
		return ok && !r.has(flow.Reply)
	})
}
