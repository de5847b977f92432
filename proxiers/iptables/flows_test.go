package iptables

import (
	"net/netip"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

// ask sends a datagram of a flow; the answer's pod, or what kind of failure.
func ask(u *bed.UDP) string {
	a, err := u.Ask()
	if err != nil {
		return bed.Kind(err)
	}
	return a.Pod
}

func (n *node) flow(from string, port uint16, to netip.AddrPort) *bed.UDP {
	n.t.Helper()
	u, err := n.OpenUDP(bed.From{Place: from, Port: port}, to)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { u.Close() })
	return u
}

// A UDP flow leaves a dead endpoint at the sync that removes it, keeps a live one, and is refused when there is none.
// https://issues.k8s.io/19029, https://issues.k8s.io/139628
func TestUDPFlowsLeaveDeadEndpoints(t *testing.T) {
	eachVariant(t, func(n *node) {
		n.sync(n.with(dns("local1"), bed.NodePort(30053)))
		for _, v6 := range both {
			n.sync(n.with(dns("local1"), bed.NodePort(30053)))
			port := map[bool]uint16{false: 5000, true: 5600}[v6] // one for each family: sockets stay open
			flows := map[string]*bed.UDP{
				"cluster IP": n.flow(bed.Client, port, vip(2, v6)),
				"node port":  n.flow(bed.Outside, port, netip.AddrPortFrom(bed.NodeAddr(1, v6), 30053)),
			}
			expect := func(when, pod string) {
				n.t.Helper()
				for name, u := range flows {
					if got := ask(u); got != pod {
						t.Errorf("%s, IPv6 %v, %s, %s: %s, want %s", n.variant, v6, name, when, got, pod)
					}
				}
			}
			expect("at first", "local1")
			if r := n.sync(n.with(dns("local1", "remote1"), bed.NodePort(30053))); r.StaleFlows != 0 {
				t.Errorf("%s: %d flows removed although none is stale", n.variant, r.StaleFlows)
			}
			expect("with another one", "local1")
			if r := n.sync(n.with(dns("remote1"), bed.NodePort(30053))); r.StaleFlows != 2 {
				t.Errorf("%s: %d flows removed, want 2", n.variant, r.StaleFlows)
			}
			expect("after its end", "remote1")
			n.sync(n.with(dns(), bed.NodePort(30053)))
			expect("with none", bed.KindRefused)
			n.sync(n.with(dns("local2"), bed.NodePort(30053)))
			expect("with one again", "local2")
		}
	})
}

// Packets that were sent before the Service existed leave entries that must not keep the flow broken.
// https://issues.k8s.io/48370
func TestUDPSenderBeforeTheService(t *testing.T) {
	eachVariant(t, func(n *node) {
		n.sync(web("local1"))
		for _, v6 := range both {
			u := n.flow(bed.Client, map[bool]uint16{false: 5001, true: 5601}[v6], vip(2, v6))
			if got := ask(u); got == "local1" {
				t.Errorf("%s: an answer before there is a Service", n.variant)
			}
			n.sync(web("local1"), dns("local1"))
			if got := ask(u); got != "local1" {
				t.Errorf("%s, IPv6 %v: %s after the Service was made", n.variant, v6, got)
			}
			n.sync(web("local1"))
		}
	})
}

// A restart leaves live flows where they are, and TCP untouched; it removes what died meanwhile.
// https://issues.k8s.io/122740
func TestRestart(t *testing.T) {
	eachVariant(t, func(n *node) {
		all := []string{"local1", "local2", "remote1", "remote2"}
		n.sync(web(all...), dns(all...))
		flows, at := map[int]*bed.UDP{}, map[int]string{}
		for i := range 16 {
			flows[i] = n.flow(bed.Client, uint16(6000+i), vip(2, i%2 == 1))
			at[i] = ask(flows[i])
		}
		tcp, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, false))
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		n.proxier.Kill()
		n.only("while it is down", n.tcp(bed.Client, vip(1, false), many), all...)
		n.start()
		if r := n.sync(web(all...), dns(all...)); r.StaleFlows != 0 {
			t.Errorf("%s: a restart removed %d flows", n.variant, r.StaleFlows)
		}
		for i, u := range flows {
			if got := ask(u); got != at[i] {
				t.Errorf("%s: flow %d moved from %s to %s", n.variant, i, at[i], got)
			}
		}
		if err := tcp.Echo("still there"); err != nil {
			t.Errorf("%s: %v", n.variant, err)
		}
		n.proxier.Kill()
		n.start()
		n.sync(web("local1"), dns("local1"))
		for i, u := range flows {
			if got := ask(u); got != "local1" {
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
	eachVariant(t, func(n *node) {
		if err := n.ServeAt(bed.Node2, 0, 30053); err != nil {
			t.Fatal(err)
		}
		n.sync(n.with(dns("local1"), bed.NodePort(30053)))
		u := n.flow(bed.Client, 5002, netip.AddrPortFrom(bed.NodeAddr(2, false), 30053))
		if got := ask(u); got != bed.Node2 {
			t.Fatalf("%s", got)
		}
		if r := n.sync(n.with(dns("remote1"), bed.NodePort(30053))); r.StaleFlows != 0 {
			t.Errorf("%s: %d flows removed", n.variant, r.StaleFlows)
		}
		if out := n.MustExec(bed.Node, "conntrack", "-L", "-p", "udp"); !strings.Contains(out, "dport=30053") {
			t.Errorf("%s: the entry is gone:\n%s", n.variant, out)
		}
	})
}
