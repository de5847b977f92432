package services

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// candidate is an endpoint of a Service port before it is decided whether the node uses it.
type candidate struct {
	Endpoint
	zones, nodes []string
	slice        string // its name, to decide between equals
}

// better decides which of two entries for the same address and port counts. An address can be in two slices while an
// endpoint moves between them, and belong to two pods while it is reused: the pod that is not terminating is the live
// one. What is left is decided by the slice's name, so that the outcome does not depend on the order of events.
func (c candidate) better(o candidate) bool {
	rank := func(c candidate) int {
		switch {
		case !c.Terminating && c.Ready:
			return 3
		case !c.Terminating:
			return 2
		case c.Serving:
			return 1
		}
		return 0
	}
	if a, b := rank(c), rank(o); a != b {
		return a > b
	}
	return c.slice < o.slice
}

// candidates collects the endpoints of a port from a Service's slices, each address once, sorted by address.
func candidates(port Key, node string, of map[string]*slice) []candidate {
	best := map[netip.AddrPort]candidate{}
	for name, s := range of {
		if s.family != port.Family {
			continue
		}
		for _, p := range s.ports {
			if p.name != port.Port || p.protocol != port.Protocol {
				continue
			}
			for _, e := range s.endpoints {
				c := candidate{
					Endpoint: Endpoint{
						Addr: netip.AddrPortFrom(e.addr, p.number), Node: e.node, Local: e.node != "" && e.node == node,
						Ready: e.ready, Serving: e.serving, Terminating: e.terminating},
					zones: e.zones, nodes: e.nodes, slice: name,
				}
				if old, there := best[c.Addr]; !there || c.better(old) {
					best[c.Addr] = c
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b candidate) int { return a.Addr.Compare(b.Addr) })
}

// choose fills in the port's endpoints: the ready ones or, where there is none, those that still serve while they
// terminate (https://kep.k8s.io/1669), each for itself under the policies Cluster and Local, and for Cluster narrowed by
// topology hints.
func (p *ServicePort) choose(all []candidate, node Node) {
	ready := func(c candidate) bool { return c.Ready }
	draining := func(c candidate) bool { return !c.Ready && c.Serving && c.Terminating }
	anywhere := func(candidate) bool { return true }
	local := func(c candidate) bool { return c.Local }

	if p.UsesClusterEndpoints() {
		p.ClusterEndpoints = pick(all, ready, hinted(all, node))
		if p.ClusterEndpoints == nil {
			p.ClusterEndpoints = pick(all, draining, anywhere)
		}
	}
	if p.UsesLocalEndpoints() || p.HealthCheckNodePort != 0 {
		p.LocalEndpoints = pick(all, ready, local)
		if p.LocalEndpoints == nil {
			p.LocalEndpoints = pick(all, draining, local)
		}
	}
	if p.Protocol == corev1.ProtocolUDP {
		p.ServingEndpoints = []netip.AddrPort{} // not nil: it is known
		for _, c := range all {
			if c.Ready || c.Serving {
				p.ServingEndpoints = append(p.ServingEndpoints, c.Addr)
			}
		}
	}
	p.HasAnyEndpoints = slices.ContainsFunc(all, func(c candidate) bool { return ready(c) || draining(c) })
}

func pick(all []candidate, state, place func(candidate) bool) (out []Endpoint) {
	for _, c := range all {
		if state(c) && place(c) {
			out = append(out, c.Endpoint)
		}
	}
	return out
}

// hinted decides by the hints of all ready endpoints which of them this node uses (https://kep.k8s.io/2433 and
// https://kep.k8s.io/4444): those for this node if each has a hint for nodes and one is for this one; otherwise those
// for its zone, under the same condition; otherwise all. Where an endpoint is ready, it lets at least one pass.
func hinted(all []candidate, node Node) func(candidate) bool {
	forNode := func(c candidate) bool { return slices.Contains(c.nodes, node.Name) }
	forZone := func(c candidate) bool { return slices.Contains(c.zones, node.Zone) }
	everyNode, someNode, everyZone, someZone := true, false, true, false
	for _, c := range all {
		if !c.Ready {
			continue
		}
		everyNode = everyNode && len(c.nodes) > 0
		someNode = someNode || forNode(c)
		everyZone = everyZone && len(c.zones) > 0
		someZone = someZone || forZone(c)
	}
	switch {
	case everyNode && someNode:
		return forNode
	case everyZone && someZone:
		return forZone
	}
	return func(candidate) bool { return true }
}

// name is the namespace and name of an object.
type name struct{ namespace, name string }
