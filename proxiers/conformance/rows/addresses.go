package rows

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	c "proxylab/proxiers/conformance"
)

var addresses = []row{
	{Area: "addresses", Name: "cluster IP, TCP and UDP, both families, from a pod", Quick: true, Run: func(t *trial) {
		web := t.Web()
		web.Has(all...)
		t.Settle()
		t.Families(func(f family) {
			for _, p := range both {
				t.Ask(client, web.VIP(f, p)).Answers(all...)
			}
		})
	}},
	{Area: "addresses", Name: "cluster IP from a node", Quick: true, Run: func(t *trial) {
		web := t.Web()
		web.Has(all...)
		t.Settle()
		t.Families(func(f family) {
			for _, p := range both {
				t.Ask(node1, web.VIP(f, p)).Answers(all...)
				t.Ask(node2, web.VIP(f, p)).Answers(all...)
			}
		})
	}},
	{Area: "addresses", Name: "node port from outside, from another node, from the node itself and from a pod", Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(all...)
		t.Settle()
		t.Families(func(f family) {
			for _, p := range both {
				for _, from := range []string{outside, node2, node1, client, far} {
					t.Ask(from, web.NodePort(f, 1, p)).Answers(all...)
				}
			}
		})
	}},
	{Area: "addresses", Name: "external IP from outside, from a pod and from a node", Run: func(t *trial) {
		t.Families(func(f family) {
			ip := t.Address(f)
			web := t.Service("ext-"+name(f), both, c.WithExternalIPs(ip))
			web.Has(all...)
			t.RouteVia(ip, 1)
			t.Settle()
			for _, p := range both {
				for _, from := range []string{outside, client, node1, far} {
					t.Ask(from, web.At(ip, p, "external IP")).Answers(all...)
				}
			}
		})
	}},
	{Area: "addresses", Name: "load balancer IP of ipMode VIP, from outside, from a pod and from a node", Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithLoadBalancer)
		web.Has(all...)
		ips := map[family]netip.Addr{c.IPv4: t.Address(c.IPv4), c.IPv6: t.Address(c.IPv6)}
		web.Ingress(corev1.LoadBalancerIPModeVIP, ips[c.IPv4], ips[c.IPv6])
		t.Settle()
		t.Families(func(f family) {
			t.RouteVia(ips[f], 1)
			for _, p := range both {
				for _, from := range []string{outside, client, node1, far} {
					t.Ask(from, web.At(ips[f], p, "load balancer IP")).Answers(all...)
				}
			}
		})
	}},
}

// name is a family's, as part of a Service's name.
func name(f family) string {
	if f == c.IPv6 {
		return "v6"
	}
	return "v4"
}
