package ipvs

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/iptables"
	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

// The tests in this and the following files are about what packets meet in a real kernel, with both back ends of iptables.
// They need a kernel with IPVS.
var backends = []string{"legacy", "nft"}

func TestMain(m *testing.M) {
	factories := map[string]bed.Factory{
		"iptables/legacy": func(log *slog.Logger) (runner.Proxier, error) {
			return iptables.New(iptables.Options{Backend: "legacy", Log: log})
		},
	}
	for _, b := range backends {
		factories[b] = func(log *slog.Logger) (runner.Proxier, error) { return New(Options{Backend: b, Log: log}) }
	}
	for _, s := range Schedulers() {
		factories["scheduler/"+s] = func(log *slog.Logger) (runner.Proxier, error) {
			return New(Options{Backend: "legacy", Scheduler: s, Log: log})
		}
	}
	os.Exit(bed.Main(m, factories))
}

// node is a bed with a proxier on node1.
type node struct {
	*bed.Bed
	t       *testing.T
	backend string
	proxier *bed.Proxier
	last    services.Snapshot
}

func needIPVS(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make network namespaces")
	}
	if err := kernel.Check(context.Background(), DefaultScheduler); err != nil {
		t.Skip(err)
	}
}

func newNode(t *testing.T, backend string) *node {
	t.Helper()
	needIPVS(t)
	b := bed.New(t)
	b.Timeout = 2 * time.Second
	n := &node{Bed: b, t: t, backend: backend}
	n.start()
	return n
}

func eachBackend(t *testing.T, f func(*node)) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) {
			f(newNode(t, b))
		})
	}
}

// start starts the proxier, again where it was stopped. The first sync is a full one.
func (n *node) start() {
	n.t.Helper()
	n.proxier = n.Proxier(n.backend)
	n.last = services.Snapshot{}
}

// sync makes the node serve the list: the first time by a full pass, later by a partial one.
func (n *node) sync(list ...bed.Service) runner.SyncReport {
	n.t.Helper()
	return n.SyncTo(n.proxier, &n.last, list...)
}

var both = []bool{false, true}

func vip(i byte, v6 bool) netip.AddrPort { return netip.AddrPortFrom(bed.VIP(i, v6), 80) }

func (n *node) ask(times int, dial func() (bed.Answer, error)) map[string]int {
	got := map[string]int{}
	for range times {
		a, err := dial()
		if err != nil {
			got[bed.Kind(err)]++
		} else {
			got[a.Pod]++
		}
	}
	return got
}

func (n *node) tcp(place string, to netip.AddrPort, times int) map[string]int {
	return n.ask(times, func() (bed.Answer, error) { return n.DialTCP(place, to) })
}

func (n *node) udp(place string, to netip.AddrPort, times int) map[string]int {
	return n.ask(times, func() (bed.Answer, error) { return n.DialUDP(place, to, 0) })
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

func with(s bed.Service, edits ...func(*services.ServicePort)) bed.Service {
	s.Edit = bed.Edits(edits...)
	return s
}

func external(i string, v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr("2001:db8::" + i)
	}
	return netip.MustParseAddr("203.0.113." + i)
}

func ofFamily(f func(p *services.ServicePort, v6 bool)) func(*services.ServicePort) {
	return func(p *services.ServicePort) { f(p, p.Family == services.IPv6) }
}

// servers lists the node's virtual servers and what is behind them, as the kernel prints it.
func (n *node) servers() string {
	text := n.MustExec(bed.Node, "cat", "/proc/net/ip_vs")
	var out []string
	for i, line := range strings.Split(text, "\n") {
		if i > 2 {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
