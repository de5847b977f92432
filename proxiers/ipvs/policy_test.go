package ipvs

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

func TestNoEndpointsAreRefused(t *testing.T) {
	eachBackend(t, func(n *node) {
		vips := ofFamily(func(p *services.ServicePort, v6 bool) { p.ExternalIPs = []netip.Addr{external(1, v6)} })
		for range 2 { // from the start, and again after there were some
			n.Sync(with(web(), bed.NodePort(30080), vips), with(dns(), bed.NodePort(30053)))
			for _, v6 := range both {
				node := bed.NodeAddr(1, v6)
				for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
					n.Only("TCP from "+from, n.TCP(from, vip(1, v6), 1), bed.KindRefused)
					n.RefusesUDP(from, vip(2, v6))
					n.Only("node port from "+from, n.TCP(from, netip.AddrPortFrom(node, 30080), 1), bed.KindRefused)
					n.RefusesUDP(from, netip.AddrPortFrom(node, 30053))
				}
				n.Only("external IP", n.TCP(bed.Outside, bed.External(1, v6), 1), bed.KindRefused)
			}
			n.Sync(with(web("local1"), bed.NodePort(30080), vips), with(dns("local1"), bed.NodePort(30053)))
			n.Only("with one", n.TCP(bed.Client, vip(1, false), 1), "local1")
		}
	})
}

// Whatever else the node listens on is not reachable at a Service address.
func TestOtherPortsOfTheNodeAreRefused(t *testing.T) {
	eachBackend(t, func(n *node) {
		n.Sync(web("local1"))
		listen := func(network, addr string) {
			t.Helper()
			if err := n.RunInNode(func() error { return listenAndAnswer(t, network, addr) }); err != nil {
				t.Fatal(err)
			}
		}
		listen("tcp", ":2222")
		n.Only("at its own address", n.TCP(bed.Client, netip.AddrPortFrom(bed.NodeAddr(1, false), 2222), 1), "sshd")
		for _, v6 := range both {
			to := netip.AddrPortFrom(bed.VIP(1, v6), 2222)
			for _, from := range []string{bed.Client, bed.Outside, bed.Node} {
				n.Only("from "+from, n.TCP(from, to, 1), bed.KindRefused)
			}
		}
	})
}

func TestAffinity(t *testing.T) {
	eachBackend(t, func(n *node) {
		all := []string{"local1", "local2", "remote1", "remote2"}
		n.Sync(with(web(all...), bed.Affinity(time.Hour)))
		for _, v6 := range both {
			first := n.TCP(bed.Client, vip(1, v6), 6)
			if len(first) != 1 {
				t.Errorf("one client met %v", first)
			}
			n.Sync(with(web(all...), bed.Affinity(time.Hour)), dns("local1"))
			if again := n.TCP(bed.Client, vip(1, v6), 6); fmt.Sprint(first) != fmt.Sprint(again) {
				t.Errorf("after another Service's sync the client met %v, before %v", again, first)
			}
			var rest []string
			for _, pod := range all {
				if first[pod] == 0 {
					rest = append(rest, pod)
				}
			}
			n.Sync(with(web(rest...), bed.Affinity(time.Hour)))
			if moved := n.TCP(bed.Client, vip(1, v6), 6); len(moved) != 1 || moved[bed.KindTimeout] > 0 {
				t.Errorf("without its endpoint the client met %v", moved)
			}
			n.Sync(web(all...))
			n.Only("without affinity", n.TCP(bed.Client, vip(1, v6), several), all...)
			n.Sync(with(web(all...), bed.Affinity(time.Hour)))
		}
	})
}

// The kernel has the timeout. That it ends is not tested: IPVS keeps a client with its server as long as it remembers a
// connection of the client, two minutes after its end.
func TestAffinityTimeout(t *testing.T) {
	n := newNode(t, "legacy")
	n.Sync(with(web("local1"), bed.Affinity(77*time.Second)))
	if got := n.servers(); strings.Count(got, "persistent 77") != 2 {
		t.Errorf("%s", got)
	}
}

func TestExternalPolicyLocal(t *testing.T) {
	eachBackend(t, func(n *node) {
		vips := ofFamily(func(p *services.ServicePort, v6 bool) {
			p.ExternalIPs, p.LoadBalancerVIPs = []netip.Addr{external(1, v6)}, []netip.Addr{external(2, v6)}
		})
		svc := func(pods ...string) bed.Service { return with(web(pods...), bed.NodePort(30080), externalLocal, vips) }
		targets := func(v6 bool) []netip.AddrPort {
			return []netip.AddrPort{bed.External(1, v6), bed.External(2, v6),
				bed.OnNode(v6, 30080)}
		}
		n.Sync(svc("local1", "remote1"))
		for _, v6 := range both {
			for _, to := range targets(v6) {
				n.Only("from outside", n.TCP(bed.Outside, to, 4), "local1")
				a, err := n.DialTCPFrom(bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(1, v6)}, to)
				if err != nil || a.Client.Addr() != bed.OutsideAddr(1, v6) {
					t.Errorf("the source is not kept at %s: %+v, %v", to, a, err)
				}
				for _, from := range []string{bed.Client, bed.Node, "local1"} {
					n.Only(fmt.Sprintf("from %s to %s", from, to), n.TCP(from, to, 2), "local1")
				}
			}
			n.Only("cluster IP", n.TCP(bed.Client, vip(1, v6), several), "local1", "remote1")
		}
		n.Sync(svc("remote1"))
		for _, v6 := range both {
			for _, to := range targets(v6) {
				n.Silent("from outside without a local one", bed.Outside, to)
				for _, from := range []string{bed.Client, bed.Node} {
					n.Only(fmt.Sprintf("without a local one from %s to %s", from, to), n.TCP(from, to, 2), "remote1")
				}
			}
		}
	})
}

func TestInternalPolicyLocal(t *testing.T) {
	eachBackend(t, func(n *node) {
		n.Sync(with(web("local1", "remote1"), internalLocal), with(dns("local1", "remote1"), internalLocal))
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Node} {
				n.Only("from "+from, n.TCP(from, vip(1, v6), 4), "local1")
				n.Only("UDP from "+from, n.UDP(from, vip(2, v6), 4), "local1")
			}
		}
		n.Sync(with(web("remote1"), internalLocal), with(dns("remote1"), internalLocal))
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Node} {
				n.Silent("none here, from "+from, from, vip(1, v6))
				n.Only("none here, UDP from "+from, n.UDP(from, vip(2, v6), 1), bed.KindTimeout)
			}
		}
	})
}

func TestSourceRanges(t *testing.T) {
	eachBackend(t, func(n *node) {
		ranges := func(of func(v6 bool) []netip.Prefix) func(*services.ServicePort) {
			return ofFamily(func(p *services.ServicePort, v6 bool) {
				p.LoadBalancerVIPs, p.SourceRanges = []netip.Addr{external(2, v6)}, of(v6)
			})
		}
		first := func(v6 bool) []netip.Prefix {
			a := bed.OutsideAddr(1, v6)
			return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
		}
		n.Sync(with(web("local1", "remote1"), ranges(first)))
		for _, v6 := range both {
			to := bed.External(2, v6)
			from := func(i int) map[string]int {
				return bed.Count(2, func() (bed.Answer, error) {
					return n.DialTCPFrom(bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(i, v6)}, to)
				})
			}
			n.Only("allowed", from(1), "local1", "remote1")
			n.Only("not allowed", from(2), bed.KindTimeout)
			n.Silent("a pod", bed.Client, to)
			n.Silent("the node", bed.Node, to)
			n.Only("cluster IP", n.TCP(bed.Client, vip(1, v6), 4), "local1", "remote1")
		}
		n.Sync(with(web("local1", "remote1"), ranges(func(v6 bool) []netip.Prefix {
			return []netip.Prefix{netip.PrefixFrom(bed.NodeAddr(1, v6), 24).Masked()}
		})))
		for _, v6 := range both {
			to := bed.External(2, v6)
			n.Only("the node is in the range", n.TCP(bed.Node, to, 4), "local1", "remote1")
		}
	})
}
