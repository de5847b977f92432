package iptables

import (
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// The tests in this and the following files are about what packets meet in a real kernel, with both back ends and both
// layouts.
var variants = []string{"legacy", "nft", "legacy/compact", "nft/compact"}

func TestMain(m *testing.M) {
	factories := map[string]bed.Factory{}
	for _, v := range variants {
		factories[v] = func(log *slog.Logger) (runner.Proxier, error) {
			backend, compact := v, false
			if n := len(v) - len("/compact"); n > 0 {
				backend, compact = v[:n], true
			}
			p, err := New(Options{Backend: backend, Log: log})
			if err != nil {
				return nil, err
			}
			if compact {
				for _, f := range p.families {
					f.threshold = 0
				}
			}
			return p, nil
		}
	}
	for name, threshold := range map[string]int{"": LargeThreshold, "-kube-proxy-layout": 1 << 30} {
		for _, backend := range xtables.Backends() {
			factories["bulk/"+backend+name] = newBulk(backend, threshold)
		}
	}
	factories["auto"] = func(log *slog.Logger) (runner.Proxier, error) { return New(Options{Log: log}) }
	os.Exit(bed.Main(m, factories))
}

// node is a bed with a proxier of one variant on node1.
type node struct {
	*bed.Bed
	t       *testing.T
	variant string
	proxier *bed.Proxier
	last    services.Snapshot
}

func eachVariant(t *testing.T, f func(*node)) {
	for _, v := range variants {
		t.Run(v, func(t *testing.T) {
			t.Parallel() // most of the time is waiting for what must not come
			b := bed.New(t)
			b.Timeout = time.Second
			n := &node{Bed: b, t: t, variant: v}
			n.start()
			f(n)
		})
	}
}

// start starts the proxier, again where it was stopped. The first sync is a full one.
func (n *node) start() {
	n.t.Helper()
	n.proxier = n.Proxier(n.variant)
	n.last = services.Snapshot{}
}

// sync makes the node serve the list: the first time by a full pass, later by a partial one.
func (n *node) sync(list ...bed.Service) runner.SyncReport {
	n.t.Helper()
	return n.SyncTo(n.proxier, &n.last, list...)
}

var both = []bool{false, true}

func vip(i byte, v6 bool) netip.AddrPort { return netip.AddrPortFrom(bed.VIP(i, v6), 80) }

// tcp dials often enough to meet every one of a handful of endpoints and returns how often each answered.
func (n *node) tcp(place string, to netip.AddrPort, times int) map[string]int {
	n.t.Helper()
	got := map[string]int{}
	for range times {
		a, err := n.DialTCP(place, to)
		if err != nil {
			got[bed.Kind(err)]++
		} else {
			got[a.Pod]++
		}
	}
	return got
}

func (n *node) udp(place string, to netip.AddrPort, times int) map[string]int {
	n.t.Helper()
	got := map[string]int{}
	for range times {
		a, err := n.DialUDP(place, to, 0)
		if err != nil {
			got[bed.Kind(err)]++
		} else {
			got[a.Pod]++
		}
	}
	return got
}

// only fails unless the answers came from exactly these.
func (n *node) only(what string, got map[string]int, want ...string) {
	n.t.Helper()
	ok := len(got) == len(want)
	for _, w := range want {
		ok = ok && got[w] > 0
	}
	if !ok {
		n.t.Errorf("%s: answers %v, want some from each of %v and no others", what, got, want)
	}
}

func web(pods ...string) bed.Service {
	return bed.Service{Name: "web", Port: "http", IP: bed.VIPs(1), Pods: pods}
}

func dns(pods ...string) bed.Service {
	return bed.Service{Name: "dns", Port: "dns", IP: bed.VIPs(2), Protocol: corev1.ProtocolUDP, Pods: pods}
}

func (n *node) with(s bed.Service, edits ...func(*services.ServicePort)) bed.Service {
	s.Edit = bed.Edits(edits...)
	return s
}

func external(i int, v6 bool) netip.Addr { return addr(v6, "203.0.113.", "2001:db8::", i) }

func ofFamily(f func(p *services.ServicePort, v6 bool)) func(*services.ServicePort) {
	return func(p *services.ServicePort) { f(p, p.Family == services.IPv6) }
}
