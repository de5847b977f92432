package iptables

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
	"proxylab/proxiers/xtables/fake"
)

// No packet can tell the compact layout from kube-proxy's.
func TestLayoutsAreEqualToPackets(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		want := ports.Change(t, ports.Change(t, services.Snapshot{Node: servicestest.Facts}))
		want.Full = true
		plain, compact := newWorld(t, root, 1000), newWorld(t, root, 0)
		for _, w := range []*world{plain, compact} {
			if _, err := w.Sync(context.Background(), want); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			v6 := rapid.Bool().Draw(t, "v6")
			p := genPacket(want, v6).Draw(t, "packet")
			a, b := plain.v4, compact.v4
			if v6 {
				a, b = plain.v6, compact.v6
			}
			if x, y := a.Trace(p), b.Trace(p); !sameOutcomes(x, y) {
				t.Fatalf("packet %+v\nkube-proxy's layout: %v\ncompact: %v\n%s\n%s", p, x, y, a.Text(), b.Text())
			}
		}
	})
}

func sameOutcomes(a, b map[fake.Outcome]float64) bool {
	for _, k := range slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b))) {
		if math.Abs(a[k]-b[k]) > 1e-6 {
			return false
		}
	}
	return true
}

// genPacket draws sources and destinations that some rule may care about. What the compact layout relies on is kept
// true: a pod on this node has an address in its pod CIDR, other pods' packets do not come here with their own address
// for a Service.
func genPacket(want services.Snapshot, v6 bool) *rapid.Generator[fake.Packet] {
	return rapid.Custom(func(t *rapid.T) fake.Packet {
		node := servicestest.Node4
		loopback := netip.MustParseAddr("127.0.0.1")
		if v6 {
			node, loopback = servicestest.Node6, netip.IPv6Loopback()
		}
		sources := []netip.Addr{node, loopback, servicestest.Addr(v6, "10.10.0.", "fd00:10:10::", 1), servicestest.Addr(v6, "10.10.7.", "fd00:10:11::", 1)}
		for n := 1; n <= 9; n++ {
			sources = append(sources, servicestest.Endpoint(n, v6).Addr.Addr())
		}
		targets := []netip.AddrPort{netip.AddrPortFrom(servicestest.Addr(v6, "192.0.2.", "2001:db8:9::", 200), 80)}
		seen := map[string]bool{}
		for _, k := range slices.SortedFunc(maps.Keys(want.Ports), compareKeys) {
			sp := want.Ports[k]
			if k.Family == services.IPv6 != v6 {
				continue
			}
			for _, a := range append(append([]netip.Addr{sp.ClusterIP}, sp.ExternalIPs...), sp.LoadBalancerVIPs...) {
				targets = append(targets, netip.AddrPortFrom(a, sp.Port))
			}
			if sp.NodePort != 0 {
				targets = append(targets, netip.AddrPortFrom(node, sp.NodePort), netip.AddrPortFrom(loopback, sp.NodePort))
			}
			for _, ep := range sp.ClusterEndpoints {
				if rapid.IntRange(0, 5).Draw(t, "seen") == 0 {
					seen[EndpointChain(k, ep.Addr)] = true
				}
			}
		}
		src := rapid.SampledFrom(sources).Draw(t, "source")
		return fake.Packet{
			Src: netip.AddrPortFrom(src, 40000), Dst: rapid.SampledFrom(targets).Draw(t, "destination"),
			Proto:    rapid.SampledFrom([]string{"tcp", "udp", "sctp"}).Draw(t, "protocol"),
			FromNode: src == node || src.IsLoopback(), Local: []netip.Addr{node}, Seen: seen,
		}
	})
}

// The rules of the layouts for one Service with everything, as a reader meets them.
func TestRulesOfOneService(t *testing.T) {
	sp := servicestest.Many(1, 3).Ports
	for _, p := range sp {
		p.NodePort = 30080
		for threshold, want := range map[int]string{1000: kubeProxyRules, 0: compactRules} {
			w := newWorld(t, t.TempDir(), threshold)
			mustSync(t, w, services.Snapshot{Node: servicestest.Facts, Full: true, Ports: sp})
			var got []string
			for line := range strings.Lines(w.v4.Text()) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "-A KUBE-") && strings.Contains(line, portHash(p.Key)) ||
					strings.HasPrefix(line, "-A KUBE-SEP-") {
					got = append(got, line)
				}
			}
			if text := strings.Join(got, "\n"); text != strings.TrimSpace(want) {
				t.Errorf("threshold %d:\n%s", threshold, text)
			}
		}
	}
}

const kubeProxyRules = `
-A KUBE-EXT-LKBEORJPSPRRWSI4 -m comment --comment "masquerade traffic for bulk/svc-00000:http external destinations" -j KUBE-MARK-MASQ
-A KUBE-EXT-LKBEORJPSPRRWSI4 -j KUBE-SVC-LKBEORJPSPRRWSI4
-A KUBE-NODEPORTS -p tcp -m comment --comment "bulk/svc-00000:http" -m tcp --dport 30080 -j KUBE-EXT-LKBEORJPSPRRWSI4
-A KUBE-SEP-7ZYPMP7HGECQOEBB -s 10.200.0.1/32 -m comment --comment "bulk/svc-00000:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-7ZYPMP7HGECQOEBB -p tcp -m comment --comment "bulk/svc-00000:http" -m tcp -j DNAT --to-destination 10.200.0.1:8080
-A KUBE-SEP-M5XFH4M6274MRYCG -s 10.200.0.2/32 -m comment --comment "bulk/svc-00000:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-M5XFH4M6274MRYCG -p tcp -m comment --comment "bulk/svc-00000:http" -m tcp -j DNAT --to-destination 10.200.0.2:8080
-A KUBE-SEP-MIGKBLB3GXIVUV4X -s 10.200.0.0/32 -m comment --comment "bulk/svc-00000:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-MIGKBLB3GXIVUV4X -p tcp -m comment --comment "bulk/svc-00000:http" -m tcp -j DNAT --to-destination 10.200.0.0:8080
-A KUBE-SERVICES -d 10.96.0.0/32 -p tcp -m comment --comment "bulk/svc-00000:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-LKBEORJPSPRRWSI4
-A KUBE-SVC-LKBEORJPSPRRWSI4 ! -s 10.244.1.0/24 -d 10.96.0.0/32 -p tcp -m comment --comment "bulk/svc-00000:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-LKBEORJPSPRRWSI4 -m comment --comment "bulk/svc-00000:http -> 10.200.0.0:8080" -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-MIGKBLB3GXIVUV4X
-A KUBE-SVC-LKBEORJPSPRRWSI4 -m comment --comment "bulk/svc-00000:http -> 10.200.0.1:8080" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-7ZYPMP7HGECQOEBB
-A KUBE-SVC-LKBEORJPSPRRWSI4 -m comment --comment "bulk/svc-00000:http -> 10.200.0.2:8080" -j KUBE-SEP-M5XFH4M6274MRYCG
`

const compactRules = `
-A KUBE-EXT-LKBEORJPSPRRWSI4 -j KUBE-MARK-MASQ
-A KUBE-EXT-LKBEORJPSPRRWSI4 -j KUBE-SVC-LKBEORJPSPRRWSI4
-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-EXT-LKBEORJPSPRRWSI4
-A KUBE-SEP-MIGKBLB3GXIVUV4X -s 10.200.0.0/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-MIGKBLB3GXIVUV4X -p tcp -j DNAT --to-destination 10.200.0.0:8080
-A KUBE-SERVICES -d 10.96.0.0/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-LKBEORJPSPRRWSI4
-A KUBE-SVC-LKBEORJPSPRRWSI4 ! -s 10.244.1.0/24 -j KUBE-MARK-MASQ
-A KUBE-SVC-LKBEORJPSPRRWSI4 -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-MIGKBLB3GXIVUV4X
-A KUBE-SVC-LKBEORJPSPRRWSI4 -p tcp -m statistic --mode random --probability 0.5000000000 -j DNAT --to-destination 10.200.0.1:8080
-A KUBE-SVC-LKBEORJPSPRRWSI4 -p tcp -j DNAT --to-destination 10.200.0.2:8080
`

func TestProbabilities(t *testing.T) {
	r := renderer{}
	for n, want := range map[int]string{1: "1.0000000000", 2: "0.5000000000", 3: "0.3333333333", 7: "0.1428571429"} {
		if got := r.probability(n); got != want {
			t.Errorf("1/%d: %s, want %s", n, got, want)
		}
	}
	if got := fmt.Sprint(len(r.probs)); got != "8" {
		t.Errorf("%s texts kept", got)
	}
}
