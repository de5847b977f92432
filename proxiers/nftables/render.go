package nftables

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"proxylab/proxiers/services"
)

// element is an element of a map or set. If its value is empty and leads has a kind, its value is to go to that group.
type element struct {
	in    store
	key   string
	value string
	leads group
}

const (
	toReject = "goto " + chainReject
	toDrop   = "drop"
)

// renderer turns ports into elements.
type renderer struct {
	env   env
	names map[group]string // formatted once
	out   []element
	owns  func(destination) bool
	p     *port
}

// render lists the elements that a port asks for. They are valid until the next call.
func (r *renderer) render(p *port, owns func(destination) bool) []element {
	r.out, r.p, r.owns = r.out[:0], p, owns
	for _, c := range claims(p.sp) {
		if !c.external {
			r.add(clusterIPs, c.addr.String(), "")
		}
		if !owns(c.destination) {
			continue
		}
		if c.external {
			r.external(c)
		} else {
			r.clusterIP(c)
		}
	}
	r.hairpin(p.sp.ClusterEndpoints)
	r.hairpin(p.sp.LocalEndpoints)
	return r.out
}

func (r *renderer) add(in store, key, value string) {
	r.out = append(r.out, element{in: in, key: key, value: value})
}

func (r *renderer) lead(in store, key string, to group) {
	if r.names == nil {
		r.names = map[group]string{}
	}
	name, ok := r.names[to]
	if !ok {
		name = "goto " + to.name()
		r.names[to] = name
	}
	r.out = append(r.out, element{in, key, name, to})
}

func (r *renderer) clusterIP(c claim) {
	sp := r.p.sp
	use := r.p.cluster
	if sp.InternalLocal {
		use = r.p.local
	}
	if !sp.HasAnyEndpoints {
		use = nil
	}
	if use.count() > 0 {
		r.balance(c.destination, use, false)
	} else {
		r.none(c.destination, sp.InternalLocal)
	}
}

// none says what becomes of packets that have nowhere to go: with endpoints elsewhere only, policy Local drops them, so that
// the sender tries again and a balancer's health check decides; with none at all the connection is refused.
func (r *renderer) none(d destination, local bool) {
	if local && r.p.sp.HasAnyEndpoints {
		r.add(noEndpointServices, d.key(), toDrop)
	} else {
		r.add(noEndpointServices, d.key(), toReject)
	}
}

// external serves a node port, an external IP or a balancer's address.
func (r *renderer) external(c claim) {
	sp, cluster, local := r.p.sp, r.p.cluster, r.p.local
	if !sp.HasAnyEndpoints {
		cluster, local = nil, nil
	}
	policy := cluster
	if sp.ExternalLocal {
		policy = local
		if cluster.count() == 0 {
			cluster = local
		}
	}
	if policy.count() == 0 {
		r.none(c.destination, sp.ExternalLocal)
	}
	if cluster.count() == 0 {
		return
	}
	key := c.key()
	switch {
	case !sp.ExternalLocal:
		r.add(servicePolicies, key, "jump "+chainMark)
	case c.nodePort():
		r.add(servicePolicies, key, "jump "+chainNodePortLocal)
	default:
		r.add(servicePolicies, key, "jump "+chainExternalLocal)
	}
	r.balance(c.destination, cluster, false)
	if sp.ExternalLocal && local.count() > 0 {
		r.balance(c.destination, local, true)
	}
	if c.balancer && len(sp.SourceRanges) > 0 {
		r.firewall(c)
	}
}

// balance sends a destination to endpoints.
func (r *renderer) balance(d destination, s *slots, local bool) {
	g := group{kind: groupSpread, nodePort: d.nodePort(), local: local, protocol: d.index(), n: int32(s.count())}
	in, bare := endpointsOf(g.protocol, local), d.bareKey()
	for i, a := range s.at {
		if a.IsValid() {
			r.add(in, numbered(bare, i), endpoint(a))
		}
	}
	if s.picks == nil {
		r.lead(serviceIPs.of(local), d.key(), g)
		return
	}
	key, slot := d.key(), g
	slot.kind, slot.seconds = groupSlot, int32(max(r.p.sp.AffinityTimeout, time.Second)/time.Second)
	g.kind, g.m = groupAffinity, roundSlots(len(s.at))
	r.lead(serviceIPs.of(local), key, g)
	for i, a := range s.at {
		if slot.n = int32(i); a.IsValid() {
			r.lead(affinitySlots.of(local), numbered(key, i), slot)
		}
	}
	for i, n := range s.picks {
		slot.n = n
		r.lead(affinityPicks.of(local), numbered(key, i), slot)
	}
}

func numbered(key string, n int) string { return key + " . " + strconv.Itoa(n) }

func endpoint(a netip.AddrPort) string {
	return a.Addr().String() + " . " + strconv.Itoa(int(a.Port()))
}

// firewall lets in the source ranges alone. A balancer's IP may be an address of the node, which then talks to it from
// that same address: if the ranges have the node, they have it too.
func (r *renderer) firewall(c claim) {
	ranges := r.p.sp.SourceRanges
	key := c.key()
	r.add(firewallIPs, key, "")
	if slices.ContainsFunc(r.env.nodeAddrs, func(a netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
	}) {
		ranges = append(slices.Clone(ranges), netip.PrefixFrom(c.addr, c.addr.BitLen()))
	}
	for _, p := range disjoint(ranges) {
		r.add(sourceRanges, key+" . "+p.String(), "")
	}
}

// disjoint leaves out prefixes within others: a set of intervals takes none that overlap.
func disjoint(in []netip.Prefix) (out []netip.Prefix) {
	masked := make([]netip.Prefix, 0, len(in))
	for _, p := range in {
		masked = append(masked, p.Masked())
	}
	slices.SortStableFunc(masked, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	for _, p := range masked {
		if !slices.ContainsFunc(out, p.Overlaps) {
			out = append(out, p)
		}
	}
	return out
}

func (r *renderer) hairpin(eps []services.Endpoint) {
	for _, ep := range eps {
		if r.env.mayHairpin(ep) {
			a := ep.Addr.Addr().String()
			r.add(hairpinConnections, a+" . "+a, "")
		}
	}
}
