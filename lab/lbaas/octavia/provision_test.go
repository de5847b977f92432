package octavia

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxylab/lab/lbaas/plane"
)

func TestDelay(t *testing.T) {
	clock := newFakeClock()
	h := newHarness(t, Options{Clock: clock, Delay: func(o Operation) time.Duration {
		return map[string]time.Duration{"loadbalancer.create": 10 * time.Second, "listener.create": time.Second}[o.Name]
	}})
	lb := idOf(h.do("POST", "/v2/lbaas/loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet}}, 201), "loadbalancer")
	clock.advance(9 * time.Second)
	if got := h.states("loadbalancers/" + lb); got != "PENDING_CREATE OFFLINE" {
		t.Error(got)
	}
	clock.advance(time.Second)
	h.awaitState(lb, active)
	if got := h.states("loadbalancers/" + lb); got != "ACTIVE ONLINE" {
		t.Error(got)
	}
	body := h.do("POST", "/v2.0/lbaas/listeners", obj{"listener": obj{"loadbalancer_id": lb, "protocol": "TCP", "protocol_port": 80}}, 201)
	if got := h.states("loadbalancers/" + lb); got != "PENDING_UPDATE ONLINE" {
		t.Error(got)
	}
	if got := h.show("loadbalancers/" + lb)["updated_at"]; got != "2030-01-02T03:04:15.678901" {
		t.Error(got)
	}
	clock.advance(time.Second)
	h.awaitState(idOf(body, "listener"), online)
}

// faultOnce wants one outcome for one operation.
type faultOnce struct {
	mu      sync.Mutex
	outcome map[string]Outcome
	asked   []Operation
}

func (f *faultOnce) Provision(o Operation) Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, o)
	out := f.outcome[o.Name]
	delete(f.outcome, o.Name)
	return out
}

func TestFaults(t *testing.T) {
	clock := newFakeClock()
	fault := &faultOnce{outcome: map[string]Outcome{
		"loadbalancer.create": {Hold: time.Minute},
		"listener.create":     {Forever: true},
		"pool.create":         {Error: true},
	}}
	h := newHarness(t, Options{Clock: clock, Fault: fault})
	lb := idOf(h.do("POST", "/v2.0/lbaas/loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet}}, 201), "loadbalancer")
	clock.advance(0)
	clock.advance(59 * time.Second)
	if got := h.states("loadbalancers/" + lb); got != "PENDING_CREATE OFFLINE" {
		t.Error("held:", got)
	}
	clock.advance(time.Second)
	h.awaitState(lb, active)

	listener := idOf(h.do("POST", "/v2.0/lbaas/listeners",
		obj{"listener": obj{"loadbalancer_id": lb, "protocol": "TCP", "protocol_port": 80}}, 201), "listener")
	clock.advance(1000 * time.Hour)
	if got := h.states("listeners/" + listener); got != "PENDING_CREATE OFFLINE" {
		t.Error("held for ever:", got)
	}
	h.do("DELETE", "/v2.0/lbaas/loadbalancers/"+lb+"?cascade=true", nil, 409)
	if got := h.s.Pending()[lb].Name; got != "listener.create" {
		t.Error("pending:", got)
	}
	if err := h.s.Settle(lb, false); err != nil {
		t.Fatal(err)
	}
	if got := h.states("listeners/" + listener); got != "ACTIVE ONLINE" {
		t.Error("settled:", got)
	}
	if err := h.s.Settle(lb, false); err == nil {
		t.Error("nothing was pending")
	}

	pool := idOf(h.do("POST", "/v2.0/lbaas/pools",
		obj{"pool": obj{"listener_id": listener, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}}, 201), "pool")
	clock.advance(0)
	h.awaitState(lb, failed)
	for path, want := range map[string]string{"loadbalancers/" + lb: "ERROR ONLINE", "listeners/" + listener: "ERROR ONLINE", "pools/" + pool: "ERROR OFFLINE"} {
		if got := h.states(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	h.do("PUT", "/v2.0/lbaas/listeners/"+listener, obj{"listener": obj{"name": "x"}}, 409)
	h.do("PUT", "/v2.0/lbaas/loadbalancers/"+lb+"/failover", nil, 202)
	clock.advance(0)
	h.await("recovery", func(e Event) bool {
		return e.State != nil && e.State.ID == pool && e.State.From == failed && e.State.To == active
	})
	if got := h.states("listeners/" + listener); got != "ACTIVE ONLINE" {
		t.Error("after the failover:", got)
	}
}

func TestErrorIsDeletable(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	lb := idOf(h.do("POST", "/v2.0/lbaas/loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet}}, 201), "loadbalancer")
	if err := h.s.Settle(lb, true); err != nil {
		t.Fatal(err)
	}
	if got := h.states("loadbalancers/" + lb); got != "ERROR OFFLINE" {
		t.Error(got)
	}
	h.do("DELETE", "/v2.0/lbaas/loadbalancers/"+lb, nil, 204)
	if err := h.s.Settle(lb, true); err != nil { // the deletion fails too
		t.Fatal(err)
	}
	if got := h.states("loadbalancers/" + lb); got != "ERROR OFFLINE" {
		t.Error(got)
	}
	h.do("DELETE", "/v2.0/lbaas/loadbalancers/"+lb, nil, 204)
	h.settle()
	h.do("GET", "/v2.0/lbaas/loadbalancers/"+lb, nil, 404)
}

// recorder is a data plane that writes down what it is told.
type recorder struct {
	mu    sync.Mutex
	calls [][]plane.Balancer
	err   error
	then  func()
}

func (r *recorder) apply(_ context.Context, all []plane.Balancer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.then != nil {
		r.then()
	}
	r.calls = append(r.calls, all)
	return r.err
}

func (r *recorder) last(t *testing.T) []plane.Balancer {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == 0 {
		t.Fatal("the data plane was not told")
	}
	return r.calls[len(r.calls)-1]
}

func TestApply(t *testing.T) {
	data := &recorder{}
	h := newHarness(t, Options{Manual: true, Apply: data.apply})
	data.then = func() { h.do("GET", "/v2.0/lbaas/loadbalancers", nil, 200) } // the API answers meanwhile
	first, second := h.balancer(), h.balancer()
	if got := data.last(t); len(got) != 2 || got[0].ID != first || got[1].ID != second {
		t.Errorf("%+v", got)
	}
	listener := h.make("listener", "listeners", obj{"loadbalancer_id": first, "protocol": "TCP", "protocol_port": 80})
	h.do("POST", "/v2.0/lbaas/listeners", obj{"listener": obj{"loadbalancer_id": second, "protocol": "UDP", "protocol_port": 53}}, 201)
	h.do("PUT", "/v2.0/lbaas/listeners/"+listener, obj{"listener": obj{"connection_limit": 7}}, 200)
	if err := h.s.Settle(first, false); err != nil {
		t.Fatal(err)
	}
	got := data.last(t)
	if len(got[0].Listeners) != 1 || got[0].Listeners[0].ConnectionLimit != 7 {
		t.Errorf("%+v", got[0])
	}
	if len(got[1].Listeners) != 0 {
		t.Error("what is still pending of another balancer is there already")
	}
	data.err = errors.New("no")
	h.do("PUT", "/v2.0/lbaas/listeners/"+listener, obj{"listener": obj{"connection_limit": 8}}, 200)
	if err := h.s.Settle(first, false); err != nil {
		t.Fatal(err)
	}
	if got := h.states("loadbalancers/" + first); got != "ERROR ONLINE" {
		t.Error(got)
	}
	data.err = nil
	h.settle()
	if got := data.last(t); got[0].Listeners[0].ConnectionLimit != 7 || len(got[1].Listeners) != 1 {
		t.Errorf("%+v", got)
	}
	h.do("DELETE", "/v2.0/lbaas/loadbalancers/"+first+"?cascade=true", nil, 204)
	h.settle()
	if got := data.last(t); len(got) != 1 || got[0].ID != second {
		t.Errorf("%+v", got)
	}
}

// TestFailover moves a balancer, and one that cannot be moved ends in ERROR.
func TestFailover(t *testing.T) {
	var asked []string
	var err error
	h := newHarness(t, Options{Manual: true, Failover: func(_ context.Context, lb string) error {
		asked = append(asked, lb)
		return err
	}})
	lb := h.balancer()
	h.do("PUT", "/v2.0/lbaas/loadbalancers/"+lb+"/failover", nil, 202)
	h.settle()
	if got := h.states("loadbalancers/" + lb); got != "ACTIVE ONLINE" || !cmp.Equal(asked, []string{lb}) {
		t.Error(got, asked)
	}
	err = errors.New("no other instance")
	h.do("PUT", "/v2.0/lbaas/loadbalancers/"+lb+"/failover", "{}", 202)
	h.settle()
	if got := h.states("loadbalancers/" + lb); got != "ERROR ONLINE" {
		t.Error(got)
	}
}
