// Package conformance is what a proxier must do to packets, as a table of behaviours that runs against any of them in a
// real kernel. A row is one function over a Node; the files rows_*.go hold them by area.
package conformance

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

// Row is one behaviour.
type Row struct {
	Area string
	Name string
	// Except says for which modes the behaviour cannot be had, and why.
	Except map[string]string
	Run    func(*Node)
}

// Rows is the table.
func Rows() []Row {
	return slices.Concat(reachability, endpoints, affinity, switching)
}

// Node is a test bed whose node is programmed by the proxier under test.
type Node struct {
	*bed.Bed
	T       bed.T
	name    string
	proxier *bed.Proxier
	last    *services.Snapshot
}

// NewNode starts a proxier, one of those in the test's TestMain, in a new bed.
func NewNode(t bed.T, proxier string) *Node {
	t.Helper()
	b := bed.New(t)
	b.Timeout = 2 * time.Second
	return &Node{Bed: b, T: t, name: proxier, proxier: b.Proxier(proxier)}
}

// Sync makes the node serve these Services and no others: by a full pass at first, by partial ones later.
func (n *Node) Sync(list ...bed.Service) runner.SyncReport {
	n.T.Helper()
	var want services.Snapshot
	if n.last == nil {
		want = n.Snapshot(list...)
	} else {
		want = n.Next(*n.last, list...)
	}
	report, err := n.proxier.Sync(context.Background(), want)
	if err != nil {
		n.T.Fatalf("sync: %v", err)
	}
	n.last = &want
	return report
}

// Restart ends the proxier as a crash would and starts another, which knows nothing yet. Rules stay.
func (n *Node) Restart() {
	n.T.Helper()
	n.proxier.Kill()
	n.proxier.Stop()
	n.proxier, n.last = n.Proxier(n.name), nil
}

// Cleanup has the proxier remove all that it put on the node.
func (n *Node) Cleanup() {
	n.T.Helper()
	if err := n.proxier.Cleanup(context.Background()); err != nil {
		n.T.Fatalf("clean-up: %v", err)
	}
}

// answers counts who answered, or how it failed.
type answers map[string]int

func (a answers) String() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, fmt.Sprintf("%s: %d", k, a[k]))
	}
	return strings.Join(parts, ", ")
}

// tcp connects a number of times.
func (n *Node) tcp(place string, to netip.AddrPort, times int) answers {
	got := answers{}
	for range times {
		a, err := n.DialTCP(place, to)
		got.add(a, err)
	}
	return got
}

// udp sends a number of datagrams, each from another port.
func (n *Node) udp(place string, to netip.AddrPort, times int) answers {
	got := answers{}
	for range times {
		a, err := n.DialUDP(place, to, 0)
		got.add(a, err)
	}
	return got
}

func (a answers) add(x bed.Answer, err error) {
	if err != nil {
		a[bed.Kind(err)]++
	} else {
		a[x.Pod]++
	}
}

// only fails the row unless each of these answered and nothing else did.
func (n *Node) only(what string, got answers, want ...string) {
	n.T.Helper()
	slices.Sort(want)
	if !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		n.T.Errorf("%s: got %s, want all of %s and nothing else", what, got, strings.Join(want, ", "))
	}
}

// many is how often to try in order to meet all of up to four endpoints that are chosen at random: all but once in
// some hundred million times.
const many = 70

// few is how often to try what must be the same each time.
const few = 5

// families calls f for IPv4 and IPv6.
func families(f func(v6 bool, label string)) {
	f(false, "IPv4")
	f(true, "IPv6")
}

// vip is port 80 of the cluster IP number i.
func vip(i byte, v6 bool) netip.AddrPort { return netip.AddrPortFrom(bed.VIP(i, v6), 80) }

func nodePort(v6 bool, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(bed.NodeAddr(1, v6), port)
}

// web is a TCP Service at VIP 1, dns a UDP Service at VIP 2.
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
