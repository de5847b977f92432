package nftables

import (
	"net/netip"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

func TestExternalPolicyLocal(t *testing.T) {
	n := newNode(t)
	n.Sync(with(web("local1", "remote1"), bed.NodePort(30080), externalLocal, balancer(1)))
	for _, v6 := range both {
		for _, to := range []netip.AddrPort{onNode(v6, 30080), external(1, v6)} {
			n.Only("outside", n.TCP(bed.Outside, to, 20), "local1")
			a, err := n.DialTCP(bed.Outside, to)
			if err != nil || a.Client.Addr() != bed.OutsideAddr(1, v6) && a.Client.Addr() != bed.OutsideAddr(2, v6) {
				t.Errorf("the client's address is not kept: %+v, %v", a, err)
			}
			n.Only("pod", n.TCP(bed.Client, to, bed.OfTwo), "local1", "remote1")
			n.Only("node", n.TCP(bed.Node, to, bed.OfTwo), "local1", "remote1")
			a, err = n.DialTCP(bed.Client, to)
			if err != nil || a.Client.Addr() != n.Pod(bed.Client).Addr(v6) {
				t.Errorf("a pod's address is not kept: %+v, %v", a, err)
			}
		}
	}
	n.Sync(with(web("remote1"), bed.NodePort(30080), externalLocal, balancer(1)))
	for _, v6 := range both {
		n.Silent("outside, none local", bed.Outside, onNode(v6, 30080))
		n.Silent("balancer IP, none local", bed.Outside, external(1, v6))
		n.Only("pod, none local", n.TCP(bed.Client, onNode(v6, 30080), 1), "remote1")
		n.Only("node, none local", n.TCP(bed.Node, external(1, v6), 1), "remote1")
		n.Only("cluster IP from outside", n.TCP(bed.Outside, vip(1, v6), 1), "remote1")
	}
	n.Sync(with(web(), bed.NodePort(30080), externalLocal, balancer(1)))
	for _, v6 := range both {
		n.Only("outside, none at all", n.TCP(bed.Outside, onNode(v6, 30080), 1), bed.KindRefused)
		n.Only("balancer IP, none at all", n.TCP(bed.Outside, external(1, v6), 1), bed.KindRefused)
	}
}

func TestBothPoliciesLocal(t *testing.T) {
	n := newNode(t)
	n.Sync(with(web("local1", "remote1"), bed.NodePort(30080), internalLocal, externalLocal))
	for _, v6 := range both {
		n.Only("both local, pod", n.TCP(bed.Client, vip(1, v6), 20), "local1")
		n.Only("both local, outside", n.TCP(bed.Outside, onNode(v6, 30080), 20), "local1")
		n.Only("both local, pod to node port", n.TCP(bed.Client, onNode(v6, 30080), bed.OfTwo), "local1", "remote1")
	}
}

// https://issues.k8s.io/119656
func TestSourceRanges(t *testing.T) {
	n := newNode(t)
	ranges := func(more ...netip.Prefix) bed.Service {
		return with(web("local1", "remote1"), bed.NodePort(30080), balancer(1), ofFamily(func(p *services.ServicePort, v6 bool) {
			a := bed.OutsideAddr(2, v6)
			p.SourceRanges = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
			for _, m := range more {
				if m.Addr().Is6() == v6 {
					p.SourceRanges = append(p.SourceRanges, m)
				}
			}
		}))
	}
	expect := func(what string, v6 bool, want map[int]string) {
		t.Helper()
		for i, kind := range want {
			from := bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(i, v6)}
			if kind == bed.KindTimeout {
				n.SilentFrom(what, from, external(1, v6))
				continue
			}
			_, err := n.DialTCPFrom(from, external(1, v6))
			if err != nil {
				t.Errorf("%s: from %s: %v", what, bed.OutsideAddr(i, v6), err)
			}
		}
	}
	n.Sync(ranges())
	for _, v6 := range both {
		expect("one address", v6, map[int]string{1: bed.KindTimeout, 2: ""})
		n.Silent("a pod is not in the ranges", bed.Client, external(1, v6))
		n.Only("node port has no ranges", n.TCP(bed.Outside, onNode(v6, 30080), bed.OfTwo), "local1", "remote1")
		n.Only("nor has the cluster IP", n.TCP(bed.Client, vip(1, v6), bed.OfTwo), "local1", "remote1")
	}
	// Overlapping ranges, one of them the whole fabric; afterwards they are gone again.
	n.Sync(ranges(netip.MustParsePrefix("10.10.0.0/24"), netip.MustParsePrefix("10.10.0.7/16"), netip.MustParsePrefix("fd00:10:10::/64")))
	for _, v6 := range both {
		expect("the fabric", v6, map[int]string{1: "", 2: ""})
		n.Only("the node is in the ranges", n.TCP(bed.Node, external(1, v6), bed.OfTwo), "local1", "remote1")
	}
	n.Sync(ranges())
	for _, v6 := range both {
		expect("one address again", v6, map[int]string{1: bed.KindTimeout, 2: ""})
	}
	n.Sync(with(web("local1"), balancer(1)))
	for _, v6 := range both {
		expect("no ranges", v6, map[int]string{1: "", 2: ""})
	}
}
