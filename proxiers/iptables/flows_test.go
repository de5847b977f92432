package iptables

import (
	"net/netip"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

// A UDP flow leaves a dead endpoint at the sync that removes it, keeps a live one, and is refused when there is none.
// https://issues.k8s.io/19029, https://issues.k8s.io/139628
func TestUDPFlowsLeaveDeadEndpoints(t *testing.T) {
	in(t, nftCompact, func(n *node) {
		n.Sync(with(dns("local1"), bed.NodePort(30053)))
		for _, v6 := range both {
			n.Sync(with(dns("local1"), bed.NodePort(30053)))
			port := map[bool]uint16{false: 5000, true: 5600}[v6] // one for each family: sockets stay open
			flows := map[string]*bed.UDP{
				"cluster IP": n.Flow(bed.Client, port, vip(2, v6)),
				"node port":  n.Flow(bed.Outside, port, bed.OnNode(v6, 30053)),
			}
			expect := func(when, pod string) {
				n.t.Helper()
				for name, u := range flows {
					if got := u.Who(); got != pod {
						t.Errorf("%s, IPv6 %v, %s, %s: %s, want %s", n.variant, v6, name, when, got, pod)
					}
				}
			}
			expect("at first", "local1")
			if r := n.Sync(with(dns("local1", "remote1"), bed.NodePort(30053))); r.StaleFlows != 0 {
				t.Errorf("%s: %d flows removed although none is stale", n.variant, r.StaleFlows)
			}
			expect("with another one", "local1")
			if r := n.Sync(with(dns("remote1"), bed.NodePort(30053))); r.StaleFlows != 2 {
				t.Errorf("%s: %d flows removed, want 2", n.variant, r.StaleFlows)
			}
			expect("after its end", "remote1")
			n.Sync(with(dns(), bed.NodePort(30053)))
			expect("with none", bed.KindRefused)
			n.Sync(with(dns("local2"), bed.NodePort(30053)))
			expect("with one again", "local2")
		}
	})
}

// A restart leaves live flows where they are, and TCP untouched; it removes what died meanwhile.
// https://issues.k8s.io/122740
func TestRestart(t *testing.T) {
	in(t, legacyCompact, func(n *node) {
		all := []string{"local1", "local2", "remote1", "remote2"}
		n.Sync(web(all...), dns(all...))
		flows, at := map[int]*bed.UDP{}, map[int]string{}
		for i := range 16 {
			flows[i] = n.Flow(bed.Client, uint16(6000+i), vip(2, i%2 == 1))
			at[i] = flows[i].Who()
		}
		tcp, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, false))
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		n.Running.Kill()
		n.Only("while it is down", n.TCP(bed.Client, vip(1, false), bed.OfFour), all...)
		n.Start()
		if r := n.Sync(web(all...), dns(all...)); r.StaleFlows != 0 {
			t.Errorf("%s: a restart removed %d flows", n.variant, r.StaleFlows)
		}
		for i, u := range flows {
			if got := u.Who(); got != at[i] {
				t.Errorf("%s: flow %d moved from %s to %s", n.variant, i, at[i], got)
			}
		}
		if err := tcp.Echo("still there"); err != nil {
			t.Errorf("%s: %v", n.variant, err)
		}
		n.Running.Kill()
		n.Start()
		n.Sync(web("local1"), dns("local1"))
		for i, u := range flows {
			if got := u.Who(); got != "local1" {
				t.Errorf("%s: flow %d is at %s after its endpoint ended during a restart", n.variant, i, got)
			}
		}
		if err := tcp.Echo("and still"); err != nil {
			t.Errorf("%s: an open connection ended with its endpoint's rules: %v", n.variant, err)
		}
	})
}

// Flows of others to the same port number are left alone.
func TestForeignFlowsStay(t *testing.T) {
	in(t, nft, func(n *node) {
		if err := n.ServeAt(bed.Node2, 0, 30053); err != nil {
			t.Fatal(err)
		}
		n.Sync(with(dns("local1"), bed.NodePort(30053)))
		u := n.Flow(bed.Client, 5002, netip.AddrPortFrom(bed.NodeAddr(2, false), 30053))
		if got := u.Who(); got != bed.Node2 {
			t.Fatalf("%s", got)
		}
		if r := n.Sync(with(dns("remote1"), bed.NodePort(30053))); r.StaleFlows != 0 {
			t.Errorf("%s: %d flows removed", n.variant, r.StaleFlows)
		}
		if out := n.MustExec(bed.Node, "conntrack", "-L", "-p", "udp"); !strings.Contains(out, "dport=30053") {
			t.Errorf("%s: the entry is gone:\n%s", n.variant, out)
		}
	})
}
