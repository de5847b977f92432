package iptables

import (
	"net/netip"
	"slices"

	"proxylab/proxiers/services"
)

// LargeThreshold is the number of endpoints of one family above which the compact layout is used. It is kube-proxy's
// figure for its own large cluster mode.
const LargeThreshold = 1000

// masqMark is the packet mark for masquerading: kube-proxy's default bit 14.
const masqMark = "0x4000"

// env is what the rules depend on besides the Services. When it changes, everything is rendered again.
type env struct {
	v6          bool
	podCIDR     netip.Prefix // not valid: unknown, then nothing counts as pod or as off-cluster traffic
	nodeAddrs   []netip.Addr
	compact     bool
	tcpLiberal  bool // nf_conntrack_tcp_be_liberal: INVALID packets are not dropped
	randomFully bool
}

func (e env) equal(o env) bool {
	return e.v6 == o.v6 && e.podCIDR == o.podCIDR && e.compact == o.compact && e.tcpLiberal == o.tcpLiberal &&
		e.randomFully == o.randomFully && slices.Equal(e.nodeAddrs, o.nodeAddrs)
}

// forNode narrows what the API says of the node to one family. Kubernetes gives a node one pod CIDR per family.
func (e env) forNode(node services.Node) env {
	e.podCIDR, e.nodeAddrs = netip.Prefix{}, nil
	for _, p := range node.PodCIDRs {
		if p.Addr().Is6() == e.v6 && !e.podCIDR.IsValid() {
			e.podCIDR = p.Masked()
		}
	}
	for _, a := range node.Addresses {
		if a.Is6() == e.v6 {
			e.nodeAddrs = append(e.nodeAddrs, a)
		}
	}
	return e
}

// mayHairpin: could a connection from this endpoint come back to it through this node unmasqueraded? Connections from
// outside the node's pods are masqueraded by other rules before that matters.
func (e env) mayHairpin(ep services.Endpoint) bool {
	a := ep.Addr.Addr()
	return ep.Local || !e.podCIDR.IsValid() || e.podCIDR.Contains(a) || slices.Contains(e.nodeAddrs, a)
}
