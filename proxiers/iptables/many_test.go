package iptables

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// manyServices is a snapshot of n cluster IP Services in IPv4 with as many endpoints each, one in ten on this node.
func manyServices(n, endpoints int) services.Snapshot {
	want := services.Snapshot{Node: testNode, Full: true, Ports: make(map[services.Key]*services.ServicePort, n),
		Changed: map[services.Key]struct{}{}}
	for i := range n {
		sp := &services.ServicePort{Port: 80, HasAnyEndpoints: true,
			ClusterIP: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}),
			Key: services.Key{Namespace: "bulk", Service: fmt.Sprintf("svc-%05d", i), Port: "http",
				Protocol: corev1.ProtocolTCP, Family: services.IPv4}}
		for e := range endpoints {
			sp.ClusterEndpoints = append(sp.ClusterEndpoints, bulkEndpoint(i*endpoints+e))
		}
		want.Ports[sp.Key] = sp
	}
	return want
}

func bulkEndpoint(n int) services.Endpoint {
	e := services.Endpoint{Ready: true, Serving: true, Node: "node2",
		Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 200 + byte(n>>16), byte(n >> 8), byte(n)}), 8080)}
	if n%10 == 0 {
		e.Node, e.Local = "node1", true
	}
	return e
}

// replaceEndpoint gives Service number i another last endpoint, as a partial change.
func replaceEndpoint(prev services.Snapshot, i int) services.Snapshot {
	k := services.Key{Namespace: "bulk", Service: fmt.Sprintf("svc-%05d", i), Port: "http", Protocol: corev1.ProtocolTCP,
		Family: services.IPv4}
	sp := *prev.Ports[k]
	last := len(sp.ClusterEndpoints) - 1
	sp.ClusterEndpoints = append([]services.Endpoint{}, sp.ClusterEndpoints...)
	a := sp.ClusterEndpoints[last].Addr
	port := uint16(8080)
	if a.Port() == 8080 {
		port = 8081
	}
	sp.ClusterEndpoints[last].Addr = netip.AddrPortFrom(a.Addr(), port)
	next := prev
	next.Full = false
	next.Changed = map[services.Key]struct{}{k: {}}
	next.Ports[k] = &sp // shared with prev: nobody looks at that again
	return next
}

// replaceService has one Service go and another, number i, with endpoints of its own, come.
func replaceService(prev services.Snapshot, i int) services.Snapshot {
	next := prev
	next.Changed = map[services.Key]struct{}{}
	for k, sp := range prev.Ports {
		added := *sp
		added.Service = fmt.Sprintf("later-%d", i)
		added.ClusterEndpoints = nil
		for e := range sp.ClusterEndpoints {
			added.ClusterEndpoints = append(added.ClusterEndpoints, bulkEndpoint(1000+i*7+e))
		}
		delete(next.Ports, k)
		next.Ports[added.Key] = &added
		next.Changed[k], next.Changed[added.Key] = struct{}{}, struct{}{}
		break
	}
	return next
}
