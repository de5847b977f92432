package lbaas_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"proxylab/lab/lbaas"
)

// TestLayouts makes a balancer with Keystone, and finds it at the bare port.
func TestLayouts(t *testing.T) {
	l := serve(t, lbaas.Options{})
	c := l.client("demo")
	lb := l.active(c, "one")
	if lb.VipAddress != "127.200.0.2" || lb.VipSubnetID != privateSubnet {
		t.Errorf("VIP %s in %s", lb.VipAddress, lb.VipSubnetID)
	}
	if code, text := l.get("/v2.0/lbaas/loadbalancers/" + lb.ID); code != 200 || !strings.Contains(text, `"one"`) {
		t.Errorf("at the bare port: %d %s", code, text)
	}
	for path, want := range map[string]int{
		"/": 200, "/load-balancer": 200, "/load-balancer/": 200, "/network/": 200, "/identity/": 300, "/identity/v3/": 200,
		"/load-balancer/v2.0/lbaas/loadbalancers": 401, "/network/v2.0/ports": 401, "/identity/v3/projects": 401,
		"/v2.0/lbaas/loadbalancers": 200, "/v2.0/ports": 200, "/v2/ports": 200, "/projects": 200, "/v2.0//lbaas/loadbalancers": 200,
		"/v2.0/nosuch": 404, "/nosuch": 404, "/proxylab/": 200, "/proxylab/nosuch": 404,
	} {
		if code, text := l.get(path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, text, want)
		}
	}
	// Links lead where the client came from.
	for path, want := range map[string]string{"/": l.url + "/v2", "/load-balancer/": l.url + "/load-balancer/v2", "/identity/v3": l.url + "/identity/v3/", "/network/": l.url + "/network/v2.0/"} {
		if _, text := l.get(path); !strings.Contains(text, `"`+want+`"`) {
			t.Errorf("%s has no link to %s: %s", path, want, text)
		}
	}
	if err := loadbalancers.Delete(t.Context(), c, lb.ID, nil).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	l.becomes(c, lb.ID, "DELETED")
	if again := l.active(c, "two"); again.VipAddress != "127.200.0.2" {
		t.Errorf("the address of a balancer that is gone is not free: %s", again.VipAddress)
	}
}

// TestRoles are Octavia's.
func TestRoles(t *testing.T) {
	l := serve(t, lbaas.Options{})
	ctx := t.Context()
	demo, viewer, admin := l.client("demo"), l.client("viewer"), l.client("admin")
	lb := l.active(demo, "mine")
	if _, err := loadbalancers.Get(ctx, viewer, lb.ID).Extract(); err != nil {
		t.Errorf("an observer does not see it: %v", err)
	}
	if _, err := create(ctx, viewer, "x"); status(err) != http.StatusForbidden {
		t.Errorf("an observer makes a balancer: %v", err)
	}
	if err := loadbalancers.Failover(ctx, demo, lb.ID).ExtractErr(); status(err) != http.StatusForbidden {
		t.Errorf("a member fails over: %v", err)
	}
	if err := loadbalancers.Failover(ctx, admin, lb.ID).ExtractErr(); err != nil {
		t.Errorf("an administrator does not fail over: %v", err)
	}
	l.becomes(admin, lb.ID, "ACTIVE")
}

// TestRestart has everything again from one file.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	var lb *loadbalancers.LoadBalancer
	t.Run("before", func(t *testing.T) {
		l := serve(t, lbaas.Options{State: path})
		lb = l.active(l.client("demo"), "kept")
	})
	t.Run("after", func(t *testing.T) {
		l := serve(t, lbaas.Options{State: path})
		c := l.client("demo")
		if got, err := loadbalancers.Get(t.Context(), c, lb.ID).Extract(); err != nil || got.VipAddress != lb.VipAddress || got.ProvisioningStatus != "ACTIVE" {
			t.Errorf("%+v %v", got, err)
		}
		if other := l.active(c, "other"); other.VipAddress == lb.VipAddress {
			t.Error("its address was given to another")
		}
	})
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lbaas.New(lbaas.Options{State: path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is no state: %v", err)
	}
}

// TestRestartTorn: the parts of a state are of different moments. No address is given twice, and no port is left.
func TestRestartTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	saved := func() (parts map[string]json.RawMessage) {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &parts)
		}
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	run := func(name string, f func(l *lab, c *gophercloud.ServiceClient)) map[string]json.RawMessage {
		t.Run(name, func(t *testing.T) {
			l := serve(t, lbaas.Options{State: path})
			f(l, l.client("demo"))
		})
		return saved()
	}
	empty := run("empty", func(*lab, *gophercloud.ServiceClient) {})
	var lb *loadbalancers.LoadBalancer
	full := run("full", func(l *lab, c *gophercloud.ServiceClient) { lb = l.active(c, "one") })
	for name, torn := range map[string][2]map[string]json.RawMessage{"port lost": {empty, full}, "balancer lost": {full, empty}} {
		parts := map[string]json.RawMessage{"openstack": torn[0]["openstack"]}
		if balancers, any := torn[1]["octavia"]; any {
			parts["octavia"] = balancers
		}
		text, err := json.Marshal(parts)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		run(name, func(l *lab, c *gophercloud.ServiceClient) {
			second := l.active(c, "two")
			if known := l.named(c, "one") == 1; known == (second.VipAddress == lb.VipAddress) {
				l.Errorf("the first is known: %v, and the second has %s", known, second.VipAddress)
			}
			_, text := l.get("/v2.0/ports?fields=id")
			if got, want := strings.Count(text, `"id"`), 1+l.named(c, "one"); got != want {
				l.Errorf("%d ports, want %d: %s", got, want, text)
			}
		})
	}
}

// TestEvents tells of calls and of states.
func TestEvents(t *testing.T) {
	var written syncBuffer
	l := serve(t, lbaas.Options{Events: &written})
	events := l.events()
	lb := l.active(l.client("demo"), "told")
	call := l.await(events, "the create", func(e lbaas.Event) bool { return e.Call != nil && e.Call.Operation == "loadbalancer.create" }).Call
	if call.Status != 201 || call.User != "demo" || call.Service != "load-balancer" || call.Method != "POST" || call.Path != "/load-balancer/v2.0/lbaas/loadbalancers" ||
		call.Seconds <= 0 || !strings.Contains(call.Client, "gophercloud") {
		t.Errorf("the create: %+v", call)
	}
	l.eventually("the change is told", func() (bool, any) {
		return strings.Contains(written.String(), `"id":"`+lb.ID+`","name":"told","balancer":"`+lb.ID+`","address":"`+lb.VipAddress+`","field":"provisioning_status","from":"PENDING_CREATE","to":"ACTIVE"`), written.String()
	})
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestFaultToken: a client whose token is refused once gets another.
func TestFaultToken(t *testing.T) {
	l := serve(t, lbaas.Options{})
	p, err := gopenstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{IdentityEndpoint: l.url + "/identity", Username: "demo", Password: "demo",
		DomainID: "default", TenantName: "demo", AllowReauth: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := gopenstack.NewLoadBalancerV2(p, gophercloud.EndpointOpts{Region: "RegionOne"})
	if err != nil {
		t.Fatal(err)
	}
	before := p.Token()
	l.fault(`{"operation": "loadbalancer.create", "nth": 1, "status": 401}`)
	l.active(c, "again")
	if p.Token() == before {
		t.Error("the client has its first token still")
	}
}
