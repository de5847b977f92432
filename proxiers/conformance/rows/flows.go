package rows

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	c "proxylab/proxiers/conformance"
	"proxylab/proxiers/conformance/dialer"
)

var flows = []row{
	{Area: state, Name: "UDP flows leave an endpoint when it is removed", Faults: []string{"k19029", "k125467"}, Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(local1)
		t.Settle()
		t.Families(func(f family) {
			web.Has(local1)
			t.Settle()
			open := []*c.Flow{
				t.Open(client, web.VIP(f, udp), 21001), t.Open(node1, web.VIP(f, udp), 21002), t.Open(outside, web.NodePort(f, 1, udp), 21003),
			}
			for _, step := range []struct {
				pods []string
				want string
			}{
				{[]string{local1}, local1}, {[]string{local1, remote1}, local1}, {[]string{remote1}, remote1},
				{[]string{local2}, local2}, {[]string{local1}, local1},
			} {
				web.Has(step.pods...)
				t.Settle()
				for _, flow := range open {
					flow.Answers(step.want, fmt.Sprintf("with endpoints %v", step.pods))
				}
			}
			for _, flow := range open {
				flow.Close()
			}
		})
	}},
	{Area: state, Name: "UDP flows of a Service scaled to zero are refused, and nothing is left of them", Faults: []string{"k139628"}, Quick: true, Run: func(t *trial) {
		web := t.Web()
		t.Families(func(f family) {
			web.Has(local1)
			t.Settle()
			flow := t.Open(client, web.VIP(f, udp), 0)
			flow.Answers(local1, "at first")
			web.Has()
			t.Settle()
			flow.Answers(dialer.Refused, "without endpoints")
			noEntries(t, web.ClusterIP(f), t.PodAddr(local1, f))
			web.Has(remote1)
			t.Settle()
			flow.Answers(remote1, "scaled up again")
		})
	}},
	{Area: state, Name: "a datagram sent before the Service exists does not break the flow", Faults: []string{"k48370", "k48719"}, Run: func(t *trial) {
		early := t.Service("early", both)
		ips := map[family]netip.Addr{c.IPv4: early.ClusterIP(c.IPv4), c.IPv6: early.ClusterIP(c.IPv6)}
		early.Remove()
		t.Settle()
		open := map[family]*c.Flow{}
		t.Families(func(f family) {
			to := early.At(ips[f], udp, "cluster IP to be")
			open[f] = t.Open(client, to, 0)
			open[f].Say(100 * time.Millisecond)
		})
		web := t.Service("late", both, c.WithClusterIPs(ips[c.IPv4], ips[c.IPv6]))
		web.Has(local1)
		t.Settle()
		t.Families(func(f family) { open[f].Answers(local1, "now that the Service exists") })
	}},
	{Area: state, Name: "TCP connections to an endpoint that is removed go on", Faults: []string{"k100698", "k57841", "k99162"}, Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		t.Families(func(f family) {
			web.Has(local1, remote1)
			t.Settle()
			open := []*c.Flow{
				t.Open(client, web.VIP(f, tcp), 0), t.Open(client, web.VIP(f, tcp), 0), t.Open(node1, web.VIP(f, tcp), 0),
				t.Open(outside, web.NodePort(f, 1, tcp), 0),
			}
			for _, step := range [][]string{{local1, remote1, remote2}, {remote2}, {}} {
				web.Has(step...)
				t.Settle()
				for _, flow := range open {
					flow.Answers(flow.Pod, fmt.Sprintf("with endpoints %v", step))
				}
			}
		})
	}},
	{Area: state, Name: "a source port used again does not lead to an endpoint that was removed", Faults: []string{"k81775"}, Run: func(t *trial) {
		web := t.Web()
		t.Families(func(f family) {
			web.Has(local1, remote1)
			t.Settle()
			const again = 21100
			flow := t.Open(client, web.VIP(f, tcp), again)
			other := map[string]string{local1: remote1, remote1: local1}[flow.Pod]
			web.Has(other)
			t.Settle()
			flow.Answers(flow.Pod, "after its endpoint was removed")
			flow.Abort()
			got := t.Ask(client, web.VIP(f, tcp)).FromPorts(again, again).Abort().Times(5).Parallel(1).Tally()
			if got.Pods[other] != 5 {
				t.Errorf("%s from port %d, which a connection to %s had: want %s 5 times; met %v %v", web.VIP(f, tcp), again, flow.Pod, other, got.Pods, got.Failures)
			}
		})
	}},
	{Area: state, Name: "connections from few source ports are made without delay", Faults: []string{"k70747", "k90854"}, Alone: true,
		NotApplicable: notApplicable("of connections that take a source port again IPVS drops the first SYN of one in some hundred, where connection tracking "+
			"still holds the former connection; the next, a second later, is served", "ipvs"), Run: func(t *trial) {
			web := t.Service("web", []port{http})
			web.Has(all...)
			t.Settle()
			t.Families(func(f family) {
				prompt(t, t.Ask(client, web.VIP(f, http)).FromPorts(22000, 22009).Times(300).Parallel(5))
			})
		}},
	{Area: state, Name: "a packet that conntrack calls invalid does not reset a good connection", Faults: []string{"k74839", "k117924", "k94861"},
		NotApplicable: notApplicable("connections end at the proxier: no packet of an endpoint gets through", "userspace"),
		Known: map[string]c.Difference{"kube-proxy/nftables": {
			How:    "it has no rule against them, as documented, and relies on conntrack.tcpBeLiberal, which is off by default",
			Report: "k117924, k122663",
		}},
		Run: func(t *trial) {
			web := t.Web()
			for _, pod := range []string{local1, remote1} {
				web.Has(pod)
				t.Settle()
				flow := t.Open(client, web.VIP(c.IPv4, tcp), 0)
				flow.Answers(pod, "at first")
				for range 3 {
					t.Disturb(pod, 8081, t.PodAddr(client, c.IPv4), func() {
						if got := flow.Say(0); got.Failed() > 0 {
							t.Fatalf("%s to %s: after a packet outside the window of its connection: met %v", client, web.VIP(c.IPv4, tcp), got.Failures)
						}
					})
				}
				for range c.Few {
					flow.Answers(pod, "after a packet outside the window")
				}
			}
		}},
	{Area: state, Name: "many masqueraded connections at once are made without delay", Faults: []string{"k76699", "k139276"}, Alone: true, Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(remote1)
		t.Settle()
		t.Families(func(f family) {
			// Both use the same source ports: behind the node's address they cannot both keep them.
			from := func(place string) *c.Asking {
				return t.Ask(place, web.NodePort(f, 1, tcp)).FromPorts(23000, 24999).Times(2000).Parallel(50).Abort()
			}
			prompt(t, from(client), from(client2))
		})
	}},
}

// prompt asks all at the same time and expects that no connection has to send its SYN a second time, which is after one
// second.
func prompt(t *trial, asks ...*c.Asking) {
	for _, ask := range asks {
		ask.Within(10 * time.Second)
	}
	for i, got := range t.Together(asks...) {
		// A source port that is still taken is this side's own limit.
		if failed := got.Failed() - got.Failures[dialer.NoPort]; got.Resent > 0 || failed > 0 {
			t.Errorf("%s: of %d connections %d failed (%v) and %d were made by a second SYN, a second or more later", asks[i], got.Total(), failed, got.Failures, got.Resent)
		}
	}
}

// noEntries expects that node 1 tracks no UDP flow from a Service's address to an endpoint. Without the program conntrack
// nothing is expected.
func noEntries(t *trial, vip, endpoint netip.Addr) {
	version := "ipv4"
	if vip.Is6() {
		version = "ipv6"
	}
	out, err := t.Run(node1, "conntrack", "-L", "-f", version, "-p", "udp", "-d", vip.String())
	if err != nil {
		t.Logf("%v", err)
		return
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "src="+endpoint.String()+" ") {
			t.Errorf("the node still tracks a flow to an endpoint that is gone: %s", strings.TrimSpace(line))
		}
	}
}
