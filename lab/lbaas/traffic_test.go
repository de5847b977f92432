package lbaas_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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

// TestNoTraffic says which listeners carry none, and why: there is no range of IPv6 that is this machine's.
func TestNoTraffic(t *testing.T) {
	l := serve(t, lbaas.Options{Instances: instances("lb1")})
	c, events := l.client("demo"), l.events()
	lb, err := loadbalancers.Create(t.Context(), c, loadbalancers.CreateOpts{Name: "six", VipSubnetID: openstack.StableID("subnet", "private6-subnet")}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	l.becomes(c, lb.ID, "ACTIVE")
	made, err := listeners.Create(t.Context(), c, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: freePort(t)}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	problem := l.await(events, "the problem", func(e lbaas.Event) bool { return e.Problem != nil }).Problem
	if problem.LoadBalancer != lb.ID || problem.Listener != made.ID || problem.Text == "" {
		t.Errorf("%+v", problem)
	}
}
