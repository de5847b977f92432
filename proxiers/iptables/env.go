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

// forNode is the same on a node that may have changed.
func (e env) forNode(node services.Node) env {
	e.podCIDR, e.nodeAddrs = node.In(e.v6)
	return e
}

func (e env) mayHairpin(ep services.Endpoint) bool {
	return services.MayHairpin(ep, e.podCIDR, e.nodeAddrs)
}
