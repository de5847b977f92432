package iptables

import (
	"net/netip"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

func TestExternalPolicyLocal(t *testing.T) {
	in(t, nftCompact, func(n *node) {
		vips := ofFamily(func(p *services.ServicePort, v6 bool) { p.LoadBalancerVIPs = []netip.Addr{external(1, v6)} })
		n.Sync(with(web("local1", "remote1"), bed.NodePort(30080), externalLocal, vips))
		for _, v6 := range both {
			for _, to := range []netip.AddrPort{bed.OnNode(v6, 30080), bed.External(1, v6)} {
				n.Only("outside", n.TCP(bed.Outside, to, 20), "local1")
				a, err := n.DialTCP(bed.Outside, to)
				if err != nil || a.Client.Addr() != bed.OutsideAddr(1, v6) && a.Client.Addr() != bed.OutsideAddr(2, v6) {
					t.Errorf("%s: the client's address is not kept: %+v, %v", n.variant, a, err)
				}
				n.Only("pod", n.TCP(bed.Client, to, bed.OfTwo), "local1", "remote1")
				n.Only("node", n.TCP(bed.Node, to, bed.OfTwo), "local1", "remote1")
			}
		}
		n.Sync(with(web("remote1"), bed.NodePort(30080), externalLocal, vips))
		for _, v6 := range both {
			to := bed.OnNode(v6, 30080)
			n.Silent("outside, none local", bed.Outside, to)
			n.Silent("balancer IP, none local", bed.Outside, bed.External(1, v6))
			n.Only("pod, none local", n.TCP(bed.Client, to, 1), "remote1")
			n.Only("cluster IP from outside", n.TCP(bed.Outside, vip(1, v6), 1), "remote1")
		}
	})
}

func TestInternalPolicyLocal(t *testing.T) {
	in(t, legacyCompact, func(n *node) {
		n.Sync(with(web("local1", "remote1"), bed.NodePort(30080), internalLocal))
		for _, v6 := range both {
			n.Only("pod", n.TCP(bed.Client, vip(1, v6), 20), "local1")
			n.Only("node port", n.TCP(bed.Client, bed.OnNode(v6, 30080), bed.OfTwo), "local1", "remote1")
		}
		n.Sync(with(web("remote1"), bed.NodePort(30080), internalLocal))
		for _, v6 := range both {
			n.Silent("none local", bed.Client, vip(1, v6))
			n.Only("node port", n.TCP(bed.Outside, bed.OnNode(v6, 30080), 1), "remote1")
		}
	})
}

func TestExternalIPs(t *testing.T) {
	in(t, legacyCompact, func(n *node) {
		n.Sync(with(web("local1", "remote1"), ofFamily(func(p *services.ServicePort, v6 bool) {
			p.ExternalIPs = []netip.Addr{external(1, v6), external(2, v6)}
		})))
		for _, v6 := range both {
			for i := 1; i <= 2; i++ {
				for _, from := range []string{bed.Outside, bed.Client, bed.Node} {
					n.Only("from "+from, n.TCP(from, bed.External(i, v6), bed.OfTwo), "local1", "remote1")
				}
			}
		}
	})
}

func TestSourceRanges(t *testing.T) {
	in(t, nftCompact, func(n *node) {
		n.Sync(with(web("local1", "remote1"), bed.NodePort(30080), ofFamily(func(p *services.ServicePort, v6 bool) {
			p.LoadBalancerVIPs = []netip.Addr{external(1, v6)}
			a := bed.OutsideAddr(2, v6)
			p.SourceRanges = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
		})))
		for _, v6 := range both {
			n.SilentFrom("not in the range", bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(1, v6)}, bed.External(1, v6))
			if _, err := n.DialTCPFrom(bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(2, v6)}, bed.External(1, v6)); err != nil {
				t.Errorf("%s: from %s: %v", n.variant, bed.OutsideAddr(2, v6), err)
			}
			n.Only("node port has no ranges", n.TCP(bed.Outside, bed.OnNode(v6, 30080), bed.OfTwo), "local1", "remote1")
		}
	})
}
