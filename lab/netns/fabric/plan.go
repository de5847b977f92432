package fabric

import (
	"fmt"
	"net"
	"net/netip"
)

// MaxNodes is the largest number of nodes that the address plan has room for.
const MaxNodes = 200

// PodsPerNode is the number of addresses that a node has for pods: 2 to 254 in each of its ranges.
const PodsPerNode = 253

// Ranges of Service addresses; nothing in the fabric routes them, the proxiers make them work.
const (
	ServiceCIDR4 = "10.96.0.0/16"
	ServiceCIDR6 = "fd00:10:96::/112"
	PodCIDR4     = "10.244.0.0/16"
	PodCIDR6     = "fd00:10:244::/48"
)

// The fabric's own addresses.
var (
	Fabric4 = netip.MustParsePrefix("10.10.0.1/24")
	Fabric6 = netip.MustParsePrefix("fd00:10:10::1/64")
)

// Plan is the address plan of a lab.
type Plan struct {
	Lab   string
	Count int // nodes
}

// Node is one node of the plan.
type Node struct {
	Name         string
	Index        int          // from 1
	Addr4, Addr6 netip.Prefix // of eth0, with the length of the fabric's networks
	Pods4, Pods6 netip.Prefix
}

// Nodes lists the nodes, node1 first.
func (p Plan) Nodes() []Node {
	nodes := make([]Node, p.Count)
	for i := range nodes {
		nodes[i] = node(i + 1)
	}
	return nodes
}

// Node finds a node by its name.
func (p Plan) Node(name string) (Node, error) {
	for _, n := range p.Nodes() {
		if n.Name == name {
			return n, nil
		}
	}
	return Node{}, fmt.Errorf("lab %s has no node %q: its nodes are node1 to node%d", p.Lab, name, p.Count)
}

func node(i int) Node {
	host := byte(10 + i)
	return Node{
		Name:  fmt.Sprintf("node%d", i),
		Index: i,
		Addr4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 10, 0, host}), Fabric4.Bits()),
		Addr6: netip.PrefixFrom(withLast(Fabric6.Addr(), host), Fabric6.Bits()),
		Pods4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24),
		// Written as the IPv4 range is: node12 has fd00:10:244:12::/64.
		Pods6: netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%d::/64", i)),
	}
}

func withLast(a netip.Addr, last byte) netip.Addr {
	b := a.As16()
	b[15] = last
	return netip.AddrFrom16(b)
}

// PodAddrs are the two addresses of a pod.
type PodAddrs struct{ V4, V6 netip.Addr }

// Pod returns the addresses with a number, from 2 to 254.
func (n Node) Pod(number int) PodAddrs {
	v4 := n.Pods4.Addr().As4()
	v4[3] = byte(number)
	return PodAddrs{V4: netip.AddrFrom4(v4), V6: withLast(n.Pods6.Addr(), byte(number))}
}

// Number undoes Pod: the number of a pod's addresses, 0 where they are not a pair of this node's.
func (n Node) Number(a PodAddrs) int {
	if !n.Pods4.Contains(a.V4) {
		return 0
	}
	number := int(a.V4.As4()[3])
	if number < 2 || number > 254 || n.Pod(number) != a {
		return 0
	}
	return number
}

// hardwareAddr makes a locally administered address out of an IPv4 address.
func hardwareAddr(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x0a, 0x58, b[0], b[1], b[2], b[3]}
}
