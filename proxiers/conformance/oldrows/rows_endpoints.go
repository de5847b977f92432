package conformance

import (
	"net/netip"
	"time"

	"proxylab/proxiers/conformance/bed"
)

var endpoints = []Row{
	{Area: "endpoints", Name: "none: refused at once", Run: func(n *Node) {
		n.Sync(with(web(), bed.NodePort(30080)), with(dns(), bed.NodePort(30053)))
		families(func(v6 bool, label string) {
			for _, from := range []string{bed.Client, bed.Node} {
				n.only("TCP from "+from+", "+label, n.tcp(from, vip(1, v6), few), bed.KindRefused)
				n.only("UDP from "+from+", "+label, n.udp(from, vip(2, v6), few), bed.KindRefused)
			}
			n.only("node port from outside, TCP, "+label, n.tcp(bed.Outside, nodePort(v6, 30080), few), bed.KindRefused)
			n.only("node port from outside, UDP, "+label, n.udp(bed.Outside, nodePort(v6, 30053), few), bed.KindRefused)
		})
	}},
	{Area: "endpoints", Name: "come and go", Run: func(n *Node) {
		n.Sync(web())
		for _, step := range [][]string{{"local1"}, {"local1", "remote1"}, {"remote2"}, all, {"local2", "remote2"}} {
			n.Sync(web(step...))
			families(func(v6 bool, label string) {
				n.only(label, n.tcp(bed.Client, vip(1, v6), many), step...)
			})
		}
		n.Sync(web())
		families(func(v6 bool, label string) {
			n.only("none left, "+label, n.tcp(bed.Client, vip(1, v6), few), bed.KindRefused)
		})
	}},
	{Area: "endpoints", Name: "those that drain serve where no other does", Run: func(n *Node) {
		s := web()
		s.Draining = []string{"local1", "remote1"}
		n.Sync(s)
		families(func(v6 bool, label string) {
			n.only(label, n.tcp(bed.Client, vip(1, v6), many), "local1", "remote1")
		})
	}},
	{Area: "endpoints", Name: "a Service that is gone, and one that comes", Run: func(n *Node) {
		n.Sync(with(web("local1"), bed.NodePort(30080)), dns("local1"))
		n.Sync(dns("local1"))
		families(func(v6 bool, label string) {
			if got := n.tcp(bed.Outside, nodePort(v6, 30080), 1); got["local1"] > 0 {
				n.T.Errorf("the node port of a Service that is gone answers, %s", label)
			}
			n.only("the other, "+label, n.udp(bed.Client, vip(2, v6), few), "local1")
		})
		n.Sync(with(web("remote1"), bed.NodePort(30081)), dns("local1"))
		families(func(v6 bool, label string) {
			n.only("it is back, "+label, n.tcp(bed.Outside, nodePort(v6, 30081), few), "remote1")
			n.only("the other, "+label, n.udp(bed.Client, vip(2, v6), few), "local1")
		})
	}},
	{Area: "state", Name: "UDP flows leave an endpoint at the sync that removes it", Run: func(n *Node) {
		n.Sync(with(dns("local1"), bed.NodePort(30053)))
		families(func(v6 bool, label string) {
			flows := map[string]*bed.UDP{}
			for what, to := range map[string]netip.AddrPort{bed.Client: vip(2, v6), bed.Outside: nodePort(v6, 30053)} {
				u, err := n.OpenUDP(bed.From{Place: what}, to)
				if err != nil {
					n.T.Fatal(err)
				}
				defer u.Close()
				flows[what] = u
			}
			for _, step := range []struct {
				pods []string
				want string
			}{
				{[]string{"local1"}, "local1"}, {[]string{"local1", "remote1"}, "local1"}, {[]string{"remote1"}, "remote1"},
				{nil, bed.KindRefused}, {[]string{"local2"}, "local2"}, {[]string{"local1"}, "local1"},
			} {
				n.Sync(with(dns(step.pods...), bed.NodePort(30053)))
				for what, u := range flows {
					got := answers{}
					a, err := u.Ask()
					got.add(a, err)
					n.only("flow from "+what+", "+label, got, step.want)
				}
			}
		})
	}},
	{Area: "state", Name: "established TCP is left alone", Run: func(n *Node) {
		families(func(v6 bool, label string) {
			n.Sync(web("local1", "remote1"))
			c, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, v6))
			if err != nil {
				n.T.Fatal(err)
			}
			defer c.Close()
			for _, step := range [][]string{{"local1", "remote1", "remote2"}, {"remote2"}, {}} {
				n.Sync(web(step...))
				if err := c.Echo("still there?"); err != nil {
					n.T.Errorf("%s, to %s, with endpoints %v: %v", label, c.Pod, step, err)
				}
			}
		})
	}},
	{Area: "state", Name: "a restart keeps rules, connections and flows",
		Except: map[string]string{"userspace": "connections live in the proxier's process"},
		Run: func(n *Node) {
			list := []bed.Service{web(all...), dns(all...)}
			n.Sync(list...)
			c, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, false))
			if err != nil {
				n.T.Fatal(err)
			}
			defer c.Close()
			u, err := n.OpenUDP(bed.From{Place: bed.Client}, vip(2, true))
			if err != nil {
				n.T.Fatal(err)
			}
			defer u.Close()
			before, err := u.Ask()
			if err != nil {
				n.T.Fatal(err)
			}
			n.Restart()
			n.only("while there is none", n.tcp(bed.Client, vip(1, true), many), all...)
			n.Sync(list...)
			n.only("afterwards", n.tcp(bed.Client, vip(1, true), many), all...)
			if after, err := u.Ask(); err != nil || after.Pod != before.Pod {
				n.T.Errorf("the flow went from %s to %s, %v", before.Pod, after.Pod, err)
			}
			if err := c.Echo("still there?"); err != nil {
				n.T.Errorf("the connection: %v", err)
			}
		}},
}

// timeout of affinity in rows that wait for it to pass.
const timeout = time.Second

var affinity = []Row{
	{Area: "affinity", Name: "a client stays with its endpoint, off again", Run: func(n *Node) {
		n.Sync(with(web(all...), bed.Affinity(time.Hour)), with(dns(all...), bed.Affinity(time.Hour)))
		families(func(v6 bool, label string) {
			for _, from := range []string{bed.Client, bed.Client2, bed.Node} {
				if got := n.tcp(from, vip(1, v6), 20); len(got) != 1 {
					n.T.Errorf("TCP from %s, %s: %s", from, label, got)
				}
				if got := n.udp(from, vip(2, v6), 20); len(got) != 1 {
					n.T.Errorf("UDP from %s, %s: %s", from, label, got)
				}
			}
		})
		n.Sync(web(all...), dns(all...))
		families(func(v6 bool, label string) {
			n.only("off, TCP, "+label, n.tcp(bed.Client, vip(1, v6), many), all...)
			n.only("off, UDP, "+label, n.udp(bed.Client, vip(2, v6), many), all...)
		})
	}},
	{Area: "affinity", Name: "a client whose endpoint is gone moves, and stays there", Run: func(n *Node) {
		n.Sync(with(web(all...), bed.Affinity(time.Hour)))
		families(func(v6 bool, label string) {
			n.Sync(with(web(all...), bed.Affinity(time.Hour)))
			a, err := n.DialTCP(bed.Client, vip(1, v6))
			if err != nil {
				n.T.Fatal(err)
			}
			var others []string
			for _, p := range all {
				if p != a.Pod {
					others = append(others, p)
				}
			}
			n.Sync(with(web(others...), bed.Affinity(time.Hour)))
			got := n.tcp(bed.Client, vip(1, v6), 20)
			if len(got) != 1 || got[a.Pod] > 0 {
				n.T.Errorf("%s: was at %s, then %s", label, a.Pod, got)
			}
		})
	}},
	{Area: "affinity", Name: "it ends after its timeout", Run: func(n *Node) {
		n.Sync(with(web(all...), bed.Affinity(timeout)))
		families(func(v6 bool, label string) {
			got := answers{}
			for range many { // one in four stays by chance each time
				a, err := n.DialTCP(bed.Client, vip(1, v6))
				got.add(a, err)
				if len(got) > 1 {
					break
				}
				time.Sleep(timeout + timeout/4) // the client is silent for longer than that
			}
			if len(got) < 2 || len(got) == 2 && got[bed.KindTimeout]+got[bed.KindRefused] > 0 {
				n.T.Errorf("%s: %s", label, got)
			}
		})
	}},
}
