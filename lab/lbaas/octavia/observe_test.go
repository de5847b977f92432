package octavia

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"proxylab/lab/lbaas/plane"
)

// stack is a balancer with a listener, a pool, two members and perhaps a monitor.
type stack struct{ lb, listener, pool, a, b string }

func (h *harness) stack(monitor bool) stack {
	h.Helper()
	var s stack
	s.lb = h.balancer()
	s.listener = h.make("listener", "listeners", obj{"loadbalancer_id": s.lb, "protocol": "TCP", "protocol_port": 80})
	s.pool = h.make("pool", "pools", obj{"listener_id": s.listener, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"})
	s.a = h.make("member", "pools/"+s.pool+"/members", obj{"address": "10.0.0.1", "protocol_port": 80})
	s.b = h.make("member", "pools/"+s.pool+"/members", obj{"address": "10.0.0.2", "protocol_port": 80})
	if monitor {
		h.make("healthmonitor", "healthmonitors", obj{"pool_id": s.pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1})
	}
	return s
}

// operating gives the states of balancer, listener, pool and members.
func (h *harness) operating(s stack) string {
	h.Helper()
	var out []string
	for _, path := range []string{"loadbalancers/" + s.lb, "listeners/" + s.listener, "pools/" + s.pool,
		"pools/" + s.pool + "/members/" + s.a, "pools/" + s.pool + "/members/" + s.b} {
		out = append(out, h.show(path)["operating_status"].(string))
	}
	return strings.Join(out, " ")
}

func TestOperatingStates(t *testing.T) {
	data := &recorder{}
	h := newHarness(t, Options{Manual: true, Apply: data.apply})
	s := h.stack(true)
	want := func(what, want string) {
		t.Helper()
		if got := h.operating(s); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	see := func(a, b string) {
		h.s.Observe([]plane.Status{{ID: s.lb, Members: map[string]string{s.a: a, s.b: b, "nobody": "ONLINE"}}, {ID: "nobody"}})
	}
	want("not asked yet", "ONLINE ONLINE ONLINE OFFLINE OFFLINE")
	see(plane.Online, plane.Online)
	want("all well", "ONLINE ONLINE ONLINE ONLINE ONLINE")
	see(plane.Online, plane.Error)
	want("one down", "DEGRADED ONLINE DEGRADED ONLINE ERROR")
	see(plane.Error, plane.Error)
	want("all down", "ERROR ONLINE ERROR ERROR ERROR")
	see(plane.Online, plane.Draining)
	want("draining", "ONLINE ONLINE ONLINE ONLINE DRAINING")
	see(plane.Online, plane.Online)
	h.do("PUT", "/v2.0/lbaas/pools/"+s.pool+"/members/"+s.a, obj{"member": obj{"admin_state_up": false}}, 200)
	h.settle()
	want("one switched off", "ONLINE ONLINE ONLINE OFFLINE ONLINE")
	h.s.Observe([]plane.Status{{ID: s.lb, Problems: map[string]string{s.listener: "address already in use"}}})
	want("does not listen", "ERROR ERROR ONLINE OFFLINE ONLINE")
	h.s.Observe([]plane.Status{{ID: s.lb}})
	want("listens again", "ONLINE ONLINE ONLINE OFFLINE ONLINE")
	h.do("PUT", "/v2.0/lbaas/loadbalancers/"+s.lb, obj{"loadbalancer": obj{"admin_state_up": false}}, 200)
	h.settle()
	want("balancer switched off", "OFFLINE ONLINE ONLINE OFFLINE ONLINE")
	monitor := h.show("pools/" + s.pool)["healthmonitor_id"].(string)
	h.do("DELETE", "/v2.0/lbaas/healthmonitors/"+monitor, nil, 204)
	h.settle()
	want("without monitor", "OFFLINE ONLINE ONLINE OFFLINE NO_MONITOR")
}

func TestStatesWithoutDataPlane(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	s := h.stack(false)
	if got := h.operating(s); got != "ONLINE ONLINE ONLINE NO_MONITOR NO_MONITOR" {
		t.Error(got)
	}
	h.make("healthmonitor", "healthmonitors", obj{"pool_id": s.pool, "type": "PING", "delay": 5, "timeout": 3, "max_retries": 1})
	h.do("PUT", "/v2.0/lbaas/pools/"+s.pool+"/members/"+s.a, obj{"member": obj{"weight": 0}}, 200)
	h.settle()
	if got := h.operating(s); got != "ONLINE ONLINE ONLINE DRAINING ONLINE" {
		t.Error(got)
	}
}

func TestStats(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	s := h.stack(false)
	other := h.make("listener", "listeners", obj{"loadbalancer_id": s.lb, "protocol": "TCP", "protocol_port": 81})
	h.s.Observe([]plane.Status{{ID: s.lb, Listeners: map[string]plane.Counters{
		s.listener: {ActiveConnections: 1, TotalConnections: 2, BytesIn: 3, BytesOut: 4, RequestErrors: 5},
		other:      {ActiveConnections: 10, TotalConnections: 20, BytesIn: 30, BytesOut: 40, RequestErrors: 50},
	}}})
	want := map[string]any{"active_connections": 11.0, "total_connections": 22.0, "bytes_in": 33.0, "bytes_out": 44.0, "request_errors": 55.0}
	if d := cmp.Diff(want, h.show("loadbalancers/"+s.lb+"/stats")); d != "" {
		t.Error(d)
	}
	if got := h.show("listeners/" + other + "/stats")["bytes_in"]; got != 30.0 {
		t.Error(got)
	}
}

func TestBehindTheBack(t *testing.T) {
	data := &recorder{}
	h := newHarness(t, Options{Manual: true, Apply: data.apply})
	s := h.stack(true)
	h.s.Observe([]plane.Status{{ID: s.lb, Members: map[string]string{s.a: plane.Online, s.b: plane.Online}}})
	told := func(what string, is func(plane.Balancer) bool) {
		t.Helper()
		last := &pending{done: make(chan struct{})} // one more, after those that are under way
		h.s.mu.Lock()
		h.s.queue(last)
		h.s.mu.Unlock()
		<-last.done
		if got := data.last(t); len(got) != 1 || !is(got[0]) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if err := h.s.ForceMember(s.a, plane.Error); err != nil {
		t.Fatal(err)
	}
	if got := h.operating(s); got != "DEGRADED ONLINE DEGRADED ERROR ONLINE" {
		t.Error(got)
	}
	told("forced", func(b plane.Balancer) bool { return !b.Pools[0].Members[0].AdminUp && b.Pools[0].Members[1].AdminUp })
	if err := h.s.ForceMember(s.a, ""); err != nil {
		t.Fatal(err)
	}
	if got := h.operating(s); got != "ONLINE ONLINE ONLINE ONLINE ONLINE" {
		t.Error(got)
	}
	if err := h.s.Edit(s.b, map[string]any{"weight": 9, "protocol_port": 8080}); err != nil {
		t.Fatal(err)
	}
	if got := h.states("loadbalancers/" + s.lb); got != "ACTIVE ONLINE" {
		t.Error(got)
	}
	told("edited", func(b plane.Balancer) bool {
		m := b.Pools[0].Members[1]
		return m.Weight == 9 && m.Port == 8080 && b.Pools[0].Members[0].AdminUp
	})
	if err := h.s.Remove(s.pool); err != nil {
		t.Fatal(err)
	}
	if got := h.show("listeners/" + s.listener)["default_pool_id"]; got != nil {
		t.Error("the listener still names the pool that has gone")
	}
	told("removed", func(b plane.Balancer) bool { return len(b.Pools) == 0 && b.Listeners[0].DefaultPool == "" })
	if err := h.s.SetProvisioningStatus(s.lb, failed); err != nil {
		t.Fatal(err)
	}
	h.do("PUT", "/v2.0/lbaas/loadbalancers/"+s.lb, obj{"loadbalancer": obj{"name": "x"}}, 409)
	if got := h.s.Find(kindBalancer, "lb"); !cmp.Equal(got, []string{s.lb}) {
		t.Error(got)
	}
	for what, err := range map[string]error{
		"edit nothing": h.s.Edit("nobody", nil), "edit a stranger": h.s.Edit(s.lb, map[string]any{"bogus": 1}),
		"edit nonsense": h.s.Edit(s.listener, map[string]any{"protocol_port": 70000}), "remove nothing": h.s.Remove("nobody"),
		"force nothing": h.s.ForceMember(s.lb, "ERROR"), "force nonsense": h.s.ForceMember(s.a, "UP"),
		"no state": h.s.SetProvisioningStatus(s.lb, "FINE"), "nobody's state": h.s.SetProvisioningStatus("nobody", "ERROR"),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestRemovePending removes a balancer while an operation of it is under way: nothing waits any more, nothing is left.
func TestRemovePending(t *testing.T) {
	data := &recorder{}
	network := &ports{have: map[string]string{}}
	h := newHarness(t, Options{Manual: true, Apply: data.apply, Network: network})
	s := h.stack(false)
	h.do("PUT", "/v2.0/lbaas/listeners/"+s.listener, obj{"listener": obj{"name": "x"}}, 200)
	if err := h.s.SetProvisioningStatus(s.lb, active); err == nil {
		t.Error("a state was set while the balancer is pending")
	}
	if err := h.s.Remove(s.lb); err != nil {
		t.Fatal(err)
	}
	if n := len(h.s.Pending()); n != 0 {
		t.Error(n, "pending")
	}
	if len(network.have) != 0 {
		t.Error("ports are left:", network.have)
	}
	h.balancer()
	if got := data.last(t); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
