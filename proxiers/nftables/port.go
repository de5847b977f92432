package nftables

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// destination is what a client sends to.
type destination struct {
	addr     netip.Addr // unspecified for a node port
	protocol corev1.Protocol
	port     uint16
}

func (d destination) nodePort() bool { return d.addr.IsUnspecified() }

func (d destination) key() string {
	return d.addr.String() + " . " + strings.ToLower(string(d.protocol)) + " . " + strconv.Itoa(int(d.port))
}

// bareKey leaves out the protocol, for maps that are of one.
func (d destination) bareKey() string { return d.addr.String() + " . " + strconv.Itoa(int(d.port)) }

// index of the protocol in protocols.
func (d destination) index() uint8 {
	return uint8(max(slices.Index(protocols, strings.ToLower(string(d.protocol))), 0))
}

// port is a Service port in the table.
type port struct {
	sp             *services.ServicePort
	cluster, local *slots // by traffic policy
}

// set makes it what the Service port is now.
func (p *port) set(sp *services.ServicePort) {
	p.sp = sp
	sticky := sp.AffinityTimeout > 0
	p.cluster = p.cluster.next(sp.ClusterEndpoints, sticky)
	p.local = p.local.next(sp.LocalEndpoints, sticky)
}

// claim is a destination of a Service port.
type claim struct {
	destination
	external bool // not the cluster IP
	balancer bool // a load balancer's address, subject to source ranges
}

// claims are the port's destinations, each once.
func claims(sp *services.ServicePort) []claim {
	out := make([]claim, 0, 2)
	add := func(a netip.Addr, number uint16, external, balancer bool) {
		c := claim{destination{a, sp.Protocol, number}, external, balancer}
		if a.IsValid() && !slices.ContainsFunc(out, func(o claim) bool { return o.destination == c.destination }) {
			out = append(out, c)
		}
	}
	add(sp.ClusterIP, sp.Port, false, false)
	for _, a := range sp.ExternalIPs {
		add(a, sp.Port, true, false)
	}
	for _, a := range sp.LoadBalancerVIPs {
		add(a, sp.Port, true, true)
	}
	if sp.NodePort != 0 {
		add(env{v6: sp.Family == services.IPv6}.anyAddr(), sp.NodePort, true, false)
	}
	return out
}

// usable leaves out what no rule could be written for: protocols without ports.
func usable(sp *services.ServicePort) bool {
	return sp != nil && slices.Contains(protocols, strings.ToLower(string(sp.Protocol)))
}

// owners says which port serves a destination where several claim it, whatever the order in which they came.
type owners struct {
	of     map[destination]*port
	rivals map[destination][]*port // all that claim it, if there are several
	// touch is called with each port before another one's claim changes what it owns.
	touch func(*port)
}

func newOwners(touch func(*port)) owners {
	return owners{map[destination]*port{}, map[destination][]*port{}, touch}
}

// add says whether others claim the destination too.
func (o *owners) add(d destination, p *port) (contested bool) {
	if o.of[d] == nil {
		o.of[d] = p
		return false
	}
	if o.rivals[d] == nil {
		o.rivals[d] = []*port{o.of[d]}
	}
	o.rivals[d] = append(o.rivals[d], p)
	o.elect(d)
	return true
}

func (o *owners) remove(d destination, p *port) {
	rivals := slices.DeleteFunc(o.rivals[d], func(r *port) bool { return r == p })
	switch len(rivals) {
	case 0:
		delete(o.of, d)
	case 1:
		delete(o.rivals, d)
		o.touch(rivals[0])
		o.of[d] = rivals[0]
	default:
		o.rivals[d] = rivals
		o.elect(d)
	}
}

func (o *owners) elect(d destination) {
	for _, p := range o.rivals[d] {
		o.touch(p)
	}
	o.of[d] = slices.MinFunc(o.rivals[d], func(a, b *port) int {
		return cmp.Or(cmp.Compare(rank(d, a), rank(d, b)), compareKeys(a.sp.Key, b.sp.Key))
	})
}

// rank puts cluster IPs first: nobody takes over another Service's by an external IP.
func rank(d destination, p *port) int {
	if d.addr == p.sp.ClusterIP && d.port == p.sp.Port {
		return 0
	}
	return 1
}

func compareKeys(a, b services.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service),
		cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Family, b.Family))
}
