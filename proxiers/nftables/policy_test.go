package nftables

import (
	"net/netip"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

func TestExternalPolicyLocal(t *testing.T) {
	n := newNode(t)
	n.sync(with(web("local1", "remote1"), bed.NodePort(30080), externalLocal, balancer(1)))
	for _, v6 := range both {
		for _, to := range []netip.AddrPort{onNode(v6, 30080), external(1, v6)} {
			n.only("outside", n.tcp(bed.Outside, to, 20), "local1")
			a, err := n.DialTCP(bed.Outside, to)
			if err != nil || a.Client.Addr() != bed.OutsideAddr(1, v6) && a.Client.Addr() != bed.OutsideAddr(2, v6) {
				t.Errorf("the client's address is not kept: %+v, %v", a, err)
			}
			n.only("pod", n.tcp(bed.Client, to, many), "local1", "remote1")
			n.only("node", n.tcp(bed.Node, to, many), "local1", "remote1")
			a, err = n.DialTCP(bed.Client, to)
			if err != nil || a.Client.Addr() != n.Pod(bed.Client).Addr(v6) {
				t.Errorf("a pod's address is not kept: %+v, %v", a, err)
			}
		}
	}
	n.sync(with(web("remote1"), bed.NodePort(30080), externalLocal, balancer(1)))
	for _, v6 := range both {
		n.only("outside, none local", n.tcp(bed.Outside, onNode(v6, 30080), 1), bed.KindTimeout)
		n.only("balancer IP, none local", n.tcp(bed.Outside, external(1, v6), 1), bed.KindTimeout)
		n.only("pod, none local", n.tcp(bed.Client, onNode(v6, 30080), 1), "remote1")
		n.only("node, none local", n.tcp(bed.Node, external(1, v6), 1), "remote1")
		n.only("cluster IP from outside", n.tcp(bed.Outside, vip(1, v6), 1), "remote1")
	}
	n.sync(with(web(), bed.NodePort(30080), externalLocal, balancer(1)))
	for _, v6 := range both {
		n.only("outside, none at all", n.tcp(bed.Outside, onNode(v6, 30080), 1), bed.KindRefused)
		n.only("balancer IP, none at all", n.tcp(bed.Outside, external(1, v6), 1), bed.KindRefused)
	}
}

func TestInternalPolicyLocal(t *testing.T) {
	n := newNode(t)
	n.sync(with(web("local1", "remote1"), bed.NodePort(30080), internalLocal))
	for _, v6 := range both {
		n.only("pod", n.tcp(bed.Client, vip(1, v6), 20), "local1")
		n.only("node port", n.tcp(bed.Client, onNode(v6, 30080), many), "local1", "remote1")
	}
	n.sync(with(web("remote1"), bed.NodePort(30080), internalLocal))
	for _, v6 := range both {
		n.only("none local", n.tcp(bed.Client, vip(1, v6), 1), bed.KindTimeout)
		n.only("node port", n.tcp(bed.Outside, onNode(v6, 30080), 1), "remote1")
	}
	n.sync(with(web("local1", "remote1"), bed.NodePort(30080), internalLocal, externalLocal))
	for _, v6 := range both {
		n.only("both local, pod", n.tcp(bed.Client, vip(1, v6), 20), "local1")
		n.only("both local, outside", n.tcp(bed.Outside, onNode(v6, 30080), 20), "local1")
		n.only("both local, pod to node port", n.tcp(bed.Client, onNode(v6, 30080), many), "local1", "remote1")
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
			_, err := n.DialTCPFrom(bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(i, v6)}, external(1, v6))
			if bed.Kind(err) != kind {
				t.Errorf("%s: from %s: %v", what, bed.OutsideAddr(i, v6), err)
			}
		}
	}
	n.sync(ranges())
	for _, v6 := range both {
		expect("one address", v6, map[int]string{1: bed.KindTimeout, 2: ""})
		n.only("a pod is not in the ranges", n.tcp(bed.Client, external(1, v6), 1), bed.KindTimeout)
		n.only("node port has no ranges", n.tcp(bed.Outside, onNode(v6, 30080), many), "local1", "remote1")
		n.only("nor has the cluster IP", n.tcp(bed.Client, vip(1, v6), many), "local1", "remote1")
	}
	// Overlapping ranges, one of them the whole fabric; afterwards they are gone again.
	n.sync(ranges(netip.MustParsePrefix("10.10.0.0/24"), netip.MustParsePrefix("10.10.0.7/16"), netip.MustParsePrefix("fd00:10:10::/64")))
	for _, v6 := range both {
		expect("the fabric", v6, map[int]string{1: "", 2: ""})
		n.only("the node is in the ranges", n.tcp(bed.Node, external(1, v6), many), "local1", "remote1")
	}
	n.sync(ranges())
	for _, v6 := range both {
		expect("one address again", v6, map[int]string{1: bed.KindTimeout, 2: ""})
	}
	n.sync(with(web("local1"), balancer(1)))
	for _, v6 := range both {
		expect("no ranges", v6, map[int]string{1: "", 2: ""})
	}
}
