package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"proxylab/bench/events"
)

// balancing are the events of a scenario with load balancers: two Services of type LoadBalancer, of which one lost a member and one
// is still being made, a failover, and an API that is slow and wrong at times.
func balancing(began time.Time) []events.Event {
	var list []events.Event
	at := began
	tell := func(e events.Event) {
		at = at.Add(200 * time.Millisecond)
		e.Time, e.Subject = at, &events.Subject{Proxier: "iptables", Backend: "nft", Repetition: 1}
		list = append(list, e)
	}
	became := func(s events.LBState, provisioning, operating string) {
		s.Status, s.To = "provisioning", provisioning
		first := s
		tell(events.Event{LBState: &first})
		s.Status, s.To = "operating", operating
		tell(events.Event{LBState: &s})
	}
	call := func(operation string, times, code int, seconds float64) {
		for i := range times {
			tell(events.Event{LBCall: &events.LBCall{Operation: operation, Code: code, Seconds: seconds * float64(i+1)}})
		}
	}
	for i, svc := range []string{"web", "shop"} {
		id := fmt.Sprintf("%c4a5b1d0-0000-4000-8000-00000000000%d", 'a'+i, i)
		became(events.LBState{Kind: "loadbalancer", ID: id, Name: "kube_service_lab_default_" + svc, Balancer: id, Address: fmt.Sprintf("10.10.0.%d", 128+i)},
			[]string{"ACTIVE", "PENDING_CREATE"}[i], []string{"DEGRADED", "OFFLINE"}[i])
		if i > 0 {
			break
		}
		became(events.LBState{Kind: "pool", ID: "p" + svc, Name: "pool_0_kube_service_lab_default_" + svc, Balancer: id}, "ACTIVE", "DEGRADED")
		became(events.LBState{Kind: "healthmonitor", ID: "h" + svc, Name: "monitor_0_" + svc, Balancer: id}, "ACTIVE", "ONLINE")
		became(events.LBState{Kind: "listener", ID: "l" + svc, Name: "listener_0_kube_service_lab_default_" + svc, Balancer: id, Address: "TCP:80"}, "ACTIVE", "ONLINE")
		for n, state := range []string{"ONLINE", "ERROR", "ONLINE", "NO_MONITOR"} {
			became(events.LBState{Kind: "member", ID: fmt.Sprintf("m%d%s", n, svc), Name: fmt.Sprintf("node%d", n+1), Balancer: id, Pool: "p" + svc,
				Address: fmt.Sprintf("10.10.0.%d:30080", 11+n)}, "ACTIVE", state)
		}
		tell(events.Event{LBState: &events.LBState{Kind: "member", ID: "m3" + svc, Status: "provisioning", From: "PENDING_DELETE", To: gone}})
	}
	call("loadbalancers.show", 9, 200, 0.004)
	call("loadbalancers.create", 2, 201, 0.08)
	call("listeners.create", 1, 201, 0.05)
	call("pools.create", 1, 201, 0.05)
	call("members.batch", 3, 202, 0.03)
	call("members.batch", 1, 503, 0.001)
	call("tokens.create", 1, 201, 0.01)
	address := 1.18
	tell(events.Event{LBPublished: &events.LBPublished{Service: "default/web", Created: true, Address: "10.10.0.128:80", AddressSeconds: &address, Seconds: 1.42}})
	tell(events.Event{LBPublished: &events.LBPublished{Service: "default/shop", Created: true, Seconds: 10, Error: "no answer"}})
	lost, kept := 3, 17
	tell(events.Event{LBFailover: &events.LBFailover{From: "lb1", To: "lb2", Reason: "killed", Seconds: 0.46, FlowsLost: &lost, FlowsKept: &kept}})
	tell(events.Event{LBFailover: &events.LBFailover{From: "lb2", Reason: "killed", Seconds: 0}})
	tell(events.Event{LBFault: &events.LBFault{Name: "busy", What: "struck", Text: "members.batch answered 503, the 2nd time"}})
	tell(events.Event{NodeChange: &events.NodeChange{Node: "node4", What: "removed"}})
	return list
}

func balancingAt(t testing.TB, w, h int) *model {
	source := stillAt(t, 60*time.Second)
	source.state.Add(balancing(source.state.Began.Add(30 * time.Second))...)
	m := sized(source, Options{}, themeFor(termenv.Ascii), w, h)
	typed(m, "6")
	return m
}

func TestBalancers(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {160, 50}} {
		m := balancingAt(t, size[0], size[1])
		for _, part := range []string{"balancers", "calls", "times"} {
			frame := frameOf(m)
			fits(t, frame, size[0], size[1])
			same(t, fmt.Sprintf("lbaas-%s.%dx%d", part, size[0], size[1]), frame)
			if size[0] >= 110 { // all of it at once
				break
			}
			typed(m, "n")
		}
	}
}

func TestKeysOfBalancers(t *testing.T) {
	m := balancingAt(t, 80, 24)
	shows := func(want string) {
		t.Helper()
		if frame := frameOf(m); !strings.Contains(frame, want) {
			t.Errorf("%q is not shown:\n%s", want, frame)
		}
	}
	shows("Balancers  1 of 3")
	typed(m, "b")
	shows("3 of 3")
	typed(m, "n", "n")
	shows("API calls  2 of 3")
	typed(m, "/", "m", "e", "m", "b", "e", "r", "enter")
	shows("members.batch")
	if frame := frameOf(m); strings.Contains(frame, "tokens.create") {
		t.Errorf("not filtered:\n%s", frame)
	}
	typed(m, "/", "esc", "b", "/", "E", "R", "R", "O", "R", "enter")
	shows("node2") // with what it belongs to
	shows("pool_0 ")
	if frame := frameOf(m); strings.Contains(frame, "node1 ") {
		t.Errorf("not filtered:\n%s", frame)
	}
	typed(m, "/", "esc")
	m.Update(keyMsg("x"))
	small := balancingAt(t, 80, 14)
	before := frameOf(small)
	typed(small, "down", "pgdown")
	if frameOf(small) == before {
		t.Error("the tree does not scroll")
	}
	typed(small, "up", "pgup")
	if frameOf(small) != before {
		t.Error("the tree does not scroll back")
	}
}

// TestBalancersInAnyOrder: whatever states are told of, in whatever order, each thing stands in the tree once or not at all.
func TestBalancersInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Balancers
		id := rapid.SampledFrom([]string{"", "1", "2", "3", "4", "5"})
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			b.add(events.Event{LBState: &events.LBState{
				ID:   id.Filter(func(s string) bool { return s != "" }).Draw(t, "id"),
				Kind: rapid.SampledFrom([]string{"loadbalancer", "listener", "pool", "member", "l7rule"}).Draw(t, "kind"),
				Pool: id.Draw(t, "pool"), Balancer: id.Draw(t, "balancer"),
				Status: rapid.SampledFrom([]string{"provisioning", "operating"}).Draw(t, "status"),
				To:     rapid.SampledFrom([]string{"ACTIVE", "ONLINE", "ERROR", gone}).Draw(t, "to"),
			}})
			seen := map[*Balanced]bool{}
			var walk func(list []*Balanced, over *Balanced)
			walk = func(list []*Balanced, over *Balanced) {
				for _, o := range list {
					if seen[o] || o.over != over || b.byID[o.id] != o {
						t.Fatalf("%s stands twice, or where it does not know of", o.id)
					}
					seen[o] = true
					walk(o.Under, o)
				}
			}
			walk(b.Roots, nil)
			if len(seen) != len(b.byID) {
				t.Fatalf("%d in the tree, %d known", len(seen), len(b.byID))
			}
		}
	})
}

func TestFaultsAreSaidOnce(t *testing.T) {
	for want, f := range map[string]events.LBFault{
		"slow on: loadbalancer.create":            {Name: "slow", What: "on", Text: "on loadbalancer.create"},
		"slow struck: loadbalancer.create":        {Name: "slow", What: "struck", Text: "strike loadbalancer.create"},
		"busy struck: members.batch answered 503": {Name: "busy", What: "struck", Text: "members.batch answered 503"},
		"edit done": {Name: "edit", What: "done"},
		"edit done: the pool was edited out of band": {Name: "edit", What: "done", Text: "the pool was edited\nout of band"},
	} {
		if got := faultText(&f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
