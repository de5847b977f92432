package conformance

import (
	"net/netip"

	"proxylab/proxiers/conformance/bed"
)

var all = []string{"local1", "local2", "remote1", "remote2"}

var reachability = []Row{
	{Area: "reachability", Name: "cluster IP from a pod and from the node, TCP and UDP", Run: func(n *Node) {
		n.Sync(web(all...), dns(all...))
		families(func(v6 bool, label string) {
			n.only("TCP from a pod, "+label, n.tcp(bed.Client, vip(1, v6), many), all...)
			n.only("UDP from a pod, "+label, n.udp(bed.Client, vip(2, v6), many), all...)
			n.only("TCP from the node, "+label, n.tcp(bed.Node, vip(1, v6), many), all...)
			n.only("UDP from the node, "+label, n.udp(bed.Node, vip(2, v6), many), all...)
		})
	}},
	{Area: "reachability", Name: "node port from outside, from a pod and from the node, TCP and UDP", Run: func(n *Node) {
		n.Sync(with(web(all...), bed.NodePort(30080)), with(dns(all...), bed.NodePort(30053)))
		families(func(v6 bool, label string) {
			for _, from := range []string{bed.Outside, bed.Client, bed.Node} {
				n.only("TCP from "+from+", "+label, n.tcp(from, nodePort(v6, 30080), many), all...)
				n.only("UDP from "+from+", "+label, n.udp(from, nodePort(v6, 30053), many), all...)
			}
		})
	}},
	{Area: "reachability", Name: "a pod reaches itself through its Service", Run: func(n *Node) {
		n.Sync(web("local1"), dns("local1"))
		families(func(v6 bool, label string) {
			n.only("TCP, "+label, n.tcp("local1", vip(1, v6), few), "local1")
			n.only("UDP, "+label, n.udp("local1", vip(2, v6), few), "local1")
		})
	}},
	{Area: "reachability", Name: "an endpoint sees the pod that connects",
		Except: map[string]string{"userspace": "connections are made anew by the proxier"},
		Run: func(n *Node) {
			n.Sync(web("local1", "remote1"), dns("local1", "remote1"))
			families(func(v6 bool, label string) {
				for _, protocol := range []string{"TCP", "UDP"} {
					for range few {
						ask, to := n.DialTCP, vip(1, v6)
						if protocol == "UDP" {
							ask, to = func(place string, to netip.AddrPort) (bed.Answer, error) { return n.DialUDP(place, to, 0) }, vip(2, v6)
						}
						a, err := ask(bed.Client, to)
						if err != nil || a.Client.Addr() != n.Pod(bed.Client).Addr(v6) {
							n.T.Errorf("%s %s: %s saw %s, %v", protocol, label, a.Pod, a.Client, err)
						}
					}
				}
			})
		}},
	{Area: "reachability", Name: "a pod of another node and the outside use the cluster IP by way of this node", Run: func(n *Node) {
		n.Sync(web(all...))
		families(func(v6 bool, label string) {
			n.only("from outside, "+label, n.tcp(bed.Outside, vip(1, v6), many), all...)
		})
	}},
}
