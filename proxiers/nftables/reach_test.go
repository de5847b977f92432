package nftables

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

func TestClusterIP(t *testing.T) {
	n := newNode(t)
	all := []string{"local1", "local2", "remote1", "remote2"}
	n.sync(web(all...), dns(all...))
	for _, v6 := range both {
		for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
			n.only("TCP from "+from, n.tcp(from, vip(1, v6), many), all...)
			n.only("UDP from "+from, n.udp(from, vip(2, v6), many), all...)
		}
		a, err := n.DialTCP(bed.Client, vip(1, v6))
		if client := n.Pod(bed.Client).Addr(v6); err != nil || a.Client.Addr() != client {
			t.Errorf("a pod's address is not kept: seen %s, %v", a.Client, err)
		}
		a, err = n.DialTCP(bed.Outside, vip(1, v6))
		if err != nil || a.Client.Addr() == bed.OutsideAddr(1, v6) || a.Client.Addr() == bed.OutsideAddr(2, v6) {
			t.Errorf("traffic from outside to a cluster IP is not masqueraded: seen %s, %v", a.Client, err)
		}
	}
}

func TestSeveralPorts(t *testing.T) {
	n := newNode(t)
	https := bed.Service{Name: "web", Port: "https", IP: bed.VIPs(1), Pods: []string{"remote1"},
		Edit: func(p *services.ServicePort) { p.Port = 443 }}
	both53 := bed.Service{Name: "web", Port: "udp", Protocol: corev1.ProtocolUDP, IP: bed.VIPs(1), Pods: []string{"local2"}}
	n.sync(web("local1"), https, both53)
	for _, v6 := range both {
		n.only("port 80", n.tcp(bed.Client, vip(1, v6), 3), "local1")
		n.only("port 443", n.tcp(bed.Client, netip.AddrPortFrom(bed.VIP(1, v6), 443), 3), "remote1")
		n.only("port 80 UDP", n.udp(bed.Client, vip(1, v6), 3), "local2")
	}
	// A port less of three leaves the other two alone.
	n.sync(web("local1"), both53)
	for _, v6 := range both {
		n.only("port 80", n.tcp(bed.Client, vip(1, v6), 3), "local1")
		n.only("port 443", n.tcp(bed.Client, netip.AddrPortFrom(bed.VIP(1, v6), 443), 1), bed.KindRefused)
	}
}

func TestHairpin(t *testing.T) {
	n := newNode(t)
	n.sync(web("local1"), dns("local1"))
	for _, v6 := range both {
		a, err := n.DialTCP("local1", vip(1, v6))
		if err != nil || a.Pod != "local1" || a.Client.Addr() == n.Pod("local1").Addr(v6) {
			t.Errorf("%+v, %v", a, err)
		}
		n.only("UDP to itself", n.udp("local1", vip(2, v6), 1), "local1")
	}
	// With others behind the Service a pod's address is kept when it meets one of them.
	n.sync(web("local1", "local2"), dns())
	for range 20 {
		a, err := n.DialTCP("local1", vip(1, false))
		kept := a.Client.Addr() == n.Pod("local1").V4
		if err != nil || kept != (a.Pod == "local2") {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

func TestNodePort(t *testing.T) {
	n := newNode(t)
	n.sync(with(web("local1", "remote1"), bed.NodePort(30080)), with(dns("local1", "remote1"), bed.NodePort(30053)))
	for _, v6 := range both {
		for _, from := range []string{bed.Outside, bed.Client, bed.Node, bed.Node2} {
			n.only("TCP from "+from, n.tcp(from, onNode(v6, 30080), many), "local1", "remote1")
			n.only("UDP from "+from, n.udp(from, onNode(v6, 30053), many), "local1", "remote1")
		}
		// Any local address will do: here the pods' gateway. https://issues.k8s.io/142183
		gateway := map[bool]string{false: "10.244.1.1", true: "fd00:10:244:1::1"}[v6]
		n.only("gateway", n.tcp(bed.Client, netip.AddrPortFrom(netip.MustParseAddr(gateway), 30080), many), "local1", "remote1")
		// Another node's is not this node's business.
		n.only("another node", n.tcp(bed.Client, netip.AddrPortFrom(bed.NodeAddr(2, v6), 30080), 1), bed.KindRefused)
		a, err := n.DialTCP(bed.Outside, onNode(v6, 30080))
		if err != nil || a.Client.Addr() == bed.OutsideAddr(1, v6) || a.Client.Addr() == bed.OutsideAddr(2, v6) {
			t.Errorf("traffic to a node port is not masqueraded: seen %s, %v", a.Client, err)
		}
	}
	n.only("loopback", n.tcp(bed.Node, netip.MustParseAddrPort("127.0.0.1:30080"), 1), bed.KindRefused)
	n.only("IPv6 loopback", n.tcp(bed.Node, netip.MustParseAddrPort("[::1]:30080"), 1), bed.KindRefused)
}

func TestExternalIPs(t *testing.T) {
	n := newNode(t)
	n.sync(with(web("local1", "remote1"), externalIPs(1, 2), balancer(3)))
	for _, v6 := range both {
		for i := 1; i <= 3; i++ {
			for _, from := range []string{bed.Outside, bed.Client, bed.Node} {
				n.only("from "+from, n.tcp(from, external(i, v6), many), "local1", "remote1")
			}
		}
	}
}

func TestNoEndpointsAreRefused(t *testing.T) {
	n := newNode(t)
	for range 2 { // from the start, and again after there were some
		n.sync(with(web(), bed.NodePort(30080), externalIPs(1)), with(dns(), bed.NodePort(30053)))
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
				n.only("TCP from "+from, n.tcp(from, vip(1, v6), 1), bed.KindRefused)
				n.refusesUDP(from, vip(2, v6))
				n.only("node port from "+from, n.tcp(from, onNode(v6, 30080), 1), bed.KindRefused)
				n.refusesUDP(from, onNode(v6, 30053))
				n.only("external IP from "+from, n.tcp(from, external(1, v6), 1), bed.KindRefused)
			}
		}
		n.sync(with(web("local1"), bed.NodePort(30080)), with(dns("local1"), bed.NodePort(30053)))
		n.only("with one", n.tcp(bed.Client, vip(1, false), 1), "local1")
	}
}

// The node's own ports are not reachable by a Service's address, and neither is a port that it has not got.
// https://issues.k8s.io/72236
func TestOtherPortsOfAClusterIPAreRefused(t *testing.T) {
	n := newNode(t)
	n.sync(web("local1"))
	for _, v6 := range both {
		for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
			n.only("from "+from, n.tcp(from, netip.AddrPortFrom(bed.VIP(1, v6), 22), 1), bed.KindRefused)
		}
		n.refusesUDP(bed.Client, netip.AddrPortFrom(bed.VIP(1, v6), 53))
	}
}

// Two Services claim one external IP and port: one of them serves it, the other takes over.
func TestClaimedTwice(t *testing.T) {
	n := newNode(t)
	second := with(bed.Service{Name: "web2", IP: bed.VIPs(3), Pods: []string{"remote1"}}, externalIPs(1))
	n.sync(with(web("local1"), externalIPs(1)))
	n.sync(with(web("local1"), externalIPs(1)), second)
	for _, v6 := range both {
		n.only("both", n.tcp(bed.Outside, external(1, v6), 5), "local1")
		n.only("both, cluster IP", n.tcp(bed.Client, vip(3, v6), 5), "remote1")
	}
	n.sync(second)
	for _, v6 := range both {
		n.only("one", n.tcp(bed.Outside, external(1, v6), 5), "remote1")
	}
}

// SCTP has its rules; the kernel of the test need not speak it.
func TestSCTPIsTranslated(t *testing.T) {
	n := newNode(t)
	n.sync(bed.Service{Name: "sctp", IP: bed.VIPs(6), Protocol: corev1.ProtocolSCTP, ServerPort: 9999, Pods: []string{"local1", "remote2"}})
	for family, addr := range map[string]string{"ip": "10.96.0.6", "ip6": "fd00:10:96::6"} {
		n.MustExec(bed.Node, "nft", "get", "element", family, Table, "sctp-endpoints", "{ "+addr+" . 80 . 1 }")
	}
}
