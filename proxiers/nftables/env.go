package nftables

import (
	"net/netip"
	"os"
	"slices"
	"strings"

	"proxylab/proxiers/services"
)

// masqMark is the packet mark for masquerading, kube-proxy's default bit 14. During a switch both tables are in place, and
// whichever masquerades first takes the mark away.
const masqMark = "0x4000"

// sysctlTCPLiberal makes conntrack call fewer packets INVALID.
const sysctlTCPLiberal = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal"

// env is what rules and elements depend on besides the Services.
type env struct {
	v6         bool
	podCIDR    netip.Prefix // not valid: unknown, then nothing counts as pod or as off-cluster traffic
	nodeAddrs  []netip.Addr
	tcpLiberal bool // INVALID packets are not dropped
}

func (e env) equal(o env) bool {
	return e.v6 == o.v6 && e.podCIDR == o.podCIDR && e.tcpLiberal == o.tcpLiberal && slices.Equal(e.nodeAddrs, o.nodeAddrs)
}

// forNode is the same on a node that may have changed.
func (e env) forNode(node services.Node) env {
	e.podCIDR, e.nodeAddrs = node.In(e.v6)
	return e
}

func (e env) mayHairpin(ep services.Endpoint) bool {
	return services.MayHairpin(ep, e.podCIDR, e.nodeAddrs)
}

// ip is how nft calls the family.
func (e env) ip() string {
	if e.v6 {
		return "ip6"
	}
	return "ip"
}

func (e env) addrType() string {
	if e.v6 {
		return "ipv6_addr"
	}
	return "ipv4_addr"
}

// anyAddr stands for every address of the node in the destination of a node port.
func (e env) anyAddr() netip.Addr {
	if e.v6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// address is the expression for the address in a packet's destination, respectively in that of the node port it is sent
// to: all zeros, as every address of the node will do.
func (e env) address(nodePort bool) string {
	s := e.ip() + " daddr"
	if nodePort {
		s += " & " + e.anyAddr().String()
	}
	return s
}

// destination is the expression for a packet's destination.
func (e env) destination(nodePort bool) string {
	return e.address(nodePort) + " . meta l4proto . th dport"
}

func (e env) notLoopback() string {
	if e.v6 {
		return "ip6 daddr != ::1"
	}
	return "ip daddr != 127.0.0.0/8"
}

func tcpLiberal() bool {
	data, err := os.ReadFile(sysctlTCPLiberal)
	v := strings.TrimSpace(string(data))
	return err == nil && v != "" && v != "0"
}
