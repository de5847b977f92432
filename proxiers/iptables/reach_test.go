package iptables

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
)

func TestClusterIP(t *testing.T) {
	in(t, legacyCompact, func(n *node) {
		all := []string{"local1", "local2", "remote1", "remote2"}
		n.Sync(web(all...), dns(all...))
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
				n.Only("TCP from "+from, n.TCP(from, vip(1, v6), bed.OfFour), all...)
				n.Only("UDP from "+from, n.UDP(from, vip(2, v6), bed.OfFour), all...)
			}
			a, err := n.DialTCP(bed.Client, vip(1, v6))
			if client := n.Pod(bed.Client).Addr(v6); err != nil || a.Client.Addr() != client {
				t.Errorf("%s: a pod's address is not kept: seen %s, %v", n.variant, a.Client, err)
			}
			a, err = n.DialTCP(bed.Outside, vip(1, v6))
			if err != nil || a.Client.Addr() == bed.OutsideAddr(1, v6) || a.Client.Addr() == bed.OutsideAddr(2, v6) {
				t.Errorf("%s: traffic from outside to a cluster IP is not masqueraded: seen %s, %v", n.variant, a.Client, err)
			}
		}
	})
}

func TestHairpin(t *testing.T) {
	in(t, nftCompact, func(n *node) {
		n.Sync(web("local1"), dns("local1"))
		for _, v6 := range both {
			a, err := n.DialTCP("local1", vip(1, v6))
			if err != nil || a.Pod != "local1" || a.Client.Addr() == n.Pod("local1").Addr(v6) {
				t.Errorf("%s: %+v, %v", n.variant, a, err)
			}
			n.Only("UDP to itself", n.UDP("local1", vip(2, v6), 1), "local1")
		}
		// With others behind the Service a pod's address is kept when it meets one of them.
		n.Sync(web("local1", "local2"), dns())
		for range 20 {
			a, err := n.DialTCP("local1", vip(1, false))
			kept := a.Client.Addr() == n.Pod("local1").V4
			if err != nil || kept != (a.Pod == "local2") {
				t.Errorf("%s: %+v, %v", n.variant, a, err)
			}
		}
	})
}

func TestNodePort(t *testing.T) {
	in(t, nftCompact, func(n *node) {
		n.Sync(with(web("local1", "remote1"), bed.NodePort(30080)), with(dns("local1", "remote1"), bed.NodePort(30053)))
		for _, v6 := range both {
			to := bed.NodeAddr(1, v6)
			for _, from := range []string{bed.Outside, bed.Client, bed.Node, bed.Node2} {
				n.Only("TCP from "+from, n.TCP(from, netip.AddrPortFrom(to, 30080), bed.OfTwo), "local1", "remote1")
				n.Only("UDP from "+from, n.UDP(from, netip.AddrPortFrom(to, 30053), bed.OfTwo), "local1", "remote1")
			}
			// Any local address will do: here the pods' gateway.
			gateway := netip.AddrPortFrom(servicestest.Addr(v6, "10.244.1.", "fd00:10:244:1::", 1), 30080)
			n.Only("gateway", n.TCP(bed.Client, gateway, bed.OfTwo), "local1", "remote1")
		}
		n.Only("loopback", n.TCP(bed.Node, netip.MustParseAddrPort("127.0.0.1:30080"), bed.OfTwo), "local1", "remote1")
		n.Only("IPv6 loopback", n.TCP(bed.Node, netip.MustParseAddrPort("[::1]:30080"), 1), bed.KindRefused)
	})
}

func TestNoEndpointsAreRefused(t *testing.T) {
	in(t, legacyCompact, func(n *node) {
		vips := ofFamily(func(p *services.ServicePort, v6 bool) { p.ExternalIPs = []netip.Addr{external(1, v6)} })
		for range 2 { // from the start, and again after there were some
			n.Sync(with(web(), bed.NodePort(30080), vips), with(dns(), bed.NodePort(30053)))
			for _, v6 := range both {
				node := bed.NodeAddr(1, v6)
				for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
					n.Only("TCP from "+from, n.TCP(from, vip(1, v6), 1), bed.KindRefused)
					n.RefusesUDP(from, vip(2, v6))
					n.Only("node port from "+from, n.TCP(from, netip.AddrPortFrom(node, 30080), 1), bed.KindRefused)
				}
				n.Only("external IP", n.TCP(bed.Outside, bed.External(1, v6), 1), bed.KindRefused)
			}
			n.Sync(with(web("local1"), bed.NodePort(30080)), with(dns("local1"), bed.NodePort(30053)))
			n.Only("with one", n.TCP(bed.Client, vip(1, false), 1), "local1")
		}
	})
}

func TestAffinity(t *testing.T) {
	in(t, nftCompact, func(n *node) {
		all := []string{"local1", "local2", "remote1", "remote2"}
		n.Sync(with(web(all...), bed.Affinity(time.Hour)))
		for _, v6 := range both {
			first := n.TCP(bed.Client, vip(1, v6), 20)
			if len(first) != 1 {
				t.Errorf("%s: one client met %v", n.variant, first)
			}
			n.Sync(with(web(all...), bed.Affinity(time.Hour)), dns("local1"))
			if again := n.TCP(bed.Client, vip(1, v6), 20); fmt.Sprint(first) != fmt.Sprint(again) {
				t.Errorf("%s: after another Service's sync the client met %v, before %v", n.variant, again, first)
			}
			var rest []string
			for _, pod := range all {
				if first[pod] == 0 {
					rest = append(rest, pod)
				}
			}
			n.Sync(with(web(rest...), bed.Affinity(time.Hour)))
			if moved := n.TCP(bed.Client, vip(1, v6), 20); len(moved) != 1 || moved[bed.KindTimeout] > 0 {
				t.Errorf("%s: without its endpoint the client met %v", n.variant, moved)
			}
			n.Sync(web(all...))
			n.Only("without affinity", n.TCP(bed.Client, vip(1, v6), bed.OfFour), all...)
			n.Sync(with(web(all...), bed.Affinity(time.Hour)))
		}
	})
}

func TestAffinityEnds(t *testing.T) {
	in(t, legacyCompact, func(n *node) {
		n.Sync(with(web("local1", "local2", "remote1"), bed.Affinity(time.Second)))
		got := map[string]int{}
		for range 20 {
			for pod, c := range n.TCP(bed.Client, vip(1, false), 1) {
				got[pod] += c
			}
			if len(got) > 1 {
				return
			}
			time.Sleep(1100 * time.Millisecond) // what is tested is that time passes
		}
		t.Errorf("%s: affinity of a second holds on: %v", n.variant, got)
	})
}
