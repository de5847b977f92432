package userspace

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ep(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(n >> 8), byte(n)}), 8080)
}

func someEndpoints(t *rapid.T) []netip.AddrPort {
	var list []netip.AddrPort
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 1, 12, rapid.ID[int]).Draw(t, "endpoints") {
		list = append(list, ep(n))
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return list
}

var client = netip.MustParseAddr("10.244.0.99")

// Endpoints that stay get the same share to within one, whatever comes and goes beside them.
func TestRoundRobinIsFairUnderChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBalancer(time.Now)
		stay := []netip.AddrPort{ep(100), ep(200), ep(300)}
		share := map[netip.AddrPort]int{}
		for range rapid.IntRange(1, 20).Draw(t, "updates") {
			all := append(someEndpoints(t), stay...)
			b.update(all, 0)
			for range rapid.IntRange(0, 40).Draw(t, "connections") {
				e, ok := b.pick(client, nil)
				if !ok || !slices.Contains(all, e) {
					t.Fatalf("chose %v of %v", e, all)
				}
				share[e]++
			}
			low, high := share[stay[0]], share[stay[0]]
			for _, e := range stay {
				low, high = min(low, share[e]), max(high, share[e])
			}
			if high-low > 1 {
				t.Fatalf("shares of endpoints that stayed: %v", share)
			}
		}
	})
}

// A client keeps its endpoint exactly as long as that exists and its last connection is younger than the timeout.
func TestAffinity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		timeout := 10 * time.Second
		b := newBalancer(func() time.Time { return now })
		all := someEndpoints(t)
		b.update(all, timeout)
		type memory struct {
			endpoint netip.AddrPort
			at       time.Time
		}
		last := map[netip.Addr]memory{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				all = someEndpoints(t)
				b.update(all, timeout)
				for c, m := range last { // losing its endpoint ends it for good
					if !slices.Contains(all, m.endpoint) {
						delete(last, c)
					}
				}
			case 1:
				now = now.Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "seconds")) * time.Second)
			default:
				c := netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(1, 5).Draw(t, "client"))})
				e, ok := b.pick(c, nil)
				if !ok || !slices.Contains(all, e) {
					t.Fatalf("chose %v of %v", e, all)
				}
				if m, had := last[c]; had && now.Sub(m.at) < timeout && m.endpoint != e {
					t.Fatalf("%v moved from %v to %v after %v", c, m.endpoint, e, now.Sub(m.at))
				}
				last[c] = memory{e, now}
			}
		}
		if len(b.clients) > 5 {
			t.Fatalf("%d clients remembered", len(b.clients))
		}
	})
}

func TestAffinityOffFailureAndNone(t *testing.T) {
	b := newBalancer(time.Now)
	if e, ok := b.pick(client, nil); ok {
		t.Errorf("chose %v of none", e)
	}
	b.update([]netip.AddrPort{ep(1), ep(2), ep(3)}, time.Hour)
	first, _ := b.pick(client, nil)
	moved, _ := b.pick(client, []netip.AddrPort{first})
	if again, _ := b.pick(client, nil); moved == first || again != moved {
		t.Errorf("after %v failed: %v, then %v", first, moved, again)
	}
	if only, ok := b.pick(client, []netip.AddrPort{ep(1), ep(2), ep(3)}); !ok {
		t.Errorf("all failed once: %v", only)
	}
	b.update([]netip.AddrPort{ep(1), ep(2), ep(3)}, 0)
	seen := map[netip.AddrPort]bool{}
	for range 3 {
		e, _ := b.pick(client, nil)
		seen[e] = true
	}
	if len(seen) != 3 || len(b.clients) != 0 {
		t.Errorf("after affinity was switched off: %v, remembered %v", seen, b.clients)
	}
}

func TestExpiredClientsAreForgotten(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBalancer(func() time.Time { return now })
	b.update([]netip.AddrPort{ep(1)}, time.Second)
	for n := range 1000 {
		b.pick(netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}), nil)
	}
	now = now.Add(3 * time.Second)
	b.pick(client, nil)
	if len(b.clients) != 1 {
		t.Errorf("%d clients remembered", len(b.clients))
	}
}
