package servicestest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"proxylab/proxiers/services"
)

// Addresses of the node that snapshots drawn here are for, and the node.
var (
	Node4 = netip.MustParseAddr("10.10.0.11")
	Node6 = netip.MustParseAddr("fd00:10:10::b")
	Facts = services.Node{Name: Node, Addresses: []netip.Addr{Node4, Node6},
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")}}
)

// Addr is address number n behind a prefix, which is given for each family.
func Addr(v6 bool, v4, six string, n int) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("%s%x", six, n))
	}
	return netip.MustParseAddr(fmt.Sprintf("%s%d", v4, n))
}

// External is address number n of those that are given to Services as external or balancer's addresses.
func External(n int, v6 bool) netip.Addr { return Addr(v6, "203.0.113.", "2001:db8::", n) }

// Endpoint number n: 1..4 on this node (4 with the node's own address), 5..8 on another, others nobody knows where.
func Endpoint(n int, v6 bool) services.Endpoint {
	e := services.Endpoint{Ready: true, Serving: true}
	switch {
	case n == 4:
		e.Addr, e.Node, e.Local = netip.AddrPortFrom(Node4, 8080), Node, true
		if v6 {
			e.Addr = netip.AddrPortFrom(Node6, 8080)
		}
	case n < 4:
		e.Addr, e.Node, e.Local = netip.AddrPortFrom(Addr(v6, "10.244.1.", "fd00:10:244:1::", n+10), 8080), Node, true
	case n < 9:
		e.Addr, e.Node = netip.AddrPortFrom(Addr(v6, "10.244.2.", "fd00:10:244:2::", n+10), 8080), "node2"
	default:
		e.Addr = netip.AddrPortFrom(Addr(v6, "192.0.2.", "2001:db8:9::", n+10), 8080)
	}
	return e
}

// Ports draws ports of Services as a proxier gets them, beyond what the API and the tracker would let through.
type Ports struct {
	// Apart gives every port external addresses of its own. Otherwise they are few, so that Services get in one another's way.
	Apart bool
}

// portCount is how many different ports of Services there are: two Services of TCP, one of UDP, one of SCTP, each with two
// ports in both families.
const portCount = 16

// Port draws port number n, from 0 to 15.
func (p Ports) Port(n int) *rapid.Generator[*services.ServicePort] {
	return rapid.Custom(func(t *rapid.T) *services.ServicePort {
		v6 := n%2 == 1
		yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
		sp := &services.ServicePort{Port: 80 + uint16(n/2%2), ClusterIP: Addr(v6, "10.96.0.", "fd00:10:96::", n/4+1)}
		sp.Key = services.Key{Namespace: namespace, Service: serviceName(n / 4), Port: fmt.Sprint(n / 2 % 2), Family: services.IPv4,
			Protocol: []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}[n/4%3]}
		if v6 {
			sp.Family = services.IPv6
		}
		drawEndpoints(t, sp, v6)
		sp.InternalLocal, sp.ExternalLocal = yes("internal local"), yes("external local")
		if yes("affinity") {
			sp.AffinityTimeout = rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 3 * time.Hour}).Draw(t, "timeout")
		}
		if yes("node port") {
			sp.NodePort = uint16(30000 + n)
		}
		p.drawExternal(t, sp, n)
		return sp
	})
}

func drawEndpoints(t *rapid.T, sp *services.ServicePort, v6 bool) {
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 0, 8, rapid.ID).Draw(t, "endpoints") {
		sp.ClusterEndpoints = append(sp.ClusterEndpoints, Endpoint(n, v6))
	}
	slices.SortFunc(sp.ClusterEndpoints, func(a, b services.Endpoint) int { return a.Addr.Compare(b.Addr) })
	for _, e := range sp.ClusterEndpoints {
		if e.Local {
			sp.LocalEndpoints = append(sp.LocalEndpoints, e)
		}
	}
	sp.HasAnyEndpoints = len(sp.ClusterEndpoints) > 0 || rapid.Bool().Draw(t, "endpoints elsewhere")
}

func (p Ports) drawExternal(t *rapid.T, sp *services.ServicePort, n int) {
	v6 := n%2 == 1
	address := func(what string, own int) netip.Addr {
		if p.Apart {
			return External(own, v6)
		}
		return External(rapid.IntRange(1, 3).Draw(t, what), v6)
	}
	if rapid.Bool().Draw(t, "has external IP") {
		sp.ExternalIPs = []netip.Addr{address("external IP", n+1)}
	}
	if !rapid.Bool().Draw(t, "has balancer") {
		return
	}
	sp.LoadBalancerVIPs = []netip.Addr{address("balancer", n+101)}
	choice := []string{"10.0.0.0/8", "10.10.0.0/24", "192.0.2.7/32", "192.0.2.0/30"}
	if v6 {
		choice = []string{"fd00::/8", "fd00:10:10::/64", "2001:db8::7/128", "2001:db8::/126"}
	}
	for _, s := range rapid.SliceOfN(rapid.SampledFrom(choice), 0, 4).Draw(t, "source ranges") {
		sp.SourceRanges = append(sp.SourceRanges, netip.MustParsePrefix(s))
	}
	if sp.ExternalLocal {
		sp.HealthCheckNodePort = uint16(31000 + n)
	}
}

// Change changes a random set of ports of a snapshot, and now and then the node, and says which ports.
func (p Ports) Change(t *rapid.T, prev services.Snapshot) services.Snapshot {
	next := services.Snapshot{Node: prev.Node, Ports: maps.Clone(prev.Ports), Changed: map[services.Key]struct{}{}}
	if next.Ports == nil {
		next.Ports = map[services.Key]*services.ServicePort{}
	}
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, portCount-1), 0, 6, rapid.ID).Draw(t, "changed") {
		sp := p.Port(n).Draw(t, "port")
		next.Changed[sp.Key] = struct{}{}
		if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
			delete(next.Ports, sp.Key)
		} else {
			next.Ports[sp.Key] = sp
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "node") == 0 {
		next.Node = Facts
		if rapid.Bool().Draw(t, "without pod CIDR") {
			next.Node.PodCIDRs, next.Node.Addresses = nil, nil
		}
	}
	return next
}
