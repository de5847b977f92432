package ipvs

import (
	"net/netip"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

// Enough connections that missing one of four servers does not happen with round robin.
const several = 8

func TestClusterIP(t *testing.T) {
	eachBackend(t, func(n *node) {
		all := []string{"local1", "local2", "remote1", "remote2"}
		n.Sync(web(all...), dns(all...))
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
				n.Only("TCP from "+from, n.TCP(from, vip(1, v6), several), all...)
				n.Only("UDP from "+from, n.UDP(from, vip(2, v6), several), all...)
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
	})
}

func TestHairpin(t *testing.T) {
	eachBackend(t, func(n *node) {
		n.Sync(web("local1"), dns("local1"))
		for _, v6 := range both {
			a, err := n.DialTCP("local1", vip(1, v6))
			if err != nil || a.Pod != "local1" || a.Client.Addr() == n.Pod("local1").Addr(v6) {
				t.Errorf("%+v, %v", a, err)
			}
			n.Only("UDP to itself", n.UDP("local1", vip(2, v6), 1), "local1")
		}
	})
}

func TestNodePort(t *testing.T) {
	eachBackend(t, func(n *node) {
		n.Sync(with(web("local1", "remote1"), bed.NodePort(30080)), with(dns("local1", "remote1"), bed.NodePort(30053)))
		for _, v6 := range both {
			to := bed.NodeAddr(1, v6)
			for _, from := range []string{bed.Outside, bed.Client, bed.Node, bed.Node2} {
				n.Only("TCP from "+from, n.TCP(from, netip.AddrPortFrom(to, 30080), several), "local1", "remote1")
				n.Only("UDP from "+from, n.UDP(from, netip.AddrPortFrom(to, 30053), several), "local1", "remote1")
			}
			gateway := netip.MustParseAddrPort("10.244.1.1:30080")
			if v6 {
				gateway = netip.MustParseAddrPort("[fd00:10:244:1::1]:30080")
			}
			n.Only("gateway", n.TCP(bed.Client, gateway, several), "local1", "remote1")
		}
		n.Only("loopback", n.TCP(bed.Node, netip.MustParseAddrPort("127.0.0.1:30080"), 1), bed.KindRefused)
	})
}
