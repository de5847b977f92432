package iptables

import (
	"net/netip"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

func externalLocal(p *services.ServicePort) { p.ExternalLocal = true }
func internalLocal(p *services.ServicePort) { p.InternalLocal = true }

func TestExternalPolicyLocal(t *testing.T) {
	eachVariant(t, func(n *node) {
		vips := ofFamily(func(p *services.ServicePort, v6 bool) { p.LoadBalancerVIPs = []netip.Addr{external(1, v6)} })
		n.sync(n.with(web("local1", "remote1"), bed.NodePort(30080), externalLocal, vips))
		for _, v6 := range both {
			for _, to := range []netip.AddrPort{netip.AddrPortFrom(bed.NodeAddr(1, v6), 30080), netip.AddrPortFrom(external(1, v6), 80)} {
				n.only("outside", n.tcp(bed.Outside, to, 20), "local1")
				a, err := n.DialTCP(bed.Outside, to)
				if err != nil || a.Client.Addr() != bed.OutsideAddr(1, v6) && a.Client.Addr() != bed.OutsideAddr(2, v6) {
					t.Errorf("%s: the client's address is not kept: %+v, %v", n.variant, a, err)
				}
				n.only("pod", n.tcp(bed.Client, to, many), "local1", "remote1")
				n.only("node", n.tcp(bed.Node, to, many), "local1", "remote1")
			}
		}
		n.sync(n.with(web("remote1"), bed.NodePort(30080), externalLocal, vips))
		for _, v6 := range both {
			to := netip.AddrPortFrom(bed.NodeAddr(1, v6), 30080)
			n.only("outside, none local", n.tcp(bed.Outside, to, 1), bed.KindTimeout)
			n.only("balancer IP, none local", n.tcp(bed.Outside, netip.AddrPortFrom(external(1, v6), 80), 1), bed.KindTimeout)
			n.only("pod, none local", n.tcp(bed.Client, to, 1), "remote1")
			n.only("cluster IP from outside", n.tcp(bed.Outside, vip(1, v6), 1), "remote1")
		}
	})
}

func TestInternalPolicyLocal(t *testing.T) {
	eachVariant(t, func(n *node) {
		n.sync(n.with(web("local1", "remote1"), bed.NodePort(30080), internalLocal))
		for _, v6 := range both {
			n.only("pod", n.tcp(bed.Client, vip(1, v6), 20), "local1")
			n.only("node port", n.tcp(bed.Client, netip.AddrPortFrom(bed.NodeAddr(1, v6), 30080), many), "local1", "remote1")
		}
		n.sync(n.with(web("remote1"), bed.NodePort(30080), internalLocal))
		for _, v6 := range both {
			n.only("none local", n.tcp(bed.Client, vip(1, v6), 1), bed.KindTimeout)
			n.only("node port", n.tcp(bed.Outside, netip.AddrPortFrom(bed.NodeAddr(1, v6), 30080), 1), "remote1")
		}
	})
}

func TestExternalIPs(t *testing.T) {
	eachVariant(t, func(n *node) {
		n.sync(n.with(web("local1", "remote1"), ofFamily(func(p *services.ServicePort, v6 bool) {
			p.ExternalIPs = []netip.Addr{external(1, v6), external(2, v6)}
		})))
		for _, v6 := range both {
			for i := 1; i <= 2; i++ {
				for _, from := range []string{bed.Outside, bed.Client, bed.Node} {
					n.only("from "+from, n.tcp(from, netip.AddrPortFrom(external(i, v6), 80), many), "local1", "remote1")
				}
			}
		}
	})
}

func TestSourceRanges(t *testing.T) {
	eachVariant(t, func(n *node) {
		n.sync(n.with(web("local1", "remote1"), bed.NodePort(30080), ofFamily(func(p *services.ServicePort, v6 bool) {
			p.LoadBalancerVIPs = []netip.Addr{external(1, v6)}
			a := bed.OutsideAddr(2, v6)
			p.SourceRanges = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
		})))
		for _, v6 := range both {
			to := netip.AddrPortFrom(external(1, v6), 80)
			for i, want := range map[int]string{1: bed.KindTimeout, 2: ""} {
				_, err := n.DialTCPFrom(bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(i, v6)}, to)
				if bed.Kind(err) != want {
					t.Errorf("%s: from %s: %v", n.variant, bed.OutsideAddr(i, v6), err)
				}
			}
			n.only("node port has no ranges", n.tcp(bed.Outside, netip.AddrPortFrom(bed.NodeAddr(1, v6), 30080), 1*many), "local1", "remote1")
		}
	})
}
