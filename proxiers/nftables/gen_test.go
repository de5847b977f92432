package nftables

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

// The small world that random Services live in: a node with a pod CIDR, endpoints on it and elsewhere.
var (
	nodeAddr4, nodeAddr6 = netip.MustParseAddr("10.10.0.11"), netip.MustParseAddr("fd00:10:10::b")
	testNode             = services.Node{Name: "node1", Addresses: []netip.Addr{nodeAddr4, nodeAddr6},
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")}}
)

func addr(v6 bool, v4, six string, n int) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("%s%x", six, n))
	}
	return netip.MustParseAddr(fmt.Sprintf("%s%d", v4, n))
}

// testEndpoint number n: 1..4 on this node (4 with the node's own address), 5..8 on another, others nobody knows where.
func testEndpoint(n int, v6 bool) services.Endpoint {
	e := services.Endpoint{Ready: true, Serving: true}
	switch {
	case n == 4:
		a := nodeAddr4
		if v6 {
			a = nodeAddr6
		}
		e.Addr, e.Node, e.Local = netip.AddrPortFrom(a, 8080), "node1", true
	case n < 4:
		e.Addr, e.Node, e.Local = netip.AddrPortFrom(addr(v6, "10.244.1.", "fd00:10:244:1::", n+10), 8080), "node1", true
	case n < 9:
		e.Addr, e.Node = netip.AddrPortFrom(addr(v6, "10.244.2.", "fd00:10:244:2::", n+10), 8080), "node2"
	default:
		e.Addr = netip.AddrPortFrom(addr(v6, "192.0.2.", "2001:db8:9::", n+10), 8080)
	}
	return e
}

func genEndpoints(v6 bool) *rapid.Generator[[]services.Endpoint] {
	return rapid.Custom(func(t *rapid.T) []services.Endpoint {
		var eps []services.Endpoint
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 0, 8, rapid.ID).Draw(t, "endpoints") {
			eps = append(eps, testEndpoint(n, v6))
		}
		slices.SortFunc(eps, func(a, b services.Endpoint) int { return a.Addr.Compare(b.Addr) })
		return eps
	})
}

// genPort is a random port of Service number n. Addresses beside the cluster IP are few, so that Services get in one
// another's way.
func genPort(n int) *rapid.Generator[*services.ServicePort] {
	return rapid.Custom(func(t *rapid.T) *services.ServicePort {
		v6 := n%2 == 1
		yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
		few := func(what string) netip.Addr {
			return addr(v6, "203.0.113.", "2001:db8::", rapid.IntRange(1, 3).Draw(t, what))
		}
		sp := &services.ServicePort{Port: 80, ClusterIP: addr(v6, "10.96.0.", "fd00:10:96::", n/4+1)}
		sp.Key = services.Key{Namespace: "test", Service: fmt.Sprintf("svc%d", n/4), Port: fmt.Sprint(n / 2 % 2), Family: services.IPv4,
			Protocol: []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}[n/4%3]}
		sp.Port += uint16(n / 2 % 2)
		if v6 {
			sp.Family = services.IPv6
		}
		sp.ClusterEndpoints = genEndpoints(v6).Draw(t, "cluster")
		for _, e := range sp.ClusterEndpoints {
			if e.Local {
				sp.LocalEndpoints = append(sp.LocalEndpoints, e)
			}
		}
		sp.HasAnyEndpoints = len(sp.ClusterEndpoints) > 0 || yes("endpoints elsewhere")
		sp.InternalLocal, sp.ExternalLocal = yes("internal local"), yes("external local")
		if yes("affinity") {
			sp.AffinityTimeout = rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute, 3 * time.Hour}).Draw(t, "timeout")
		}
		if yes("node port") {
			sp.NodePort = uint16(30000 + n)
		}
		if yes("external IP") {
			sp.ExternalIPs = []netip.Addr{few("external IP")}
		}
		if yes("balancer") {
			sp.LoadBalancerVIPs = []netip.Addr{few("balancer")}
			sp.SourceRanges = genRanges(v6).Draw(t, "source ranges")
		}
		return sp
	})
}

func genRanges(v6 bool) *rapid.Generator[[]netip.Prefix] {
	choice := []string{"10.0.0.0/8", "10.10.0.0/24", "192.0.2.7/32", "192.0.2.0/30"}
	if v6 {
		choice = []string{"fd00::/8", "fd00:10:10::/64", "2001:db8::7/128", "2001:db8::/126"}
	}
	return rapid.Custom(func(t *rapid.T) (out []netip.Prefix) {
		for _, s := range rapid.SliceOfN(rapid.SampledFrom(choice), 0, 4).Draw(t, "ranges") {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	})
}

const genServices = 16

// genChange changes a random set of ports of a snapshot and says which.
func genChange(t *rapid.T, prev services.Snapshot) services.Snapshot {
	next := services.Snapshot{Node: prev.Node, Ports: maps.Clone(prev.Ports), Changed: map[services.Key]struct{}{}}
	if next.Ports == nil {
		next.Ports = map[services.Key]*services.ServicePort{}
	}
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, genServices-1), 0, 6, rapid.ID).Draw(t, "changed") {
		sp := genPort(n).Draw(t, "port")
		next.Changed[sp.Key] = struct{}{}
		if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
			delete(next.Ports, sp.Key)
		} else {
			next.Ports[sp.Key] = sp
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "node") == 0 {
		node := testNode
		if rapid.Bool().Draw(t, "without pod CIDR") {
			node.PodCIDRs, node.Addresses = nil, nil
		}
		next.Node = node
	}
	return next
}
