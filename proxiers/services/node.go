package services

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// nodeOf reads a Node. Addresses keep the API's order, internal ones first, because the first of a family is the node's
// primary one.
func nodeOf(n *corev1.Node) Node {
	out := Node{Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone]}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if addr, ok := parseAddr(a.Address); ok && a.Type == kind && !slices.Contains(out.Addresses, addr) {
				out.Addresses = append(out.Addresses, addr)
			}
		}
	}
	texts := n.Spec.PodCIDRs
	if len(texts) == 0 {
		texts = []string{n.Spec.PodCIDR}
	}
	out.PodCIDRs = slices.Concat(prefixesOf(IPv4, texts), prefixesOf(IPv6, texts))
	return out
}

// Addr is the node's primary address of a family; the zero Addr if it has none.
func (n Node) Addr(f Family) netip.Addr {
	for _, a := range n.Addresses {
		if familyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}

// In narrows what the API says of the node to one family. Kubernetes gives a node one pod CIDR per family; it is not valid where
// it is not known.
func (n Node) In(v6 bool) (podCIDR netip.Prefix, addrs []netip.Addr) {
	for _, p := range n.PodCIDRs {
		if p.Addr().Is6() == v6 && !podCIDR.IsValid() {
			podCIDR = p.Masked()
		}
	}
	for _, a := range n.Addresses {
		if a.Is6() == v6 {
			addrs = append(addrs, a)
		}
	}
	return podCIDR, addrs
}

// MayHairpin says whether a connection from this endpoint could come back to it through this node with both addresses the same.
// Connections from outside the node's pods are masqueraded by other rules before that matters.
func MayHairpin(ep Endpoint, podCIDR netip.Prefix, nodeAddrs []netip.Addr) bool {
	a := ep.Addr.Addr()
	return ep.Local || !podCIDR.IsValid() || podCIDR.Contains(a) || slices.Contains(nodeAddrs, a)
}
