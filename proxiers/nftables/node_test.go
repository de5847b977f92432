package nftables

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

// The tests in this and the following files are about what packets meet in a real kernel.
func TestMain(m *testing.M) {
	os.Exit(bed.Main(m, map[string]bed.Factory{
		"nftables": func(log *slog.Logger) (runner.Proxier, error) { return New(Options{Log: log}) },
		"bulk":     newBulk,
	}))
}

// node is a bed with the proxier on node1.
type node struct {
	*bed.Bed
	t       *testing.T
	proxier *bed.Proxier
	last    services.Snapshot
}

func newNode(t *testing.T, options ...bed.Option) *node {
	t.Helper()
	t.Parallel() // most of the time is waiting for what must not come
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft (Debian's package nftables)")
	}
	n := &node{Bed: bed.New(t, options...), t: t}
	n.Timeout = time.Second
	n.start()
	return n
}

// start starts the proxier, again where it was stopped. The first sync is a full one.
func (n *node) start() {
	n.t.Helper()
	n.proxier = n.Proxier("nftables")
	n.last = services.Snapshot{}
}

// sync makes the node serve the list: the first time by a full pass, later by a partial one.
func (n *node) sync(list ...bed.Service) runner.SyncReport {
	n.t.Helper()
	return n.SyncTo(n.proxier, &n.last, list...)
}

var both = []bool{false, true}

func vip(i byte, v6 bool) netip.AddrPort { return netip.AddrPortFrom(bed.VIP(i, v6), 80) }

func onNode(v6 bool, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(bed.NodeAddr(1, v6), port)
}

// external is an external or balancer's address.
func external(i int, v6 bool) netip.AddrPort {
	a := netip.MustParseAddr(fmt.Sprintf("203.0.113.%d", i))
	if v6 {
		a = netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i))
	}
	return netip.AddrPortFrom(a, 80)
}

// Enough connections that missing one of four endpoints by chance does not happen: (3/4)^150 is 2e-19.
const many = 150

// tcp dials and returns how often each answered.
func (n *node) tcp(place string, to netip.AddrPort, times int) map[string]int {
	return count(times, func() (bed.Answer, error) { return n.DialTCP(place, to) })
}

func (n *node) udp(place string, to netip.AddrPort, times int) map[string]int {
	return count(times, func() (bed.Answer, error) { return n.DialUDP(place, to, 0) })
}

func count(times int, dial func() (bed.Answer, error)) map[string]int {
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

// refusesUDP: on the node itself a datagram that is rejected is an error of the sending, EPERM.
func (n *node) refusesUDP(from string, to netip.AddrPort) {
	n.t.Helper()
	_, err := n.DialUDP(from, to, 0)
	rejected := from == bed.Node && errors.Is(err, syscall.EPERM)
	if bed.Kind(err) != bed.KindRefused && !rejected {
		n.t.Errorf("UDP from %s to %s: %v", from, to, err)
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

// ofFamily is an edit that is told the family.
func ofFamily(f func(p *services.ServicePort, v6 bool)) func(*services.ServicePort) {
	return func(p *services.ServicePort) { f(p, p.Family == services.IPv6) }
}

func externalIPs(numbers ...int) func(*services.ServicePort) {
	return ofFamily(func(p *services.ServicePort, v6 bool) {
		for _, i := range numbers {
			p.ExternalIPs = append(p.ExternalIPs, external(i, v6).Addr())
		}
	})
}

func balancer(i int) func(*services.ServicePort) {
	return ofFamily(func(p *services.ServicePort, v6 bool) { p.LoadBalancerVIPs = []netip.Addr{external(i, v6).Addr()} })
}

func externalLocal(p *services.ServicePort) { p.ExternalLocal = true }
func internalLocal(p *services.ServicePort) { p.InternalLocal = true }

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
