package nftables

import (
	"net/netip"

	"proxylab/proxiers/services"
)

// The small world that random Services live in: a node with a pod CIDR, endpoints on it and elsewhere.
var (
	nodeAddr4, nodeAddr6 = netip.MustParseAddr("10.10.0.11"), netip.MustParseAddr("fd00:10:10::b")
	testNode             = services.Node{Name: "node1", Addresses: []netip.Addr{nodeAddr4, nodeAddr6},
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")}}
)
