package lbaas_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/faults"
)

// fault puts faults on, in the words of the admin endpoint, and returns their names.
func (l *lab) fault(list string) []string {
	l.Helper()
	var out struct{ On []string }
	if err := json.Unmarshal([]byte(l.admin("POST", "/faults", `{"faults": [`+list+`]}`, 200)), &out); err != nil {
		l.Fatal(err)
	}
	return out.On
}

// TestFaultStatus has each error as the answer to the k-th request, and to no other.
func TestFaultStatus(t *testing.T) {
	for _, code := range faults.Statuses {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			l := serve(t, lbaas.Options{})
			c := l.client("demo")
			events := l.events()
			l.fault(fmt.Sprintf(`{"name": "f", "operation": "loadbalancer.create", "nth": 2, "status": %d}`, code))
			for i := 1; i <= 3; i++ {
				_, err := create(t.Context(), c, fmt.Sprint(i))
				if want := map[bool]int{true: code}[i == 2]; status(err) != want {
					t.Errorf("request %d: %v, want %d", i, err, want)
				}
				if made, want := l.named(c, fmt.Sprint(i)), map[bool]int{true: 1}[i != 2]; made != want {
					t.Errorf("request %d has made %d balancers, want %d", i, made, want)
				}
			}
			call := l.await(events, "the call", func(e lbaas.Event) bool { return e.Call != nil && e.Call.Fault == "f" }).Call
			if call.Status != code || call.Operation != "loadbalancer.create" {
				t.Errorf("%+v", call)
			}
		})
	}
}

// TestFaultSelection counts requests of all operations that the pattern fits.
func TestFaultSelection(t *testing.T) {
	for _, test := range []struct{ selection, want string }{
		{`"nth": 3`, "..X....."},
		{`"every": 3`, "..X..X.."},
		{`"every": 2, "count": 2`, ".X.X...."},
		{`"count": 2`, "XX......"},
		{`"share": 1`, "XXXXXXXX"},
		{`"share": 1, "count": 1`, "X......."},
	} {
		l := serve(t, lbaas.Options{})
		l.fault(`{"operation": "loadbalancer.l* pool.list", "status": 500, ` + test.selection + `}`)
		got := ""
		for i := range 8 {
			path := []string{"/v2.0/lbaas/loadbalancers", "/v2.0/lbaas/pools"}[i%2]
			l.get("/v2.0/lbaas/listeners") // not counted
			code, _ := l.get(path)
			got += map[int]string{200: ".", 500: "X"}[code]
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.selection, got, test.want)
		}
		var on []faults.State
		if err := json.Unmarshal([]byte(l.admin("GET", "/faults", "", 200)), &on); err != nil || len(on) != 1 || on[0].Seen != 8 || on[0].Struck != strings.Count(test.want, "X") {
			t.Errorf("%s: %+v %v", test.selection, on, err)
		}
	}
}

// TestFaultShapes are those of each service, and of what stands in front of it.
func TestFaultShapes(t *testing.T) {
	l := serve(t, lbaas.Options{})
	for _, test := range []struct {
		operation, path string
		status          int
		want            string
	}{
		{"loadbalancer.list", "/v2.0/lbaas/loadbalancers", 401, `"code":401`},
		{"loadbalancer.show", "/v2.0/lbaas/loadbalancers/6c3f7bb1-1111-4444-8888-000000000001", 409,
			`"faultstring":"Load Balancer 6c3f7bb1-1111-4444-8888-000000000001 is immutable and cannot be updated."`},
		{"loadbalancer.list", "/v2.0/lbaas/loadbalancers", 500, `"faultcode":"Server"`},
		{"loadbalancer.list", "/v2.0/lbaas/loadbalancers", 503, `<html>`},
		{"port.list", "/v2.0/ports", 401, `"code":401`},
		{"port.list", "/v2.0/ports", 500, `"NeutronError"`},
		{"project.list", "/projects", 500, `"title":"Internal Server Error"`},
	} {
		names := l.fault(fmt.Sprintf(`{"operation": %q, "status": %d}`, test.operation, test.status))
		if code, text := l.get(test.path); code != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s: %d %s, want %d with %s", test.path, code, text, test.status, test.want)
		}
		l.admin("DELETE", "/faults/"+names[0], "", 200)
		if code, text := l.get(test.path); code == test.status {
			t.Errorf("%s: the fault was put off: %d %s", test.path, code, text)
		}
	}
}

// TestFaultLatency delays answers, before or after the request is carried out.
func TestFaultLatency(t *testing.T) {
	l := serve(t, lbaas.Options{})
	c := l.client("demo")
	l.fault(`{"operation": "loadbalancer.list", "latency": "150ms", "jitter": "50ms"}`)
	begin := time.Now()
	l.named(c, "x")
	if took := time.Since(begin); took < 150*time.Millisecond {
		t.Errorf("the answer came after %s", took)
	}
	for name, commit := range map[string]bool{"before": false, "after": true} {
		l.admin("DELETE", "/faults", "", 200)
		l.fault(fmt.Sprintf(`{"operation": "loadbalancer.create", "latency": "1h", "afterCommit": %v}`, commit))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := create(ctx, c, name)
		cancel()
		if err == nil {
			t.Errorf("%s: the client got an answer", name)
		}
		if made, want := l.named(c, name), map[bool]int{true: 1}[commit]; made != want {
			t.Errorf("%s: %d balancers, want %d", name, made, want)
		}
	}
}

// TestFaultAfterCommit loses answers, not what was asked for.
func TestFaultAfterCommit(t *testing.T) {
	for _, test := range []struct {
		effect string
		made   int
		status int
	}{
		{`"status": 504, "afterCommit": true`, 1, 504},
		{`"drop": true, "afterCommit": true`, 1, 0},
		{`"drop": true`, 0, 0},
	} {
		l := serve(t, lbaas.Options{})
		c := l.client("demo")
		l.fault(`{"operation": "loadbalancer.create", "count": 1, ` + test.effect + `}`)
		_, err := create(t.Context(), c, "it")
		if err == nil || status(err) != test.status {
			t.Errorf("%s: %v", test.effect, err)
		}
		if made := l.named(c, "it"); made != test.made {
			t.Errorf("%s: %d balancers, want %d", test.effect, made, test.made)
		}
	}
}

// TestFaultDropOthers: a dropped connection is one client's.
func TestFaultDropOthers(t *testing.T) {
	l := serve(t, lbaas.Options{})
	c := l.client("demo")
	l.fault(`{"operation": "token.create", "drop": true}`)
	if _, err := gopenstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: l.url + "/identity", Username: "demo", Password: "demo", DomainID: "default", TenantName: "demo"}); err == nil {
		t.Error("logged in")
	}
	l.named(c, "x")
}

// TestFaultPending holds what was asked for, for a time or until the fault is put off.
func TestFaultPending(t *testing.T) {
	l := serve(t, lbaas.Options{})
	ctx, c := t.Context(), l.client("demo")
	l.fault(`{"operation": "loadbalancer.create", "nth": 1, "pending": "300ms"}`)
	begin := time.Now()
	l.active(c, "later")
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("it was ACTIVE after %s", took)
	}

	lb := l.active(c, "stuck")
	names := l.fault(`{"operation": "listener.create", "pending": "forever"}`)
	if _, err := listeners.Create(ctx, c, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: 80}).Extract(); err != nil {
		t.Fatal(err)
	}
	l.eventually("the fault strikes", func() (bool, any) {
		text := l.admin("GET", "/faults", "", 200)
		return strings.Contains(text, `"struck":1`), text
	})
	if got := l.becomes(c, lb.ID, "PENDING_UPDATE"); got == nil {
		t.Error("it is not PENDING_UPDATE")
	}
	if err := loadbalancers.Delete(ctx, c, lb.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(); status(err) != http.StatusConflict {
		t.Errorf("it can be deleted: %v", err)
	}
	l.admin("DELETE", "/faults/"+names[0], "", 200)
	l.becomes(c, lb.ID, "ACTIVE")

	// By hand, and badly.
	l.fault(`{"operation": "loadbalancer.update", "pending": "forever"}`)
	name := "renamed"
	if _, err := loadbalancers.Update(ctx, c, lb.ID, loadbalancers.UpdateOpts{Name: &name}).Extract(); err != nil {
		t.Fatal(err)
	}
	l.admin("POST", "/settle/"+lb.ID+"?error=true", "", 204)
	l.becomes(c, lb.ID, "ERROR")
	l.admin("POST", "/settle/nosuch", "", 404)
}

// TestFaultError ends in ERROR, which only a delete or a failover leaves.
func TestFaultError(t *testing.T) {
	l := serve(t, lbaas.Options{})
	c := l.client("demo")
	l.fault(`{"operation": "loadbalancer.create", "count": 1, "error": true}`)
	lb, err := create(t.Context(), c, "bad")
	if err != nil {
		t.Fatal(err)
	}
	l.becomes(c, lb.ID, "ERROR")
	name := "x"
	if _, err := loadbalancers.Update(t.Context(), c, lb.ID, loadbalancers.UpdateOpts{Name: &name}).Extract(); status(err) != http.StatusConflict {
		t.Errorf("it is updated: %v", err)
	}
	if err := loadbalancers.Delete(t.Context(), c, lb.ID, nil).ExtractErr(); err != nil {
		t.Error(err)
	}
	l.becomes(c, lb.ID, "DELETED")
	l.active(c, "good")
}

// TestFaultCloud changes what the cloud can do, until all is well again.
func TestFaultCloud(t *testing.T) {
	l := serve(t, lbaas.Options{Quota: map[string]int{"listener": 7}})
	ctx, c := t.Context(), l.client("demo")
	current := func() string {
		var out struct{ Versions []struct{ ID, Status string } }
		_, text := l.get("/load-balancer/")
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out.Versions[len(out.Versions)-1].ID
	}
	newest := current()
	l.admin("POST", "/faults", `{"version": "v2.10", "quota": {"loadbalancer": 1}, "provider": {"batchMembers": false, "monitors": false, "udp": false}}`, 200)
	if got := current(); got != "v2.10" {
		t.Errorf("version %s is advertised", got)
	}
	lb := l.active(c, "first")
	if _, err := create(ctx, c, "second"); status(err) != http.StatusForbidden || !strings.Contains(err.Error(), "Quota has been met for resources: Load Balancer") {
		t.Errorf("beyond the quota: %v", err)
	}
	pool, err := pools.Create(ctx, c, pools.CreateOpts{LoadbalancerID: lb.ID, Protocol: "TCP", LBMethod: pools.LBMethodRoundRobin}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	l.becomes(c, lb.ID, "ACTIVE")
	lacks := func() map[string]error {
		_, udp := listeners.Create(ctx, c, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "UDP", ProtocolPort: 53}).Extract()
		l.becomes(c, lb.ID, "ACTIVE")
		batch := pools.BatchUpdateMembers(ctx, c, pool.ID, []pools.BatchUpdateMemberOpts{{Address: "127.0.0.1", ProtocolPort: 1}}).ExtractErr()
		l.becomes(c, lb.ID, "ACTIVE")
		_, monitor := monitors.Create(ctx, c, monitors.CreateOpts{PoolID: pool.ID, Type: "TCP", Delay: 1, Timeout: 1, MaxRetries: 1}).Extract()
		l.becomes(c, lb.ID, "ACTIVE")
		return map[string]error{"udp": udp, "batch": batch, "monitor": monitor}
	}
	for what, err := range lacks() {
		if status(err) != http.StatusNotImplemented {
			t.Errorf("%s: %v, want 501", what, err)
		}
	}
	l.admin("DELETE", "/faults", "", 200)
	for what, err := range lacks() {
		if err != nil {
			t.Errorf("all is well, and %s: %v", what, err)
		}
	}
	l.active(c, "second")
	if got := current(); got != newest {
		t.Errorf("version %s is advertised, want %s", got, newest)
	}
	var info lbaas.Info
	if err := json.Unmarshal([]byte(l.admin("GET", "/", "", 200)), &info); err != nil || info.Quota["listener"] != 7 || info.Quota["load_balancer"] != 0 {
		t.Errorf("%+v %v", info, err)
	}
}

// TestFaultSomebodyElse edits and deletes behind the client's back, by itself and after an operation.
func TestFaultSomebodyElse(t *testing.T) {
	l := serve(t, lbaas.Options{})
	ctx, c := t.Context(), l.client("demo")
	one, two := member(t, "one"), member(t, "two")
	lb := l.balancer(c, "kube_a", 80, one, two)
	l.balancer(c, "kube_b", 80, one)
	members := func() []string {
		got, err := loadbalancers.GetStatuses(ctx, c, lb.ID).Extract()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range got.Loadbalancer.Listeners[0].Pools[0].Members {
			names = append(names, m.Name)
		}
		return names
	}
	l.fault(`{"delete": {"kind": "member", "name": "tw*"}}`)
	l.eventually("the member is gone", func() (bool, any) { got := members(); return fmt.Sprint(got) == "[one]", got })

	l.fault(`{"edit": {"kind": "listener", "name": "kube_a", "set": {"connection_limit": 5}}}`)
	id := lb.Listeners[0].ID
	l.eventually("the listener is edited", func() (bool, any) {
		got, err := listeners.Get(ctx, c, id).Extract()
		return err == nil && got.ConnLimit == 5, got
	})

	// After an operation that succeeds: not one that fails.
	l.fault(`{"operation": "listener.update", "delete": {"kind": "loadbalancer", "name": "kube_*"}}`)
	limit := 7
	if _, err := listeners.Update(ctx, c, "00000000-0000-0000-0000-000000000000", listeners.UpdateOpts{ConnLimit: &limit}).Extract(); status(err) != http.StatusNotFound {
		t.Fatal(err)
	}
	if got := l.named(c, "kube_a"); got != 1 {
		t.Error("it was deleted after a request that failed")
	}
	if _, err := listeners.Update(ctx, c, id, listeners.UpdateOpts{ConnLimit: &limit}).Extract(); err != nil {
		t.Fatal(err)
	}
	l.becomes(c, lb.ID, "DELETED")
	l.eventually("the other one is gone too", func() (bool, any) { n := l.named(c, "kube_b"); return n == 0, n })
	pages, err := ports.List(network(t, l), nil).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := ports.ExtractPorts(pages); len(left) != 0 {
		t.Errorf("ports are left: %v", left)
	}

	events := l.events()
	l.fault(`{"name": "none", "delete": {"kind": "pool", "name": "nosuch"}}`)
	l.await(events, "the fault says that it found nothing", func(e lbaas.Event) bool { return e.Fault != nil && e.Fault.Name == "none" && e.Fault.What == "failed" })
}

func network(t *testing.T, l *lab) *gophercloud.ServiceClient {
	t.Helper()
	c, err := gopenstack.NewNetworkV2(l.provider("demo"), gophercloud.EndpointOpts{Region: "RegionOne"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFaultFlap takes a member out of the traffic and back.
func TestFaultFlap(t *testing.T) {
	l := serve(t, lbaas.Options{Instances: instances("lb1")})
	ctx, c := t.Context(), l.client("demo")
	port := freePort(t)
	lb := l.balancer(c, "web", port, member(t, "one"), member(t, "two"))
	address := fmt.Sprintf("%s:%d", lb.VipAddress, port)
	state := func() string {
		got, err := loadbalancers.GetStatuses(ctx, c, lb.ID).Extract()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Loadbalancer.Listeners[0].Pools[0].Members {
			if m.Name == "two" {
				return m.OperatingStatus
			}
		}
		return ""
	}
	events := l.events()
	names := l.fault(`{"flap": {"member": "two", "down": "1h"}}`)
	l.await(events, "down", func(e lbaas.Event) bool { return e.Fault != nil && e.Fault.What == "down" })
	l.eventually("it is in ERROR", func() (bool, any) { s := state(); return s == "ERROR", s })
	l.eventually("it gets no traffic", func() (bool, any) { got := l.answers(address, 4); return got["one"] == 4, got })
	l.admin("DELETE", "/faults/"+names[0], "", 200)
	l.await(events, "up", func(e lbaas.Event) bool { return e.Fault != nil && e.Fault.What == "up" })
	l.eventually("it gets traffic again", func() (bool, any) { got := l.answers(address, 4); return got["two"] == 2, got })

	l.fault(`{"name": "again", "count": 3, "flap": {"member": "t*", "down": "10ms", "up": "10ms"}}`)
	for range 3 {
		l.await(events, "down", func(e lbaas.Event) bool { return e.Fault != nil && e.Fault.Name == "again" && e.Fault.What == "down" })
		l.await(events, "up", func(e lbaas.Event) bool { return e.Fault != nil && e.Fault.Name == "again" && e.Fault.What == "up" })
	}
}
