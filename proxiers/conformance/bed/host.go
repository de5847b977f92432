package bed

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
)

// Enough connections that missing one by chance does not happen: (3/4)^100 is 3e-13 for one of four endpoints, (1/2)^40 is
// 1e-12 for one of two.
const (
	OfFour = 100
	OfTwo  = 40
)

// Host is a bed with a proxier on node1, and what tests of all proxiers ask of it.
type Host struct {
	*Bed
	Name    string // of the proxier, in the package's TestMain
	Running *Proxier
	Last    services.Snapshot // what was synced; as long as it is zero, the next pass is a full one
	waiting sync.WaitGroup
}

// NewHost makes a bed, where an answer has to come within a second, and starts a proxier of the package's TestMain in it.
func NewHost(t T, name string, options ...Option) *Host {
	t.Helper()
	h := &Host{Bed: New(t, options...), Name: name}
	t.Cleanup(h.waiting.Wait)
	h.Timeout = time.Second
	h.Start()
	return h
}

// Start starts the proxier, again where it was stopped. The next pass is a full one.
func (h *Host) Start() {
	h.t.Helper()
	h.Running = h.Proxier(h.Name)
	h.Last = services.Snapshot{}
}

// Sync makes the node serve the list: the first time by a full pass, later by a partial one. It awaits what Silent began.
func (h *Host) Sync(list ...Service) runner.SyncReport {
	h.t.Helper()
	h.waiting.Wait()
	return h.SyncTo(h.Running, &h.Last, list...)
}

// TCP connects a number of times and returns how often each answered, or each kind of failure came.
func (h *Host) TCP(place string, to netip.AddrPort, times int) map[string]int {
	return Count(times, func() (Answer, error) { return h.DialTCP(place, to) })
}

// UDP is TCP for UDP, every time from another port.
func (h *Host) UDP(place string, to netip.AddrPort, times int) map[string]int {
	return Count(times, func() (Answer, error) { return h.DialUDP(place, to, 0) })
}

// Count dials a number of times and returns how often each answered, or each kind of failure came.
func Count(times int, dial func() (Answer, error)) map[string]int {
	got := map[string]int{}
	for range times {
		a, err := dial()
		if err != nil {
			got[Kind(err)]++
		} else {
			got[a.Pod]++
		}
	}
	return got
}

// Only fails the test unless the answers came from exactly these.
func (h *Host) Only(what string, got map[string]int, want ...string) {
	h.t.Helper()
	ok := len(got) == len(want)
	for _, w := range want {
		ok = ok && got[w] > 0
	}
	if !ok {
		h.t.Errorf("%s: answers %v, want some from each of %v and no others", what, got, want)
	}
}

// Silent fails the test unless a connection stays without an answer. It returns at once, so that several wait at the same
// time; Sync and the end of the test await them.
func (h *Host) Silent(what, place string, to netip.AddrPort) {
	h.SilentFrom(what, From{Place: place}, to)
}

// SilentFrom is Silent from an address.
func (h *Host) SilentFrom(what string, from From, to netip.AddrPort) {
	h.waiting.Go(func() {
		if a, err := h.DialTCPFrom(from, to); Kind(err) != KindTimeout {
			h.t.Errorf("%s: from %+v to %s: %+v, %v; want no answer", what, from, to, a, err)
		}
	})
}

// RefusesUDP fails the test unless a datagram is refused. On the node itself one that is rejected is an error of the sending,
// EPERM.
func (h *Host) RefusesUDP(from string, to netip.AddrPort) {
	h.t.Helper()
	_, err := h.DialUDP(from, to, 0)
	rejected := from == Node && errors.Is(err, syscall.EPERM)
	if Kind(err) != KindRefused && !rejected {
		h.t.Errorf("UDP from %s to %s: %v", from, to, err)
	}
}

// Flow opens a flow of UDP from a port, until the test ends.
func (h *Host) Flow(from string, port uint16, to netip.AddrPort) *UDP {
	h.t.Helper()
	u, err := h.OpenUDP(From{Place: from, Port: port}, to)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { u.Close() })
	return u
}

// Who sends a datagram of the flow and returns who answers, or the kind of failure.
func (u *UDP) Who() string {
	a, err := u.Ask()
	if err != nil {
		return Kind(err)
	}
	return a.Pod
}

// Both are the families, as the question whether it is IPv6.
var Both = []bool{false, true}

// At is the port of cluster IP number n.
func At(n byte, v6 bool) netip.AddrPort { return netip.AddrPortFrom(VIP(n, v6), 80) }

// OnNode is a port of node1.
func OnNode(v6 bool, port uint16) netip.AddrPort { return netip.AddrPortFrom(NodeAddr(1, v6), port) }

// External is an external or balancer's address, with the port.
func External(n int, v6 bool) netip.AddrPort {
	return netip.AddrPortFrom(servicestest.External(n, v6), 80)
}

// Web is a Service of TCP at cluster IP number 1.
func Web(pods ...string) Service {
	return Service{Name: "web", Port: "http", IP: VIPs(1), Pods: pods}
}

// DNS is a Service of UDP at cluster IP number 2.
func DNS(pods ...string) Service {
	return Service{Name: "dns", Port: "dns", IP: VIPs(2), Protocol: corev1.ProtocolUDP, Pods: pods}
}

// With is a Service with edits.
func With(s Service, edits ...func(*services.ServicePort)) Service {
	s.Edit = Edits(edits...)
	return s
}

// OfFamily is a Service.Edit that is told the family.
func OfFamily(f func(p *services.ServicePort, v6 bool)) func(*services.ServicePort) {
	return func(p *services.ServicePort) { f(p, p.Family == services.IPv6) }
}

// ExternalIPs is a Service.Edit that gives the port external addresses.
func ExternalIPs(numbers ...int) func(*services.ServicePort) {
	return OfFamily(func(p *services.ServicePort, v6 bool) {
		for _, n := range numbers {
			p.ExternalIPs = append(p.ExternalIPs, External(n, v6).Addr())
		}
	})
}

// Balancer is a Service.Edit that gives the port a balancer's address.
func Balancer(n int) func(*services.ServicePort) {
	return OfFamily(func(p *services.ServicePort, v6 bool) { p.LoadBalancerVIPs = []netip.Addr{External(n, v6).Addr()} })
}

// ExternalLocal is a Service.Edit.
func ExternalLocal(p *services.ServicePort) { p.ExternalLocal = true }

// InternalLocal is a Service.Edit.
func InternalLocal(p *services.ServicePort) { p.InternalLocal = true }
