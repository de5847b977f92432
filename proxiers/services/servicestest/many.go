package servicestest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// Many is a snapshot of n cluster IP Services in IPv4 with as many endpoints each, one in ten on this node.
func Many(n, endpoints int) services.Snapshot {
	want := services.Snapshot{Node: Facts, Full: true, Ports: make(map[services.Key]*services.ServicePort, n),
		Changed: map[services.Key]struct{}{}}
	for i := range n {
		sp := &services.ServicePort{Key: ManyKey(i), Port: 80, HasAnyEndpoints: true,
			ClusterIP: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}
		for e := range endpoints {
			sp.ClusterEndpoints = append(sp.ClusterEndpoints, ManyEndpoint(i*endpoints+e))
		}
		want.Ports[sp.Key] = sp
	}
	return want
}

// ManyKey is the key of Service number i of Many.
func ManyKey(i int) services.Key {
	return services.Key{Namespace: "bulk", Service: fmt.Sprintf("svc-%05d", i), Port: "http", Protocol: corev1.ProtocolTCP,
		Family: services.IPv4}
}

// ManyEndpoint is endpoint number n of all Services of Many.
func ManyEndpoint(n int) services.Endpoint {
	e := services.Endpoint{Ready: true, Serving: true, Node: "node2",
		Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 200 + byte(n>>16), byte(n >> 8), byte(n)}), 8080)}
	if n%10 == 0 {
		e.Node, e.Local = Node, true
	}
	return e
}

// ReplaceEndpoint gives Service number i of Many another last endpoint, as a partial change. The ports are shared with prev,
// which must not be used any more.
func ReplaceEndpoint(prev services.Snapshot, i int) services.Snapshot {
	k := ManyKey(i)
	sp := *prev.Ports[k]
	last := len(sp.ClusterEndpoints) - 1
	sp.ClusterEndpoints = slices.Clone(sp.ClusterEndpoints)
	a := sp.ClusterEndpoints[last].Addr
	sp.ClusterEndpoints[last].Addr = netip.AddrPortFrom(a.Addr(), 8080+8081-a.Port())
	next := prev
	next.Full = false
	next.Changed = map[services.Key]struct{}{k: {}}
	next.Ports[k] = &sp
	return next
}

// ReplaceService has one Service go and another, number i, with endpoints of its own, come. The ports are shared with prev,
// which must not be used any more.
func ReplaceService(prev services.Snapshot, i int) services.Snapshot {
	next := prev
	next.Changed = map[services.Key]struct{}{}
	for k := range maps.Keys(prev.Ports) {
		added := *prev.Ports[k]
		added.Service = fmt.Sprintf("later-%d", i)
		added.ClusterEndpoints = nil
		for e := range prev.Ports[k].ClusterEndpoints {
			added.ClusterEndpoints = append(added.ClusterEndpoints, ManyEndpoint(1000+i*7+e))
		}
		delete(next.Ports, k)
		next.Ports[added.Key] = &added
		next.Changed[k], next.Changed[added.Key] = struct{}{}, struct{}{}
		break
	}
	return next
}
