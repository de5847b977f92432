package rows

import (
	"slices"

	c "proxylab/proxiers/conformance"
)

var endpoints = []row{
	{Area: ending, Name: "none: cluster IP refuses at once", Faults: []string{"k17359"}, Quick: true, Alone: true, Known: byICMP, Run: func(t *trial) {
		web := t.Web()
		web.Endpoints()
		t.Settle()
		each(t, func(f family, p port) {
			for _, from := range []string{client, node1} {
				atOnce(t, from, web.VIP(f, p))
			}
		})
	}},
	{Area: ending, Name: "none: node port refuses at once", Faults: []string{"k17359", "k78994"}, Quick: true, Alone: true, Known: byICMP, Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Endpoints()
		t.Settle()
		each(t, func(f family, p port) { atOnce(t, outside, web.NodePort(f, 1, p)) })
	}},
	{Area: ending, Name: "none: no EndpointSlice at all refuses as well", Faults: []string{"k17359"}, Alone: true, Known: byICMP, Run: func(t *trial) {
		web := t.Web()
		t.Settle()
		each(t, func(f family, p port) { atOnce(t, client, web.VIP(f, p)) })
	}},
	{Area: ending, Name: "come and go", Quick: true, Run: func(t *trial) {
		web := t.Web()
		for _, step := range [][]string{{local1}, {local1, remote1}, {remote2}, all, {local2, remote2}} {
			web.Has(step...)
			t.Settle()
			each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(step...) })
		}
		web.Has()
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Refused() })
		web.Has(local1)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(local1) })
	}},
	{Area: ending, Name: "those that are not ready get nothing", Quick: true, Run: func(t *trial) {
		web := t.Web()
		web.Endpoints(append(c.Ready(local1, remote1), c.Endpoint{Pod: local2, Unready: true, Unserving: true},
			c.Endpoint{Pod: remote2, Unready: true, Unserving: true})...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(local1, remote1) })
	}},
	{Area: ending, Name: "those that drain serve where no other does", Faults: []string{"KEP-1669"}, Quick: true, Run: func(t *trial) {
		web := t.Web()
		web.Endpoints(append(c.Draining(local1, remote1), c.Endpoint{Pod: local2, Unready: true, Unserving: true, Leaving: true})...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(local1, remote1) })
	}},
	{Area: ending, Name: "those that drain get nothing new while others are ready", Faults: []string{"KEP-1669"}, Run: func(t *trial) {
		web := t.Web()
		web.Endpoints(append(c.Draining(local1, remote1), c.Ready(local2)...)...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(local2) })
	}},
	{Area: ending, Name: "several slices of a Service add up, and a duplicate counts once", Run: func(t *trial) {
		web := t.Web()
		web.Has(local1, local2)
		web.AnotherSlice("more", c.Ready(local2, remote1)...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(local1, local2, remote1) })
		t.Families(func(f family) { even(t, client, web.VIP(f, tcp), []string{local1, local2, remote1}) })
	}},
	{Area: ending, Name: "two Services share an endpoint", Run: func(t *trial) {
		a, b := t.Service("a", both), t.Service("b", both)
		a.Has(local1, remote1)
		b.Has(remote1)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, a.VIP(f, p)).Answers(local1, remote1)
			t.Ask(client, b.VIP(f, p)).Answers(remote1)
		})
		a.Remove()
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, b.VIP(f, p)).Answers(remote1) })
	}},
	{Area: ending, Name: "a Service that is gone, and one that comes", Quick: true, Run: func(t *trial) {
		web, other := t.Service("web", both, c.WithNodePort), t.Service("other", both)
		web.Has(local1)
		other.Has(remote1)
		t.Settle()
		vip, nodePort := web.VIP(c.IPv4, tcp), web.NodePort(c.IPv4, 1, tcp)
		t.Ask(outside, nodePort).Answers(local1)
		web.Remove()
		t.Settle()
		t.Ask(client, vip).Unanswered()
		t.Ask(outside, nodePort).Unanswered()
		each(t, func(f family, p port) { t.Ask(client, other.VIP(f, p)).Answers(remote1) })
		again := t.Service("web", both, c.WithNodePort)
		again.Has(remote2)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, again.VIP(f, p)).Answers(remote2)
			t.Ask(outside, again.NodePort(f, 1, p)).Answers(remote2)
		})
	}},
	{Area: ending, Name: "ports of a Service come, change and go", Run: func(t *trial) {
		web := t.Web()
		web.Has(local1)
		t.Settle()
		web.Edit(func(s *service) { s.Spec.Ports[0].Port = 8888 })
		t.Settle()
		t.Families(func(f family) {
			t.Ask(client, web.VIP(f, tcp).On(8888)).Answers(local1)
			t.Ask(client, web.VIP(f, tcp)).Unanswered()
			t.Ask(client, web.VIP(f, udp)).Answers(local1)
		})
		web.Edit(func(s *service) { s.Spec.Ports = s.Spec.Ports[1:] })
		t.Settle()
		t.Families(func(f family) {
			t.Ask(client, web.VIP(f, tcp).On(8888)).Unanswered()
			t.Ask(client, web.VIP(f, udp)).Answers(local1)
		})
	}},
	{Area: topology, Name: "hints for zones are followed", Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithTrafficDistribution("PreferSameZone"))
		web.Endpoints(hinted(c.Endpoint{ForZone: 1}, c.Endpoint{ForZone: 2})...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.VIP(f, p)).Answers(local1, local2)
			t.Ask(far, web.VIP(f, p)).Answers(remote1, remote2)
		})
	}},
	{Area: topology, Name: "hints for zones fall back to all endpoints", Run: func(t *trial) {
		web := t.Web(c.WithTrafficDistribution("PreferSameZone"))
		web.Endpoints(append(c.Ready(local1), c.Endpoint{Pod: remote1, ForZone: 2})...) // one has no hint
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(local1, remote1) })
		web.Endpoints(c.Endpoint{Pod: remote1, ForZone: 2}, c.Endpoint{Pod: remote2, ForZone: 2}) // none for this zone
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(remote1, remote2) })
	}},
	{Area: topology, Name: "hints for nodes are followed", Faults: []string{"cilium 44060"}, Run: func(t *trial) {
		web := t.Web(c.WithTrafficDistribution("PreferSameNode"))
		web.Endpoints(hinted(c.Endpoint{ForZone: 1, ForNode: 1}, c.Endpoint{ForZone: 2, ForNode: 2})...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.VIP(f, p)).Answers(local1, local2)
			t.Ask(far, web.VIP(f, p)).Answers(remote1, remote2)
		})
	}},
	{Area: topology, Name: "hints for nodes fall back to the zone, and to all endpoints", Run: func(t *trial) {
		web := t.Web(c.WithTrafficDistribution("PreferSameNode"))
		// Nothing for node 1, but something for its zone.
		web.Endpoints(c.Endpoint{Pod: remote1, ForZone: 1, ForNode: 2}, c.Endpoint{Pod: remote2, ForZone: 2, ForNode: 2})
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(remote1) })
		web.Endpoints(c.Endpoint{Pod: remote1, ForZone: 2, ForNode: 2}, c.Endpoint{Pod: remote2, ForZone: 2, ForNode: 2})
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(remote1, remote2) })
	}},
	{Area: topology, Name: "an endpoint that is lost takes its hints with it", Run: func(t *trial) {
		web := t.Web(c.WithTrafficDistribution("PreferSameZone"))
		web.Endpoints(hinted(c.Endpoint{ForZone: 1}, c.Endpoint{ForZone: 2})...)
		t.Settle()
		eps := hinted(c.Endpoint{ForZone: 1}, c.Endpoint{ForZone: 2})
		for i := range eps[:2] {
			eps[i].Unready, eps[i].Unserving = true, true
		}
		web.Endpoints(eps...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(remote1, remote2) })
	}},
}

// byICMP is about the answer to a SYN. Nobody seems to have reported it.
var byICMP = map[string]c.Difference{"kube-proxy/iptables": laterRefusal, "kube-proxy/nftables": laterRefusal, "kube-proxy/ipvs": laterRefusal}

var laterRefusal = c.Difference{
	How: "it refuses TCP by an ICMP error where a reset would do; over IPv6 one that comes while connect holds the socket is not heard, and the next SYN is a second later",
}

// hinted are the backends of node 1 with one kind of hint and those of node 2 with the other.
func hinted(first, second c.Endpoint) (eps []c.Endpoint) {
	for _, pod := range all {
		e := second
		if slices.Contains([]string{local1, local2}, pod) {
			e = first
		}
		e.Pod = pod
		eps = append(eps, e)
	}
	return eps
}

// atOnce expects refusals of the first SYN or datagram. It takes rows that are alone.
func atOnce(t *trial, from string, to c.Target) {
	got := t.Ask(from, to).Times(c.Few).Refused()
	if got.Failed() == got.Failures["refused"] && got.Resent > 0 {
		t.Errorf("from %s to %s: of %d refusals %d came only after it was sent again, a second or more later", from, to, got.Total(), got.Resent)
	}
}
