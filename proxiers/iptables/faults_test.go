package iptables

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
)

// What operators reported of Service proxies, one test each, where the tests about a feature do not have it already.

// A port of the node is not to be had on a cluster IP. https://issues.k8s.io/72236
func TestNodesOwnPortsAreNotOnClusterIPs(t *testing.T) {
	in(t, nftCompact, func(n *node) {
		if err := n.ServeAt(bed.Node, 2222, 2222); err != nil {
			t.Fatal(err)
		}
		n.Sync(web("local1"), dns("local1"))
		var asked sync.WaitGroup
		for _, v6 := range both {
			own := netip.AddrPortFrom(bed.NodeAddr(1, v6), 2222)
			n.Only("the node's own port", n.TCP(bed.Client, own, 1), bed.Node)
			for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
				asked.Go(func() {
					if got := n.TCP(from, netip.AddrPortFrom(bed.VIP(1, v6), 2222), 1); got[bed.Node] > 0 {
						t.Errorf("%s: from %s the node answers on a cluster IP: %v", n.variant, from, got)
					}
				})
			}
		}
		asked.Wait()
	})
}

// A UDP Service scaled to zero leaves no entry behind that would swallow what comes. https://issues.k8s.io/139628
func TestScaledToZeroLeavesNoEntries(t *testing.T) {
	in(t, legacyCompact, func(n *node) {
		n.Sync(with(dns("local1", "remote1"), bed.NodePort(30053)))
		for i := range uint16(20) {
			n.Flow(bed.Client, 5100+i, vip(2, i%2 == 1))
			if got := n.Flow(bed.Outside, 5100+i, netip.AddrPortFrom(bed.NodeAddr(1, i%2 == 1), 30053)).Who(); got != "local1" && got != "remote1" {
				t.Fatal(got)
			}
		}
		n.Sync(with(dns(), bed.NodePort(30053)))
		for _, family := range []string{"ipv4", "ipv6"} {
			list := n.MustExec(bed.Node, "conntrack", "-L", "-p", "udp", "-f", family)
			for _, pod := range []string{"local1", "remote1"} {
				if addr := n.Pod(pod).Addr(family == "ipv6").String(); strings.Contains(list, "src="+addr+" ") {
					t.Errorf("%s: entries of %s are left:\n%s", n.variant, pod, list)
				}
			}
		}
	})
}

// Where a balancer's address is the node's own too, the node talks to it from that very address, and is let in if the
// ranges name the node. https://issues.k8s.io/119656 is about ranges that are not enforced.
func TestSourceRangesAndTheNodeItself(t *testing.T) {
	eachOf(t, backends, func(n *node) {
		n.MustExec(bed.Node, "ip", "addr", "add", external(1, false).String()+"/32", "dev", "lo")
		n.MustExec(bed.Node, "ip", "addr", "add", external(1, true).String()+"/128", "dev", "lo", "nodad")
		for _, row := range []struct {
			allowed func(v6 bool) netip.Addr
			want    map[string]string
		}{
			{func(v6 bool) netip.Addr { return bed.NodeAddr(1, v6) },
				map[string]string{bed.Node: "local1", bed.Client: bed.KindTimeout, bed.Outside: bed.KindTimeout}},
			{func(v6 bool) netip.Addr { return n.Pod(bed.Client).Addr(v6) },
				map[string]string{bed.Node: bed.KindTimeout, bed.Client: "local1", bed.Outside: bed.KindTimeout}},
		} {
			n.Sync(with(web("local1"), ofFamily(func(p *services.ServicePort, v6 bool) {
				p.LoadBalancerVIPs = []netip.Addr{external(1, v6)}
				a := row.allowed(v6)
				p.SourceRanges = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
			})))
			for _, v6 := range both {
				for from, want := range row.want {
					what := "from " + from + " with " + row.allowed(v6).String() + " let in"
					if want == bed.KindTimeout {
						n.Silent(what, from, bed.External(1, v6))
					} else {
						n.Only(what, n.TCP(from, bed.External(1, v6), 1), want)
					}
				}
			}
		}
	})
}

// Many connections that are masqueraded at the same moment get ports of their own. https://issues.k8s.io/76699
func TestMasqueradingAtTheSameMoment(t *testing.T) {
	eachOf(t, backends, func(n *node) {
		n.Sync(web("remote1"), dns("remote1"))
		if out := n.MustExec(bed.Node, n.tool("save"), "-t", "nat"); !strings.Contains(out, "MASQUERADE --random-fully") {
			t.Errorf("%s: ports are not chosen at random:\n%s", n.variant, out)
		}
		n.Timeout = 10 * time.Second
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				_, tcp := n.DialTCP(bed.Outside, vip(1, i%2 == 1))
				_, udp := n.DialUDP(bed.Outside, vip(2, i%2 == 1), 0)
				if err := errors.Join(tcp, udp); err != nil {
					t.Errorf("%s: %v", n.variant, err)
				}
			})
		}
		wg.Wait()
		for line := range strings.Lines(n.MustExec(bed.Node, "conntrack", "-S")) {
			_, rest, _ := strings.Cut(line, "insert_failed=")
			if count, err := strconv.Atoi(strings.Fields(rest + " x")[0]); err != nil || count != 0 {
				t.Errorf("%s: %s", n.variant, line)
			}
		}
	})
}

const foreignNFT = `table ip nat {
  set foreign { type ipv4_addr; flags interval; }
  chain POSTROUTING {
    type nat hook postrouting priority srcnat; policy accept;
    ip daddr @foreign tcp dport { 4444, 4445 } counter
  }
  chain FOREIGN {
    tcp dport vmap { 4444 : accept, 4445 : drop }
  }
}
table ip6 kube-foreign {
  chain forward {
    type filter hook forward priority filter; policy accept;
    tcp dport { 4444, 4445 } drop
  }
}
`

// Tables that another tool made, with rules that iptables has no words for, neither break a sync nor are changed.
// https://issues.k8s.io/136786
func TestForeignTablesOfAnotherTool(t *testing.T) {
	eachOf(t, backends, func(n *node) {
		if _, err := n.Exec(bed.Node, foreignNFT, "nft", "-f", "-"); err != nil {
			t.Skip("needs nft with nf_tables:", err)
		}
		foreign := func() []string {
			var kept []string
			for line := range strings.Lines(n.MustExec(bed.Node, "nft", "list", "ruleset")) {
				if strings.Contains(line, "4444") || strings.Contains(line, "foreign") || strings.Contains(line, "FOREIGN") {
					kept = append(kept, line)
				}
			}
			return kept
		}
		before := foreign()
		n.Sync(web("local1"), with(dns("local1"), bed.NodePort(30053)))
		n.Only("beside foreign tables", n.TCP(bed.Client, vip(1, false), 1), "local1")
		n.Sync(web("remote1"))
		n.Only("after a change", n.TCP(bed.Client, vip(1, false), 1), "remote1")
		during := foreign()
		if err := n.Running.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := foreign(); !slices.Equal(before, during) || !slices.Equal(before, after) || len(before) < 6 {
			t.Errorf("%s: before:\n%s\nduring:\n%s\nafter:\n%s", n.variant, before, during, after)
		}
	})
}

// Memory does not grow while Services and endpoints come and go. https://issues.k8s.io/128928
func TestMemoryUnderChurn(t *testing.T) {
	f, _ := sinkFamily()
	want := servicestest.Many(200, 4)
	n := 0
	heap := func(changes int) uint64 {
		for range changes {
			n++
			want = servicestest.ReplaceService(want, n)
			if _, err := f.sync(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			want.Full = false
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	early := heap(500)
	if late := heap(5000); late > early+early/2 {
		t.Errorf("%d bytes after 500 changes, %d after 5,500", early, late)
	}
	runtime.KeepAlive(f)
}
