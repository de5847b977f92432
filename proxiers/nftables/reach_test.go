package nftables

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

func TestSeveralPorts(t *testing.T) {
	n := newNode(t)
	https := bed.Service{Name: "web", Port: "https", IP: bed.VIPs(1), Pods: []string{"remote1"},
		Edit: func(p *services.ServicePort) { p.Port = 443 }}
	both53 := bed.Service{Name: "web", Port: "udp", Protocol: corev1.ProtocolUDP, IP: bed.VIPs(1), Pods: []string{"local2"}}
	n.Sync(web("local1"), https, both53)
	for _, v6 := range both {
		n.Only("port 80", n.TCP(bed.Client, vip(1, v6), 3), "local1")
		n.Only("port 443", n.TCP(bed.Client, netip.AddrPortFrom(bed.VIP(1, v6), 443), 3), "remote1")
		n.Only("port 80 UDP", n.UDP(bed.Client, vip(1, v6), 3), "local2")
	}
	// A port less of three leaves the other two alone.
	n.Sync(web("local1"), both53)
	for _, v6 := range both {
		n.Only("port 80", n.TCP(bed.Client, vip(1, v6), 3), "local1")
		n.Only("port 443", n.TCP(bed.Client, netip.AddrPortFrom(bed.VIP(1, v6), 443), 1), bed.KindRefused)
	}
}

func TestHairpin(t *testing.T) {
	n := newNode(t)
	n.Sync(web("local1"), dns("local1"))
	for _, v6 := range both {
		a, err := n.DialTCP("local1", vip(1, v6))
		if err != nil || a.Pod != "local1" || a.Client.Addr() == n.Pod("local1").Addr(v6) {
			t.Errorf("%+v, %v", a, err)
		}
		n.Only("UDP to itself", n.UDP("local1", vip(2, v6), 1), "local1")
	}
	// With others behind the Service a pod's address is kept when it meets one of them.
	n.Sync(web("local1", "local2"), dns())
	for range 20 {
		a, err := n.DialTCP("local1", vip(1, false))
		kept := a.Client.Addr() == n.Pod("local1").V4
		if err != nil || kept != (a.Pod == "local2") {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// Beside the node's primary addresses, where conformance asks.
func TestNodePortElsewhere(t *testing.T) {
	n := newNode(t)
	n.Sync(with(web("local1", "remote1"), bed.NodePort(30080)))
	for _, v6 := range both {
		// Any local address will do: here the pods' gateway. https://issues.k8s.io/142183
		gateway := map[bool]string{false: "10.244.1.1", true: "fd00:10:244:1::1"}[v6]
		n.Only("gateway", n.TCP(bed.Client, netip.AddrPortFrom(netip.MustParseAddr(gateway), 30080), bed.OfTwo), "local1", "remote1")
		// Another node's is not this node's business.
		n.Only("another node", n.TCP(bed.Client, netip.AddrPortFrom(bed.NodeAddr(2, v6), 30080), 1), bed.KindRefused)
	}
	n.Only("loopback", n.TCP(bed.Node, netip.MustParseAddrPort("127.0.0.1:30080"), 1), bed.KindRefused)
	n.Only("IPv6 loopback", n.TCP(bed.Node, netip.MustParseAddrPort("[::1]:30080"), 1), bed.KindRefused)
}

func TestExternalIPs(t *testing.T) {
	n := newNode(t)
	n.Sync(with(web("local1", "remote1"), externalIPs(1, 2), balancer(3)))
	for _, v6 := range both {
		for i := 1; i <= 3; i++ {
			for _, from := range []string{bed.Outside, bed.Client, bed.Node} {
				n.Only("from "+from, n.TCP(from, external(i, v6), bed.OfTwo), "local1", "remote1")
			}
		}
	}
}

func TestNoEndpointsAreRefused(t *testing.T) {
	n := newNode(t)
	for range 2 { // from the start, and again after there were some
		n.Sync(with(web(), bed.NodePort(30080), externalIPs(1)), with(dns(), bed.NodePort(30053)))
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
				n.Only("TCP from "+from, n.TCP(from, vip(1, v6), 1), bed.KindRefused)
				n.RefusesUDP(from, vip(2, v6))
				n.Only("node port from "+from, n.TCP(from, onNode(v6, 30080), 1), bed.KindRefused)
				n.RefusesUDP(from, onNode(v6, 30053))
				n.Only("external IP from "+from, n.TCP(from, external(1, v6), 1), bed.KindRefused)
			}
		}
		n.Sync(with(web("local1"), bed.NodePort(30080)), with(dns("local1"), bed.NodePort(30053)))
		n.Only("with one", n.TCP(bed.Client, vip(1, false), 1), "local1")
	}
}

// The node's own ports are not reachable by a Service's address, and neither is a port that it has not got.
// https://issues.k8s.io/72236
func TestOtherPortsOfAClusterIPAreRefused(t *testing.T) {
	n := newNode(t)
	n.Sync(web("local1"))
	for _, v6 := range both {
		for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
			n.Only("from "+from, n.TCP(from, netip.AddrPortFrom(bed.VIP(1, v6), 22), 1), bed.KindRefused)
		}
		n.RefusesUDP(bed.Client, netip.AddrPortFrom(bed.VIP(1, v6), 53))
	}
}

// Two Services claim one external IP and port: one of them serves it, the other takes over.
func TestClaimedTwice(t *testing.T) {
	n := newNode(t)
	second := with(bed.Service{Name: "web2", IP: bed.VIPs(3), Pods: []string{"remote1"}}, externalIPs(1))
	n.Sync(with(web("local1"), externalIPs(1)))
	n.Sync(with(web("local1"), externalIPs(1)), second)
	for _, v6 := range both {
		n.Only("both", n.TCP(bed.Outside, external(1, v6), 5), "local1")
		n.Only("both, cluster IP", n.TCP(bed.Client, vip(3, v6), 5), "remote1")
	}
	n.Sync(second)
	for _, v6 := range both {
		n.Only("one", n.TCP(bed.Outside, external(1, v6), 5), "remote1")
	}
}

// SCTP has its rules; the kernel of the test need not speak it.
func TestSCTPIsTranslated(t *testing.T) {
	n := newNode(t)
	n.Sync(bed.Service{Name: "sctp", IP: bed.VIPs(6), Protocol: corev1.ProtocolSCTP, ServerPort: 9999, Pods: []string{"local1", "remote2"}})
	for family, addr := range map[string]string{"ip": "10.96.0.6", "ip6": "fd00:10:96::6"} {
		n.MustExec(bed.Node, "nft", "get", "element", family, Table, "sctp-endpoints", "{ "+addr+" . 80 . 1 }")
	}
}
