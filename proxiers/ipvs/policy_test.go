package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

// refusesUDP: on the node itself a datagram that is rejected may be an error of the sending, EPERM.
func (n *node) refusesUDP(from string, to netip.AddrPort) {
	n.t.Helper()
	_, err := n.DialUDP(from, to, 0)
	if rejected := from == bed.Node && errors.Is(err, syscall.EPERM); bed.Kind(err) != bed.KindRefused && !rejected {
		n.t.Errorf("UDP from %s to %s: %v", from, to, err)
	}
}

func TestNoEndpointsAreRefused(t *testing.T) {
	eachBackend(t, func(n *node) {
		vips := ofFamily(func(p *services.ServicePort, v6 bool) { p.ExternalIPs = []netip.Addr{external("1", v6)} })
		for range 2 { // from the start, and again after there were some
			n.sync(with(web(), bed.NodePort(30080), vips), with(dns(), bed.NodePort(30053)))
			for _, v6 := range both {
				node := bed.NodeAddr(1, v6)
				for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
					n.only("TCP from "+from, n.tcp(from, vip(1, v6), 1), bed.KindRefused)
					n.refusesUDP(from, vip(2, v6))
					n.only("node port from "+from, n.tcp(from, netip.AddrPortFrom(node, 30080), 1), bed.KindRefused)
					n.refusesUDP(from, netip.AddrPortFrom(node, 30053))
				}
				n.only("external IP", n.tcp(bed.Outside, netip.AddrPortFrom(external("1", v6), 80), 1), bed.KindRefused)
			}
			n.sync(with(web("local1"), bed.NodePort(30080), vips), with(dns("local1"), bed.NodePort(30053)))
			n.only("with one", n.tcp(bed.Client, vip(1, false), 1), "local1")
		}
	})
}

// Whatever else the node listens on is not reachable at a Service address.
func TestOtherPortsOfTheNodeAreRefused(t *testing.T) {
	eachBackend(t, func(n *node) {
		n.sync(web("local1"))
		listen := func(network, addr string) {
			t.Helper()
			if err := n.RunInNode(func() error { return listenAndAnswer(t, network, addr) }); err != nil {
				t.Fatal(err)
			}
		}
		listen("tcp", ":2222")
		n.only("at its own address", n.tcp(bed.Client, netip.AddrPortFrom(bed.NodeAddr(1, false), 2222), 1), "sshd")
		for _, v6 := range both {
			to := netip.AddrPortFrom(bed.VIP(1, v6), 2222)
			for _, from := range []string{bed.Client, bed.Outside, bed.Node} {
				n.only("from "+from, n.tcp(from, to, 1), bed.KindRefused)
			}
		}
	})
}

func TestAffinity(t *testing.T) {
	eachBackend(t, func(n *node) {
		all := []string{"local1", "local2", "remote1", "remote2"}
		n.sync(with(web(all...), bed.Affinity(time.Hour)))
		for _, v6 := range both {
			first := n.tcp(bed.Client, vip(1, v6), 6)
			if len(first) != 1 {
				t.Errorf("one client met %v", first)
			}
			n.sync(with(web(all...), bed.Affinity(time.Hour)), dns("local1"))
			if again := n.tcp(bed.Client, vip(1, v6), 6); fmt.Sprint(first) != fmt.Sprint(again) {
				t.Errorf("after another Service's sync the client met %v, before %v", again, first)
			}
			var rest []string
			for _, pod := range all {
				if first[pod] == 0 {
					rest = append(rest, pod)
				}
			}
			n.sync(with(web(rest...), bed.Affinity(time.Hour)))
			if moved := n.tcp(bed.Client, vip(1, v6), 6); len(moved) != 1 || moved[bed.KindTimeout] > 0 {
				t.Errorf("without its endpoint the client met %v", moved)
			}
			n.sync(web(all...))
			n.only("without affinity", n.tcp(bed.Client, vip(1, v6), several), all...)
			n.sync(with(web(all...), bed.Affinity(time.Hour)))
		}
	})
}

// The kernel has the timeout. That it ends is not tested: IPVS keeps a client with its server as long as it remembers a
// connection of the client, two minutes after its end.
func TestAffinityTimeout(t *testing.T) {
	n := newNode(t, "legacy")
	n.sync(with(web("local1"), bed.Affinity(77*time.Second)))
	if got := n.servers(); strings.Count(got, "persistent 77") != 2 {
		t.Errorf("%s", got)
	}
}

func externalLocal(p *services.ServicePort) { p.ExternalLocal = true }
func internalLocal(p *services.ServicePort) { p.InternalLocal = true }

func TestExternalPolicyLocal(t *testing.T) {
	eachBackend(t, func(n *node) {
		vips := ofFamily(func(p *services.ServicePort, v6 bool) {
			p.ExternalIPs, p.LoadBalancerVIPs = []netip.Addr{external("1", v6)}, []netip.Addr{external("2", v6)}
		})
		svc := func(pods ...string) bed.Service { return with(web(pods...), bed.NodePort(30080), externalLocal, vips) }
		targets := func(v6 bool) []netip.AddrPort {
			return []netip.AddrPort{netip.AddrPortFrom(external("1", v6), 80), netip.AddrPortFrom(external("2", v6), 80),
				netip.AddrPortFrom(bed.NodeAddr(1, v6), 30080)}
		}
		n.sync(svc("local1", "remote1"))
		for _, v6 := range both {
			for _, to := range targets(v6) {
				n.only("from outside", n.tcp(bed.Outside, to, 4), "local1")
				a, err := n.DialTCPFrom(bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(1, v6)}, to)
				if err != nil || a.Client.Addr() != bed.OutsideAddr(1, v6) {
					t.Errorf("the source is not kept at %s: %+v, %v", to, a, err)
				}
				for _, from := range []string{bed.Client, bed.Node, "local1"} {
					n.only(fmt.Sprintf("from %s to %s", from, to), n.tcp(from, to, 2), "local1")
				}
			}
			n.only("cluster IP", n.tcp(bed.Client, vip(1, v6), several), "local1", "remote1")
		}
		n.sync(svc("remote1"))
		for _, v6 := range both {
			for _, to := range targets(v6) {
				n.only("from outside without a local one", n.tcp(bed.Outside, to, 1), bed.KindTimeout)
				for _, from := range []string{bed.Client, bed.Node} {
					n.only(fmt.Sprintf("without a local one from %s to %s", from, to), n.tcp(from, to, 2), "remote1")
				}
			}
		}
	})
}

func TestInternalPolicyLocal(t *testing.T) {
	eachBackend(t, func(n *node) {
		n.sync(with(web("local1", "remote1"), internalLocal), with(dns("local1", "remote1"), internalLocal))
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Node} {
				n.only("from "+from, n.tcp(from, vip(1, v6), 4), "local1")
				n.only("UDP from "+from, n.udp(from, vip(2, v6), 4), "local1")
			}
		}
		n.sync(with(web("remote1"), internalLocal), with(dns("remote1"), internalLocal))
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Node} {
				n.only("none here, from "+from, n.tcp(from, vip(1, v6), 1), bed.KindTimeout)
				n.only("none here, UDP from "+from, n.udp(from, vip(2, v6), 1), bed.KindTimeout)
			}
		}
	})
}

func TestSourceRanges(t *testing.T) {
	eachBackend(t, func(n *node) {
		ranges := func(of func(v6 bool) []netip.Prefix) func(*services.ServicePort) {
			return ofFamily(func(p *services.ServicePort, v6 bool) {
				p.LoadBalancerVIPs, p.SourceRanges = []netip.Addr{external("2", v6)}, of(v6)
			})
		}
		first := func(v6 bool) []netip.Prefix {
			a := bed.OutsideAddr(1, v6)
			return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
		}
		n.sync(with(web("local1", "remote1"), ranges(first)))
		for _, v6 := range both {
			to := netip.AddrPortFrom(external("2", v6), 80)
			from := func(i int) map[string]int {
				return n.ask(2, func() (bed.Answer, error) {
					return n.DialTCPFrom(bed.From{Place: bed.Outside, Addr: bed.OutsideAddr(i, v6)}, to)
				})
			}
			n.only("allowed", from(1), "local1", "remote1")
			n.only("not allowed", from(2), bed.KindTimeout)
			n.only("a pod", n.tcp(bed.Client, to, 1), bed.KindTimeout)
			n.only("the node", n.tcp(bed.Node, to, 1), bed.KindTimeout)
			n.only("cluster IP", n.tcp(bed.Client, vip(1, v6), 4), "local1", "remote1")
		}
		n.sync(with(web("local1", "remote1"), ranges(func(v6 bool) []netip.Prefix {
			return []netip.Prefix{netip.PrefixFrom(bed.NodeAddr(1, v6), 24).Masked()}
		})))
		for _, v6 := range both {
			to := netip.AddrPortFrom(external("2", v6), 80)
			n.only("the node is in the range", n.tcp(bed.Node, to, 4), "local1", "remote1")
		}
	})
}
