package lbaas_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

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
