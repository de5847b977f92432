package plane

import (
	"encoding/json"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// A member that was seen is down exactly after as many failures in a row as asked for, and up after as many answers; only
// the first answer of all decides at once.
func TestHealthCountsInARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Monitor{MaxRetries: rapid.IntRange(1, 5).Draw(t, "rise"), MaxRetriesDown: rapid.IntRange(1, 5).Draw(t, "fall")}
		h := newHealth(m)
		if !h.up() {
			t.Fatal("down before anybody asked")
		}
		first := rapid.Bool().Draw(t, "first")
		if !h.result(first) || h.up() != first {
			t.Fatalf("the first answer, %v, did not decide", first)
		}
		up, row := first, 0
		for _, ok := range rapid.SliceOf(rapid.Bool()).Draw(t, "answers") {
			if ok == up {
				row = 0
			} else {
				row++
			}
			turns := up && row == m.MaxRetriesDown || !up && row == m.MaxRetries
			if turns {
				up, row = !up, 0
			}
			if h.result(ok) != turns || h.up() != up {
				t.Fatalf("%v after %d in a row: up %v, want %v", ok, row, h.up(), up)
			}
		}
	})
}

func TestHealthRetuned(t *testing.T) {
	h := newHealth(Monitor{MaxRetries: 1, MaxRetriesDown: 1})
	h.result(true)
	h.retune(Monitor{MaxRetries: 3, MaxRetriesDown: 2})
	if h.result(false) || !h.up() {
		t.Error("one failure was enough of two")
	}
	if !h.result(false) || h.up() {
		t.Error("two failures were not enough")
	}
	h.retune(Monitor{MaxRetries: 1}) // three failures by default
	if h.up() || !h.result(true) || h.result(false) || h.result(false) || !h.result(false) {
		t.Error("the new counts do not count")
	}
}

func TestCloneIsDeep(t *testing.T) {
	b := Balancer{
		ID: "lb", VIPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Listeners: []Listener{{
			ID: "l", AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, InsertHeaders: map[string]string{"a": "b"},
			Policies: []L7Policy{{ID: "p", Rules: []L7Rule{{Value: "v"}}}}, Certificate: []byte("c"), Key: []byte("k"),
		}},
		Pools: []Pool{{ID: "p", Persistence: &Persistence{Type: "SOURCE_IP"}, Monitor: &Monitor{ID: "m"}, Members: []Member{{ID: "m"}}}},
	}
	before, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	c := b.clone()
	c.VIPs[0] = netip.Addr{}
	l, p := &c.Listeners[0], &c.Pools[0]
	l.AllowedCIDRs[0], l.InsertHeaders["a"], l.Policies[0].Rules[0].Value = netip.Prefix{}, "x", "x"
	l.Certificate[0], l.Key[0], l.Policies[0].ID, l.ID = 'x', 'x', "x", "x"
	p.Persistence.Type, p.Monitor.ID, p.Members[0].ID, p.ID = "x", "x", "x", "x"
	if b.equal(c) || !b.equal(b.clone()) {
		t.Error("what is equal is not seen")
	}
	d := b.clone()
	if d.Pools[0].Members[0].Weight++; b.equal(d) {
		t.Error("another weight is not seen")
	}
	if after, err := json.Marshal(b); err != nil || string(after) != string(before) {
		t.Errorf("a change of the copy changed it: %s, %v", after, err)
	}
}
