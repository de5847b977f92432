package bed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// Killing is the test of a proxier that is killed again and again, at random moments while Services change: after each
// restart and one full sync every answer must be right. The proxier that it leaves running is returned, for a clean-up.
type Killing struct {
	Proxier string        // of the package's TestMain
	Times   int           // how often it is killed
	Longest time.Duration // of the moments, counted from the first change; 0: 300 ms

	bed     *Bed
	random  *rand.Rand
	proxier *Proxier
}

// killServices is the number of Services that come, change and go; odd ones are UDP.
const killServices = 6

// Run runs the test in a bed with two pods on each node. What is random is logged as a seed.
func (k *Killing) Run(b *Bed) *Proxier {
	b.t.Helper()
	seed := uint64(time.Now().UnixNano())
	b.t.Logf("seed %d", seed)
	k.bed, k.random = b, rand.New(rand.NewPCG(seed, 0))
	k.proxier = b.Proxier(k.Proxier)
	for n := range k.Times {
		k.churn()
		k.proxier.Stop() // returns when it is gone
		k.proxier = b.Proxier(k.Proxier)
		list := k.list()
		if _, err := k.proxier.Sync(context.Background(), b.Snapshot(list...)); err != nil {
			b.t.Fatalf("first sync after kill %d: %v", n+1, err)
		}
		if !k.check(fmt.Sprintf("after kill %d", n+1), list) {
			break // the next restart would hide it
		}
	}
	return k.proxier
}

// churn syncs one change after the other until the proxier is dead.
func (k *Killing) churn() {
	longest := k.Longest
	if longest == 0 {
		longest = 300 * time.Millisecond
	}
	var last services.Snapshot
	timer := time.AfterFunc(time.Duration(k.random.Int64N(int64(longest))), k.proxier.Kill)
	defer timer.Stop()
	for {
		list := k.list()
		next := k.bed.Snapshot(list...)
		if last.Ports != nil {
			next = k.bed.Next(last, list...)
		}
		if _, err := k.proxier.Sync(context.Background(), next); err != nil {
			return // it is dead, or will be and this was its last pass
		}
		last = next
	}
}

// list draws Services: some are absent, some have no endpoint, some a node port.
func (k *Killing) list() (list []Service) {
	for n := range killServices {
		if k.random.IntN(5) == 0 {
			continue
		}
		s := Service{Name: fmt.Sprintf("s%d", n), Port: "p", IP: VIPs(byte(10 + n)), Protocol: corev1.ProtocolTCP}
		if n%2 == 1 {
			s.Protocol = corev1.ProtocolUDP
		}
		for _, pod := range []string{"local1", "local2", "remote1", "remote2"} {
			if k.random.IntN(2) == 0 {
				s.Pods = append(s.Pods, pod)
			}
		}
		if k.random.IntN(2) == 0 {
			s.Edit = NodePort(uint16(30000 + n))
		}
		list = append(list, s)
	}
	return list
}

// check asks every Service from everywhere.
func (k *Killing) check(when string, list []Service) bool {
	ok := true
	for _, s := range list {
		for _, v6 := range []bool{false, true} {
			targets := []netip.AddrPort{netip.AddrPortFrom(VIP(s.number(), v6), 80)}
			if s.Edit != nil {
				targets = append(targets, netip.AddrPortFrom(NodeAddr(1, v6), uint16(30000+int(s.number())-10)))
			}
			for _, to := range targets {
				for _, from := range []string{Client, Node, Outside} {
					if got, right := k.bed.judge(s, from, to); !right {
						k.bed.t.Errorf("%s: %s from %s to %s: %s, want one of %v", when, s.Protocol, from, to, got, s.Pods)
						ok = false
					}
				}
			}
		}
	}
	return ok
}

func (s Service) number() byte {
	var n byte
	_, _ = fmt.Sscanf(s.Name, "s%d", &n) // it is one of list's
	return n + 10
}

// judge asks a few times, the first time from a port that it used before, so that what conntrack knows of it counts too.
// Every answer must come from a pod of the Service, or be a refusal where it has none.
func (b *Bed) judge(s Service, from string, to netip.AddrPort) (got string, right bool) {
	for i := range 3 {
		var a Answer
		var err error
		if s.Protocol == corev1.ProtocolUDP {
			port := uint16(0)
			if i == 0 {
				port = 7000 + uint16(s.number())
			}
			a, err = b.DialUDP(from, to, port)
		} else {
			a, err = b.DialTCP(from, to)
		}
		got = a.Pod
		if err != nil {
			got = Kind(err)
		}
		if len(s.Pods) == 0 && got != KindRefused || len(s.Pods) > 0 && !slices.Contains(s.Pods, got) {
			return got, false
		}
	}
	return got, true
}
