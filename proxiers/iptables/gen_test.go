package iptables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
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

// endpoint number n: 1..4 on this node (4 with the node's own address), 5..8 on another, 9 nobody knows where.
func endpoint(n int, v6 bool) services.Endpoint {
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
		numbers := rapid.SliceOfNDistinct(rapid.IntRange(1, 9), 0, 5, rapid.ID).Draw(t, "endpoints")
		eps := make([]services.Endpoint, 0, len(numbers))
		for _, n := range numbers {
			eps = append(eps, endpoint(n, v6))
		}
		slices.SortFunc(eps, func(a, b services.Endpoint) int { return a.Addr.Compare(b.Addr) })
		return eps
	})
}

// genPort is a random port of Service number n.
func genPort(n int) *rapid.Generator[*services.ServicePort] {
	return rapid.Custom(func(t *rapid.T) *services.ServicePort {
		v6 := n%2 == 1
		yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
		sp := &services.ServicePort{Port: 80, ClusterIP: addr(v6, "10.96.0.", "fd00:10:96::", n+1)}
		sp.Key = services.Key{Namespace: "test", Service: fmt.Sprintf("svc%d", n/2), Port: "p", Family: services.IPv4,
			Protocol: []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}[n/2%3]}
		if v6 {
			sp.Family = services.IPv6
		}
		sp.ClusterEndpoints = genEndpoints(v6).Draw(t, "cluster")
		for _, e := range sp.ClusterEndpoints {
			if e.Local {
				sp.LocalEndpoints = append(sp.LocalEndpoints, e)
			}
		}
		sp.HasAnyEndpoints = len(sp.ClusterEndpoints) > 0
		sp.InternalLocal, sp.ExternalLocal = yes("internal local"), yes("external local")
		if yes("affinity") {
			sp.AffinityTimeout = 3 * time.Hour
		}
		if yes("node port") {
			sp.NodePort = uint16(30000 + n)
		}
		if yes("external IP") {
			sp.ExternalIPs = []netip.Addr{addr(v6, "203.0.113.", "2001:db8::", n+1)}
		}
		if yes("balancer") {
			sp.LoadBalancerVIPs = []netip.Addr{addr(v6, "203.0.113.", "2001:db8::", n+101)}
			if yes("source ranges") {
				sp.SourceRanges = []netip.Prefix{netip.PrefixFrom(addr(v6, "10.10.0.", "fd00:10:10::", 1), 24)}
			}
			if sp.ExternalLocal {
				sp.HealthCheckNodePort = uint16(31000 + n)
			}
		}
		return sp
	})
}

const genServices = 12

// genChange changes a random set of ports of a snapshot and says which.
func genChange(t *rapid.T, prev services.Snapshot) services.Snapshot {
	next := services.Snapshot{Node: prev.Node, Ports: map[services.Key]*services.ServicePort{}, Changed: map[services.Key]struct{}{}}
	for k, sp := range prev.Ports {
		next.Ports[k] = sp
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
			node.PodCIDRs = nil
		}
		next.Node = node
	}
	return next
}

func sortedKeys(m map[services.Key]*services.ServicePort) []services.Key {
	return slices.SortedFunc(maps.Keys(m), compareKeys)
}

func sortedLines(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
