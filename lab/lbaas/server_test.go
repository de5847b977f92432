package lbaas_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/openstack"
	"proxylab/lab/lbaas/plane"
)

// TestMain is an instance of the data plane when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == plane.InstanceCommand {
		c := plane.Commands()[0]
		c.SetArgs(os.Args[2:])
		if err := c.ExecuteContext(context.Background()); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// instances carry traffic in processes of their own, as those of the product do.
func instances(names ...string) *lbaas.Instances {
	return &lbaas.Instances{Names: names, Start: func(ctx context.Context, name string) (plane.Process, error) {
		cmd := exec.CommandContext(ctx, os.Args[0], plane.InstanceCommand, "--name", name)
		cmd.Stderr = os.Stderr
		return plane.StartCommand(cmd, (*exec.Cmd).Start)
	}}
}

// lab is a server in a test.
type lab struct {
	*testing.T
	*lbaas.Server
	url string
}

func serve(t *testing.T, o lbaas.Options) *lab {
	t.Helper()
	s, err := lbaas.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &lab{t, s, server.URL}
}

// client is one of the load balancer service, with Keystone.
func (l *lab) client(user string) *gophercloud.ServiceClient {
	l.Helper()
	c, err := gopenstack.NewLoadBalancerV2(l.provider(user), gophercloud.EndpointOpts{Region: "RegionOne"})
	if err != nil {
		l.Fatal(err)
	}
	return c
}

func (l *lab) provider(user string) *gophercloud.ProviderClient {
	l.Helper()
	p, err := gopenstack.AuthenticatedClient(l.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: l.url + "/identity", Username: user, Password: user, DomainID: "default", TenantName: "demo",
	})
	if err != nil {
		l.Fatal(err)
	}
	return p
}

var (
	privateSubnet = openstack.StableID("subnet", "private-subnet")
	publicNetwork = openstack.StableID("network", "public")
)

func create(ctx context.Context, c *gophercloud.ServiceClient, name string) (*loadbalancers.LoadBalancer, error) {
	return loadbalancers.Create(ctx, c, loadbalancers.CreateOpts{Name: name, VipSubnetID: privateSubnet}).Extract()
}

// named counts the balancers with a name.
func (l *lab) named(c *gophercloud.ServiceClient, name string) int {
	l.Helper()
	pages, err := loadbalancers.List(c, loadbalancers.ListOpts{Name: name}).AllPages(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	list, err := loadbalancers.ExtractLoadBalancers(pages)
	if err != nil {
		l.Fatal(err)
	}
	return len(list)
}

// status is the code of an answer that gophercloud did not want.
func status(err error) int {
	var wrong gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &wrong) {
		return wrong.Actual
	}
	return 0
}

// eventually asks again until it is so.
func (l *lab) eventually(what string, ok func() (bool, any)) {
	l.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		yes, state := ok()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("%s: not so: %+v", what, state)
		}
	}
}

func (l *lab) becomes(c *gophercloud.ServiceClient, id, provisioning string) *loadbalancers.LoadBalancer {
	l.Helper()
	var got *loadbalancers.LoadBalancer
	l.eventually("balancer becomes "+provisioning, func() (bool, any) {
		lb, err := loadbalancers.Get(l.Context(), c, id).Extract()
		if err != nil {
			return provisioning == "DELETED" && status(err) == http.StatusNotFound, err
		}
		got = lb
		return lb.ProvisioningStatus == provisioning, lb.ProvisioningStatus
	})
	return got
}

func (l *lab) active(c *gophercloud.ServiceClient, name string) *loadbalancers.LoadBalancer {
	l.Helper()
	lb, err := create(l.Context(), c, name)
	if err != nil {
		l.Fatal(err)
	}
	return l.becomes(c, lb.ID, "ACTIVE")
}

// admin asks the admin endpoint, and wants a status.
func (l *lab) admin(method, path, body string, want int) string {
	l.Helper()
	r, err := http.NewRequestWithContext(l.Context(), method, l.url+"/proxylab"+path, strings.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != want {
		l.Fatalf("%s %s %s: %d %s, want %d", method, path, body, resp.StatusCode, text, want)
	}
	return string(text)
}

// events are those from now on.
func (l *lab) events() <-chan lbaas.Event {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/proxylab/events", nil)
	if err != nil {
		l.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	out := make(chan lbaas.Event, 10_000)
	go func() {
		defer close(out)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			var e lbaas.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				l.Error(err)
				return
			}
			out <- e
		}
	}()
	l.Cleanup(func() {
		cancel()
		resp.Body.Close()
	})
	return out
}

func (l *lab) await(events <-chan lbaas.Event, what string, is func(lbaas.Event) bool) lbaas.Event {
	l.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				l.Fatalf("%s: the events have ended", what)
			}
			if is(e) {
				return e
			}
		case <-limit:
			l.Fatalf("%s: no such event", what)
		}
	}
}

// get asks at / , without a token.
func (l *lab) get(path string, headers ...string) (int, string) {
	l.Helper()
	r, err := http.NewRequestWithContext(l.Context(), http.MethodGet, l.url+path, nil)
	if err != nil {
		l.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

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
		return strings.Contains(written.String(), `"id":"`+lb.ID+`","name":"told","balancer":"`+lb.ID+`","field":"provisioning_status","from":"PENDING_CREATE","to":"ACTIVE"`), written.String()
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

// member is a server that says its name.
func member(t *testing.T, name string) pools.BatchUpdateMemberOpts {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	return pools.BatchUpdateMemberOpts{Name: &name, Address: "127.0.0.1", ProtocolPort: port}
}

// freePort is one that nobody has at any address.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// balancer makes a whole one with members, in one request.
func (l *lab) balancer(c *gophercloud.ServiceClient, name string, port int, members ...pools.BatchUpdateMemberOpts) *loadbalancers.LoadBalancer {
	l.Helper()
	list := make([]pools.CreateMemberOpts, len(members))
	for i, m := range members {
		list[i] = pools.CreateMemberOpts{Name: *m.Name, Address: m.Address, ProtocolPort: m.ProtocolPort}
	}
	lb, err := loadbalancers.Create(l.Context(), c, loadbalancers.CreateOpts{Name: name, VipSubnetID: privateSubnet, Listeners: []listeners.CreateOpts{{
		Name: name, Protocol: listeners.ProtocolTCP, ProtocolPort: port,
		DefaultPool: &pools.CreateOpts{Name: name, Protocol: pools.ProtocolTCP, LBMethod: pools.LBMethodRoundRobin, Members: list},
	}}}).Extract()
	if err != nil {
		l.Fatal(err)
	}
	return l.becomes(c, lb.ID, "ACTIVE")
}

// answers are those of n requests, each with a connection of its own.
func (l *lab) answers(address string, n int) map[string]int {
	out := map[string]int{}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for range n {
		resp, err := client.Get("http://" + address)
		if err != nil {
			out[err.Error()]++
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		out[string(text)]++
	}
	return out
}

// TestTraffic is carried from VIPs and floating IPs to members, over a killed instance and a restart.
func TestTraffic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	port := freePort(t)
	one, two := member(t, "one"), member(t, "two")
	both := func(l *lab, address string) {
		l.Helper()
		l.eventually("both members answer at "+address, func() (bool, any) {
			got := l.answers(address, 4)
			return got["one"] == 2 && got["two"] == 2, got
		})
	}
	var lb *loadbalancers.LoadBalancer
	var floating *floatingips.FloatingIP
	t.Run("before", func(t *testing.T) {
		l := serve(t, lbaas.Options{State: path, Instances: instances("lb1", "lb2")})
		c := l.client("demo")
		lb = l.balancer(c, "web", port, one, two)
		both(l, fmt.Sprintf("%s:%d", lb.VipAddress, port))

		network, err := gopenstack.NewNetworkV2(l.provider("demo"), gophercloud.EndpointOpts{Region: "RegionOne"})
		if err != nil {
			t.Fatal(err)
		}
		if floating, err = floatingips.Create(t.Context(), network, floatingips.CreateOpts{FloatingNetworkID: publicNetwork, PortID: lb.VipPortID}).Extract(); err != nil {
			t.Fatal(err)
		}
		both(l, fmt.Sprintf("%s:%d", floating.FloatingIP, port))

		events := l.events()
		l.admin("POST", "/faults", `{"faults": [{"kill": "active"}]}`, 200)
		f := l.await(events, "failover", func(e lbaas.Event) bool { return e.Failover != nil }).Failover
		if f.From == f.To || f.Cause != plane.Killed {
			t.Errorf("failover %+v", f)
		}
		both(l, fmt.Sprintf("%s:%d", lb.VipAddress, port))
		both(l, fmt.Sprintf("%s:%d", floating.FloatingIP, port))
	})
	t.Run("after", func(t *testing.T) {
		l := serve(t, lbaas.Options{State: path, Instances: instances("lb1")})
		both(l, fmt.Sprintf("%s:%d", lb.VipAddress, port))
		both(l, fmt.Sprintf("%s:%d", floating.FloatingIP, port))
	})
}
