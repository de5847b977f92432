package openstack_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"

	"proxylab/lab/lbaas/openstack"
)

// memory is a State.
type memory struct {
	mu   sync.Mutex
	text []byte
}

func (m *memory) Load() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text, nil
}

func (m *memory) Save(text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = bytes.Clone(text)
	return nil
}

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func testNetworks() []openstack.Network {
	return []openstack.Network{
		{Name: "private", Subnets: []openstack.Subnet{
			{Name: "private-subnet", CIDR: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.1")},
			{Name: "private6-subnet", CIDR: netip.MustParsePrefix("fd00:1::/64")},
		}},
		{Name: "public", External: true, Subnets: []openstack.Subnet{{Name: "public-subnet", CIDR: netip.MustParsePrefix("10.2.0.0/29"),
			First: netip.MustParseAddr("10.2.0.3"), Last: netip.MustParseAddr("10.2.0.4")}}},
	}
}

// serve starts a cloud. The address is where both services are.
func serve(t *testing.T, o openstack.Options) (*openstack.Cloud, string) {
	t.Helper()
	if o.Networks == nil {
		o.Networks = testNetworks()
	}
	c, err := openstack.New(o)
	if err != nil {
		t.Fatal(err)
	}
	mount := func(prefix string, h http.Handler) http.Handler {
		return http.StripPrefix(prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := openstack.WithPrefix(r.Context(), prefix)
			if who, ok := c.Authenticate(r.Header.Get("X-Auth-Token")); ok {
				ctx = openstack.WithIdentity(ctx, who)
			}
			if r.URL.Path == "" {
				r.URL.Path = "/"
			}
			h.ServeHTTP(w, r.WithContext(ctx))
		}))
	}
	mux := http.NewServeMux()
	for _, prefix := range []string{"/identity", "/network"} {
		h := c.Identity()
		if prefix == "/network" {
			h = c.Network()
		}
		mux.Handle(prefix, mount(prefix, h))
		mux.Handle(prefix+"/", mount(prefix, h))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, server.URL
}

func login(t *testing.T, url string, user, project string) *gophercloud.ProviderClient {
	t.Helper()
	p, err := gopenstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: url + "/identity", Username: user, Password: user, DomainID: "default",
		Scope: &gophercloud.AuthScope{ProjectName: project, DomainID: "default"},
	})
	if err != nil {
		t.Fatalf("%s logs in for %s: %v", user, project, err)
	}
	return p
}

func network(t *testing.T, p *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	t.Helper()
	c, err := gopenstack.NewNetworkV2(p, gophercloud.EndpointOpts{Region: "RegionOne"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func identity(t *testing.T, p *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	t.Helper()
	c, err := gopenstack.NewIdentityV3(p, gophercloud.EndpointOpts{Region: "RegionOne"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// status is the code of an answer that gophercloud did not want.
func status(err error) int {
	var wrong gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &wrong) {
		return wrong.Actual
	}
	return 0
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
