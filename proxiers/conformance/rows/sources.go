package rows

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	c "proxylab/proxiers/conformance"
)

// own is why mode userspace masquerades everything.
const own = "the proxier makes the connection to the endpoint anew, which sees the node"

var sources = []row{
	{Area: sourcing, Name: "a pod reaches itself through its Service", Faults: []string{"k53775", "k134884"}, Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(local1)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(local1, web.VIP(f, p)).Masqueraded().Answers(local1)
			t.Ask(local1, web.NodePort(f, 1, p)).Masqueraded().Answers(local1)
		})
	}},
	{Area: sourcing, Name: "pod to cluster IP, endpoint on the same node: kept", NotApplicable: notApplicable(own, "userspace"), Quick: true,
		Run: func(t *trial) { kept(t, client, local1) }},
	{Area: sourcing, Name: "pod to cluster IP, endpoint on another node: kept", NotApplicable: notApplicable(own, "userspace"),
		Run: func(t *trial) { kept(t, client, remote1) }},
	{Area: sourcing, Name: "node to cluster IP: an address of the node's own", Run: func(t *trial) {
		web := t.Web()
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			got := t.Ask(node1, web.VIP(f, p)).Answers(all...)
			own := t.OwnAddresses(node1, f) // towards its own pods it may use another one than towards other nodes
			for seen := range got.Seen {
				if a, err := netip.ParseAddr(seen); err != nil || !slices.Contains(own, a) {
					t.Errorf("%s: endpoints see %s, the node has %s", web.VIP(f, p), seen, own)
				}
			}
		})
	}},
	{Area: sourcing, Name: "outside to cluster IP: masqueraded", Run: func(t *trial) {
		web := t.Web()
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.RouteVia(web.ClusterIP(f), 1)
			t.Ask(outside, web.VIP(f, p)).Masqueraded().Answers(all...)
		})
	}},
	{Area: sourcing, Name: "outside to node port, policy Cluster: masqueraded", Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(outside, web.NodePort(f, 1, p)).Masqueraded().Answers(all...) })
	}},
	{Area: sourcing, Name: "outside to node port, policy Local: kept", NotApplicable: notApplicable(own, "userspace"), Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithNodePort, c.ExternalLocal)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(outside, web.NodePort(f, 1, p)).Kept().Answers(local1, local2) })
	}},
	{Area: sourcing, Name: "outside to load balancer IP, policy Cluster: masqueraded", Run: func(t *trial) {
		web, ips := balancer(t, corev1.LoadBalancerIPModeVIP)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.RouteVia(ips[f], 1)
			t.Ask(outside, web.At(ips[f], p, "load balancer IP")).Masqueraded().Answers(all...)
		})
	}},
	{Area: sourcing, Name: "outside to load balancer IP, policy Local: kept", NotApplicable: notApplicable(own, "userspace"), Run: func(t *trial) {
		web, ips := balancer(t, corev1.LoadBalancerIPModeVIP, c.ExternalLocal)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.RouteVia(ips[f], 1)
			t.Ask(outside, web.At(ips[f], p, "load balancer IP")).Kept().Answers(local1, local2)
		})
	}},
	{Area: sourcing, Name: "outside to external IP, policy Local: kept", NotApplicable: notApplicable(own, "userspace"), Run: func(t *trial) {
		t.Families(func(f family) {
			ip := t.Address(f)
			web := t.Service("ext-"+label(f), both, c.WithLoadBalancer, c.WithExternalIPs(ip), c.ExternalLocal)
			web.Has(all...)
			t.RouteVia(ip, 1)
			t.Settle()
			for _, p := range both {
				t.Ask(outside, web.At(ip, p, "external IP")).Kept().Answers(local1, local2)
			}
		})
	}},
	{Area: sourcing, Name: "pod to the load balancer IP of a Service with policy Local: kept", NotApplicable: map[string]string{
		"userspace": own,
		"ipvs":      "IPVS has one list of servers for an address, whoever asks: with policy Local pods, too, meet those of the node alone",
	}, Run: func(t *trial) {
		web, ips := balancer(t, corev1.LoadBalancerIPModeVIP, c.ExternalLocal)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.At(ips[f], p, "load balancer IP")).Kept().Answers(all...)
		})
	}},
}

func kept(t *trial, from, pod string) {
	web := t.Web()
	web.Has(pod)
	t.Settle()
	each(t, func(f family, p port) { t.Ask(from, web.VIP(f, p)).Kept().Answers(pod) })
}
