package rows

import (
	"encoding/json"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	c "proxylab/proxiers/conformance"
)

var policies = []row{
	{Area: policy, Name: "internalTrafficPolicy Local keeps traffic on its node", Quick: true, Run: func(t *trial) {
		web := t.Web(c.InternalLocal)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.VIP(f, p)).Answers(local1, local2)
			t.Ask(node1, web.VIP(f, p)).Answers(local1, local2)
			t.Ask(far, web.VIP(f, p)).Answers(remote1, remote2)
		})
	}},
	{Area: policy, Name: "internalTrafficPolicy Local without a local endpoint: no answer", Run: func(t *trial) {
		web := t.Web(c.InternalLocal)
		web.Has(remote1, remote2)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.VIP(f, p)).Unanswered()
			t.Ask(far, web.VIP(f, p)).Answers(remote1, remote2)
		})
	}},
	{Area: policy, Name: "internalTrafficPolicy Local leaves node ports alone", Run: func(t *trial) {
		web := t.Web(c.InternalLocal, c.WithNodePort)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(outside, web.NodePort(f, 1, p)).Answers(all...) })
	}},
	{Area: policy, Name: "externalTrafficPolicy Local: node ports lead to the node's own endpoints", Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithNodePort, c.ExternalLocal)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(outside, web.NodePort(f, 1, p)).Answers(local1, local2)
			t.Ask(outside, web.NodePort(f, 2, p)).Answers(remote1, remote2)
			t.Ask(client, web.VIP(f, p)).Answers(all...)
		})
	}},
	{Area: policy, Name: "externalTrafficPolicy Local without a local endpoint: no answer from outside", Faults: []string{"KEP-1669"}, Run: func(t *trial) {
		web := t.Web(c.WithNodePort, c.ExternalLocal)
		web.Has(remote1, remote2)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(outside, web.NodePort(f, 1, p)).Unanswered()
			t.Ask(outside, web.NodePort(f, 2, p)).Answers(remote1, remote2)
		})
	}},
	{Area: policy, Name: "externalTrafficPolicy Local: the cluster's own traffic goes to all endpoints", Faults: []string{"k93456"}, Known: fromItself, Run: func(t *trial) {
		web, ips := balancer(t, corev1.LoadBalancerIPModeVIP, c.ExternalLocal)
		web.Has(remote1, remote2)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.At(ips[f], p, "load balancer IP")).Answers(remote1, remote2)
			t.Ask(node1, web.At(ips[f], p, "load balancer IP")).Answers(remote1, remote2)
			t.Ask(client, web.NodePort(f, 1, p)).Answers(remote1, remote2)
			t.Ask(node1, web.NodePort(f, 1, p)).Answers(remote1, remote2)
		})
	}},
	{Area: policy, Name: "externalTrafficPolicy changes under way", Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(outside, web.NodePort(f, 1, p)).Answers(all...) })
		web.Edit(c.ExternalLocal)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(outside, web.NodePort(f, 1, p)).Answers(local1, local2) })
		web.Edit(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
		t.Settle()
		each(t, func(f family, p port) { t.Ask(outside, web.NodePort(f, 1, p)).Answers(all...) })
	}},
	{Area: policy, Name: "a rollout under externalTrafficPolicy Local: draining endpoints serve meanwhile", Faults: []string{"KEP-1669", "k99299"}, Run: func(t *trial) {
		web := t.Web(c.WithNodePort, c.ExternalLocal)
		web.Endpoints(append(c.Draining(local1), c.Ready(remote1)...)...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(outside, web.NodePort(f, 1, p)).Answers(local1)
			t.Ask(client, web.VIP(f, p)).Answers(remote1)
		})
		web.Endpoints(append(c.Draining(local1), c.Ready(local2, remote1)...)...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(outside, web.NodePort(f, 1, p)).Answers(local2) })
	}},
	{Area: policy, Name: "healthCheckNodePort tells the truth", Faults: []string{"k115825", "k97225"}, Run: healthChecks},
	{Area: policy, Name: "loadBalancerSourceRanges let in whom they name", Faults: []string{"k119656"}, Quick: true, Run: func(t *trial) {
		web, ips := ranged(t, func(f family) []netip.Addr { return []netip.Addr{t.Own(outside, f), t.Own(client, f)} })
		each(t, func(f family, p port) {
			t.RouteVia(ips[f], 1)
			t.Ask(outside, web.At(ips[f], p, "load balancer IP")).Answers(all...)
			t.Ask(client, web.At(ips[f], p, "load balancer IP")).Answers(all...)
		})
	}},
	{Area: policy, Name: "loadBalancerSourceRanges drop everybody else", Faults: []string{"k119656", "cilium 17440"}, Quick: true, Run: func(t *trial) {
		web, ips := ranged(t, func(f family) []netip.Addr { return []netip.Addr{t.Address(f)} })
		each(t, func(f family, p port) {
			t.RouteVia(ips[f], 1)
			t.Ask(outside, web.At(ips[f], p, "load balancer IP")).Dropped()
			t.Ask(client, web.At(ips[f], p, "load balancer IP")).Dropped()
		})
	}},
	{Area: policy, Name: "loadBalancerSourceRanges concern the balancer's addresses alone", Run: func(t *trial) {
		web, _ := ranged(t, func(f family) []netip.Addr { return []netip.Addr{t.Address(f)} })
		each(t, func(f family, p port) {
			t.Ask(outside, web.NodePort(f, 1, p)).Answers(all...)
			t.Ask(client, web.VIP(f, p)).Answers(all...)
		})
	}},
	{Area: policy, Name: "loadBalancerSourceRanges change under way", Run: func(t *trial) {
		web, ips := ranged(t, func(f family) []netip.Addr { return []netip.Addr{t.Address(f)} })
		lb := func(f family, p port) c.Target { return web.At(ips[f], p, "load balancer IP") }
		each(t, func(f family, p port) { t.RouteVia(ips[f], 1) })
		web.Edit(c.WithSourceRanges(prefixes(t.Own(outside, c.IPv4), t.Own(outside, c.IPv6))...))
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(outside, lb(f, p)).Answers(all...)
			t.Ask(client2, lb(f, p)).Dropped()
		})
		web.Edit(c.WithSourceRanges())
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client2, lb(f, p)).Answers(all...) })
	}},
}

// ranged is a Service with a load balancer that lets in only some, of each family.
func ranged(t *trial, who func(family) []netip.Addr) (*c.Service, map[family]netip.Addr) {
	var in []netip.Addr
	t.Families(func(f family) { in = append(in, who(f)...) })
	web, ips := balancer(t, corev1.LoadBalancerIPModeVIP, c.WithSourceRanges(prefixes(in...)...))
	web.Has(all...)
	t.Settle()
	return web, ips
}

func prefixes(addrs ...netip.Addr) (texts []string) {
	for _, a := range addrs {
		texts = append(texts, netip.PrefixFrom(a, a.BitLen()).String())
	}
	return texts
}

// healthChecks compares what the balancer is told with what there is: 200 with the number of endpoints where there is a
// ready one, 503 where there is none.
func healthChecks(t *trial) {
	web, _ := balancer(t, corev1.LoadBalancerIPModeVIP, c.ExternalLocal)
	for _, step := range []struct {
		endpoints []c.Endpoint
		local     [2]int // ready endpoints on node 1 and 2
	}{
		{c.Ready(all...), [2]int{2, 2}},
		{c.Ready(local1), [2]int{1, 0}},
		{c.Ready(remote1, remote2), [2]int{0, 2}},
		{append(c.Draining(local1), c.Ready(remote1)...), [2]int{0, 1}},
		{nil, [2]int{0, 0}},
		{c.Ready(local1), [2]int{1, 0}},
	} {
		web.Endpoints(step.endpoints...)
		t.Settle()
		for node := 1; node <= 2; node++ {
			t.Families(func(f family) {
				want, n := "status 200", step.local[node-1]
				if n == 0 {
					want = "status 503"
				}
				got := t.Ask(outside, web.HealthCheckNodePort(f, node)).Times(1).Answers(want)
				var body struct{ LocalEndpoints *int }
				if got.Pods[want] == 0 {
					return
				}
				if err := json.Unmarshal([]byte(got.Said), &body); err != nil || body.LocalEndpoints == nil || *body.LocalEndpoints != n {
					t.Errorf("node %d has %d local endpoints, its health check says %q", node, n, got.Said)
				}
			})
		}
	}
}

// fromItself is what kube-proxy's IPVS does to a node's own requests: their source is the address itself, which kube-ipvs0
// carries, and no endpoint on another node can answer that.
var fromItself = map[string]c.Difference{"kube-proxy/ipvs": {
	How: "a node's own requests to the load balancer's address get no answer from endpoints on other nodes", Report: "k93456",
}}
