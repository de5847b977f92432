package rows

import (
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	c "proxylab/proxiers/conformance"
)

var addresses = []row{
	{Area: addressing, Name: "cluster IP from a pod", Quick: true, Run: func(t *trial) {
		web := t.Web()
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(all...) })
	}},
	{Area: addressing, Name: "cluster IP from a node", Quick: true, Run: func(t *trial) {
		web := t.Web()
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(node1, web.VIP(f, p)).Answers(all...)
			t.Ask(node2, web.VIP(f, p)).Answers(all...)
		})
	}},
	{Area: addressing, Name: "cluster IP from outside, by way of a node", Run: func(t *trial) {
		web := t.Web()
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.RouteVia(web.ClusterIP(f), 1)
			t.Ask(outside, web.VIP(f, p)).Answers(all...)
		})
	}},
	{Area: addressing, Name: "node port from outside", Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(outside, web.NodePort(f, 1, p)).Answers(all...)
			t.Ask(outside, web.NodePort(f, 2, p)).Answers(all...)
		})
	}},
	{Area: addressing, Name: "node port from the node itself and from another", Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(node1, web.NodePort(f, 1, p)).Answers(all...)
			t.Ask(node2, web.NodePort(f, 1, p)).Answers(all...)
		})
	}},
	{Area: addressing, Name: "node port from pods of this node and of another", Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.NodePort(f, 1, p)).Answers(all...)
			t.Ask(far, web.NodePort(f, 1, p)).Answers(all...)
		})
	}},
	{Area: addressing, Name: "node port on 127.0.0.1", Faults: []string{"k142183", "k0s 5760"},
		NotApplicable: map[string]string{
			"nftables": "left out on purpose: node ports are not served on loopback addresses (KEP-3866)",
			"ipvs":     "IPVS cannot serve loopback addresses; kube-proxy documents that it leaves them out",
		},
		Run: func(t *trial) {
			web := t.Web(c.WithNodePort)
			web.Has(all...)
			t.Settle()
			t.Ask(node1, web.NodePortAt(netip.MustParseAddr("127.0.0.1"), tcp)).Answers(all...)
		}},
	{Area: addressing, Name: "node port on a second address of the node", Faults: []string{"kube-proxy docs"}, Alone: true,
		NotApplicable: map[string]string{
			"nftables": "node ports are served on the node's primary addresses alone, by default (kube-proxy --nodeport-addresses)",
		},
		Run: func(t *trial) {
			t.Families(func(f family) { second(t, f) })
		}},
	{Area: addressing, Name: "external IP from outside, from pods and from a node", Run: func(t *trial) {
		t.Families(func(f family) {
			ip := t.Address(f)
			web := t.Service("ext-"+label(f), both, c.WithExternalIPs(ip))
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
	{Area: addressing, Name: "load balancer IP of ipMode VIP, from outside, from pods and from a node", Quick: true, Run: func(t *trial) {
		web, ips := balancer(t, corev1.LoadBalancerIPModeVIP)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			t.RouteVia(ips[f], 1)
			for _, from := range []string{outside, client, node1, far} {
				t.Ask(from, web.At(ips[f], p, "load balancer IP")).Answers(all...)
			}
		})
	}},
	{Area: addressing, Name: "load balancer IP of ipMode Proxy is left to the balancer", Faults: []string{"k79783", "k115931"}, Run: func(t *trial) {
		web, ips := balancer(t, corev1.LoadBalancerIPModeProxy)
		web.Has(all...)
		t.Settle()
		t.Families(func(f family) {
			hold(t, outside, ips[f], "lo")
			t.Serve(outside, "tcp", netip.AddrPortFrom(ips[f], 80), "balancer")
			for _, from := range []string{client, node1, far} {
				t.Ask(from, web.At(ips[f], tcp, "load balancer IP")).Answers("balancer")
			}
		})
	}},
	{Area: addressing, Name: "addresses come and go with the Service's fields", Run: func(t *trial) {
		web, ips := balancer(t, corev1.LoadBalancerIPModeVIP)
		web.Has(all...)
		t.Settle()
		ip := ips[c.IPv4]
		t.RouteVia(ip, 1)
		t.Ask(outside, web.At(ip, tcp, "load balancer IP")).Answers(all...)
		nodePort := web.NodePort(c.IPv4, 1, tcp)
		web.Ingress(corev1.LoadBalancerIPModeVIP)
		web.Edit(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		t.Settle()
		t.Ask(client, web.At(ip, tcp, "load balancer IP that was")).Unanswered()
		t.Ask(outside, nodePort).Unanswered()
		t.Ask(client, web.VIP(c.IPv4, tcp)).Answers(all...)
	}},
	{Area: addressing, Name: "single stack Services in either family", Run: func(t *trial) {
		t.Families(func(f family) {
			web := t.Service("only-"+label(f), both, c.SingleStack(f), c.WithNodePort)
			web.Has(all...)
			t.Settle()
			for _, p := range both {
				t.Ask(client, web.VIP(f, p)).Answers(all...)
				t.Ask(outside, web.NodePort(f, 1, p)).Answers(all...)
				other := c.IPv4 + c.IPv6 - f
				t.Ask(outside, web.NodePort(other, 1, p)).Unanswered()
			}
		})
	}},
	{Area: addressing, Name: "several named ports lead to different ports of the pods", Quick: true, Run: func(t *trial) {
		ports := []port{
			{Name: "web", Network: "http", Port: 80}, {Name: "echo", Network: "tcp", Port: 81},
			{Name: "bulk", Network: "tcp", Port: 82, Target: 8083}, {Name: "dns", Network: "udp", Port: 53},
		}
		web := t.Service("several", ports, c.WithNodePort)
		web.Has(all...)
		t.Settle()
		t.Families(func(f family) {
			for _, p := range ports {
				t.Ask(client, web.VIP(f, p)).Answers(all...)
				t.Ask(outside, web.NodePort(f, 1, p)).Answers(all...)
			}
		})
	}},
	{Area: addressing, Name: "TCP and UDP of one port number are two things", Run: func(t *trial) {
		web := t.Service("udp-only", []port{udp})
		web.Has(local1)
		t.Settle()
		t.Families(func(f family) {
			t.Ask(client, web.VIP(f, udp)).Answers(local1)
			t.Ask(client, web.VIP(f, port{Name: "tcp", Port: 80})).Unanswered()
		})
	}},
	{Area: addressing, Name: "SCTP", NotApplicable: notApplicable("this mode has no SCTP: it would have to carry it itself", "userspace"), Run: func(t *trial) {
		t.Families(func(f family) {
			for _, pod := range []string{local1, remote1} {
				t.Serve(pod, "sctp", netip.AddrPortFrom(t.PodAddr(pod, f), 8084), pod)
			}
		})
		web := t.Service("sctp", []port{c.SCTP}, c.WithNodePort)
		web.Has(local1, remote1)
		t.Settle()
		t.Families(func(f family) {
			t.Ask(client, web.VIP(f, c.SCTP)).Answers(local1, remote1)
			t.Ask(outside, web.NodePort(f, 1, c.SCTP)).Answers(local1, remote1)
		})
	}},
	{Area: addressing, Name: "headless and ExternalName Services are left alone", Run: func(t *trial) {
		headless := t.Service("leavealone-headless", both, func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		})
		headless.Has(all...)
		t.Service("leavealone-external", nil, func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org"}
		})
		web := t.Web()
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(all...) })
		for _, line := range t.Facts(node1) {
			if strings.Contains(line, t.Namespace()+"/leavealone") {
				t.Errorf("a rule for a Service without an address: %s", line)
			}
		}
	}},
	{Area: addressing, Name: "a node's own ports are not reached by a cluster IP", Faults: []string{"k72236"}, Quick: true, Run: func(t *trial) {
		t.Families(func(f family) {
			everywhere := netip.IPv4Unspecified()
			if f == c.IPv6 {
				everywhere = netip.IPv6Unspecified()
			}
			t.Serve(node1, "tcp", netip.AddrPortFrom(everywhere, 2200+uint16(f)), "the-node")
		})
		web := t.Service("web", []port{tcp})
		web.Has(local1)
		t.Settle()
		t.Families(func(f family) {
			own := 2200 + uint16(f)
			node := c.Target{Network: "tcp", Addr: netip.AddrPortFrom(t.Node(1).Addr(f), own), What: "the node's own port"}
			t.Ask(client, node).Answers("the-node")
			t.Ask(client, web.VIP(f, tcp).On(own)).Unanswered()
			t.Ask(client, web.VIP(f, tcp).On(10256)).Unanswered()
		})
	}},
	{Area: addressing, Name: "a port that a Service has not is not answered", Faults: []string{"k72236"}, Run: func(t *trial) {
		web := t.Service("web", []port{tcp})
		web.Has(local1)
		t.Settle()
		t.Families(func(f family) {
			for _, open := range t.Scan(client, web.ClusterIP(f), 60, 123) {
				if open != 80 {
					t.Errorf("port %d of cluster IP %s accepts connections, but the Service has port 80 alone", open, web.ClusterIP(f))
				}
			}
			t.Ask(client, web.VIP(f, udp).On(81)).Unanswered()
			t.Ask(client, web.VIP(f, tcp)).Answers(local1)
		})
	}},
}

// balancer is a Service with a load balancer that has an address in each family.
func balancer(t *trial, mode corev1.LoadBalancerIPMode, edits ...func(*corev1.Service)) (*c.Service, map[family]netip.Addr) {
	ips := map[family]netip.Addr{c.IPv4: t.Address(c.IPv4), c.IPv6: t.Address(c.IPv6)}
	web := t.Web(append([]func(*corev1.Service){c.WithLoadBalancer}, edits...)...)
	web.Ingress(mode, ips[c.IPv4], ips[c.IPv6])
	return web, ips
}

// hold gives a place an address until the trial is over.
func hold(t *trial, place string, a netip.Addr, device string) {
	prefix := netip.PrefixFrom(a, a.BitLen()).String()
	t.MustRun(place, "ip", "addr", "add", prefix, "dev", device)
	t.Undo(place, "ip", "addr", "del", prefix, "dev", device)
	t.Eventually(10*time.Second, func() string { // IPv6 addresses are usable a moment later
		if strings.Contains(t.MustRun(place, "ip", "-o", "addr", "show", "dev", device, "tentative"), a.String()+"/") {
			return a.String() + " is tentative"
		}
		return ""
	})
}

// second tries a node port at an address that the node did not have when the proxier started.
func second(t *trial, f family) {
	a := t.Address(f)
	hold(t, node1, a, "lo")
	t.RouteVia(a, 1)
	web := t.Service("second-"+label(f), both, c.WithNodePort)
	web.Has(all...)
	t.Settle()
	for _, p := range both {
		t.Ask(outside, web.NodePortAt(a, p)).Answers(all...)
	}
}

// label is a family's name as part of a Service's.
func label(f family) string {
	if f == c.IPv6 {
		return "v6"
	}
	return "v4"
}
