package openstack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

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

func TestLogin(t *testing.T) {
	now := &clock{at: time.Now()}
	c, url := serve(t, openstack.Options{Now: now.now, TokenTTL: time.Hour})
	ctx := t.Context()
	for _, wrong := range []gophercloud.AuthOptions{
		{Username: "demo", Password: "wrong", DomainID: "default", TenantName: "demo"},
		{Username: "nobody", Password: "demo", DomainID: "default", TenantName: "demo"},
		{Username: "demo", Password: "demo", DomainID: "other", TenantName: "demo"},
		{Username: "demo", Password: "demo", DomainID: "default", TenantName: "admin"},
		{Username: "demo", Password: "demo", DomainID: "default", TenantName: "nosuch"},
	} {
		wrong.IdentityEndpoint = url + "/identity"
		if _, err := gopenstack.AuthenticatedClient(ctx, wrong); status(err) != http.StatusUnauthorized {
			t.Errorf("%s/%s for %s: %v, want 401", wrong.Username, wrong.Password, wrong.TenantName, err)
		}
	}

	p := login(t, url, "demo", "demo")
	who, ok := c.Authenticate(p.TokenID)
	if !ok || who.UserName != "demo" || who.ProjectName != "demo" || who.ProjectID != c.ProjectID("demo") || who.Admin() {
		t.Errorf("the token is %+v, %v", who, ok)
	}
	id := identity(t, p)
	roles := must[[]tokens.Role](t)(tokens.Get(ctx, id, p.TokenID).ExtractRoles())
	if len(roles) != 3 || roles[2].Name != "load-balancer_member" {
		t.Errorf("roles %v", roles)
	}
	catalog := must[*tokens.ServiceCatalog](t)(tokens.Get(ctx, id, p.TokenID).ExtractServiceCatalog())
	if len(catalog.Entries) != 3 {
		t.Errorf("catalogue %v", catalog)
	}

	// By token: the same end.
	scoped, err := gopenstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: url + "/identity", TokenID: p.TokenID, TenantName: "demo", DomainID: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Authenticate(scoped.TokenID); !again.Expires.Equal(who.Expires) || again.UserName != "demo" {
		t.Errorf("a token by a token ends %s, the first %s", again.Expires, who.Expires)
	}

	// It ends by itself, and it can be ended.
	now.pass(59 * time.Minute)
	if _, ok := c.Authenticate(p.TokenID); !ok {
		t.Error("the token is not good for an hour")
	}
	other := login(t, url, "demo", "demo")
	now.pass(time.Minute)
	if _, ok := c.Authenticate(p.TokenID); ok {
		t.Error("the token is good for more than an hour")
	}
	if err := tokens.Revoke(ctx, identity(t, other), other.TokenID).Err; err != nil {
		t.Error(err)
	}
	if _, ok := c.Authenticate(other.TokenID); ok {
		t.Error("the token is good after it was revoked")
	}
	for _, forged := range []string{"", "x", p.TokenID[:len(p.TokenID)-2], "AAAA" + other.TokenID[4:]} {
		if _, ok := c.Authenticate(forged); ok {
			t.Errorf("%q is good", forged)
		}
	}
}

func TestApplicationCredential(t *testing.T) {
	c, url := serve(t, openstack.Options{})
	ctx := t.Context()
	p := login(t, url, "demo", "demo")
	id := identity(t, p)
	who, _ := c.Authenticate(p.TokenID)
	made := must[*applicationcredentials.ApplicationCredential](t)(applicationcredentials.Create(ctx, id, who.UserID,
		applicationcredentials.CreateOpts{Name: "robot", Roles: []applicationcredentials.Role{{Name: "reader"}}}).Extract())
	for what, o := range map[string]gophercloud.AuthOptions{
		"by id":   {ApplicationCredentialID: made.ID, ApplicationCredentialSecret: made.Secret},
		"by name": {ApplicationCredentialName: "robot", ApplicationCredentialSecret: made.Secret, Username: "demo", DomainID: "default"},
	} {
		o.IdentityEndpoint = url + "/identity"
		robot, err := gopenstack.AuthenticatedClient(ctx, o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got, _ := c.Authenticate(robot.TokenID); got.ProjectName != "demo" || fmt.Sprint(got.Roles) != "[reader]" {
			t.Errorf("%s: %+v", what, got)
		}
		o.ApplicationCredentialSecret = "wrong"
		if _, err := gopenstack.AuthenticatedClient(ctx, o); status(err) != http.StatusUnauthorized {
			t.Errorf("%s, wrong secret: %v", what, err)
		}
	}
	if err := applicationcredentials.Delete(ctx, id, who.UserID, made.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
}

func TestPolicy(t *testing.T) {
	_, url := serve(t, openstack.Options{})
	ctx := t.Context()
	demo, viewer, admin := network(t, login(t, url, "demo", "demo")), network(t, login(t, url, "viewer", "demo")), network(t, login(t, url, "admin", "admin"))
	mine := must[*networks.Network](t)(networks.Create(ctx, demo, networks.CreateOpts{Name: "mine"}).Extract())
	if _, err := networks.Get(ctx, viewer, mine.ID).Extract(); err != nil {
		t.Errorf("a reader of the project does not see it: %v", err)
	}
	if err := networks.Delete(ctx, viewer, mine.ID).ExtractErr(); status(err) != http.StatusForbidden {
		t.Errorf("a reader deletes: %v", err)
	}
	theirs := must[*networks.Network](t)(networks.Create(ctx, admin, networks.CreateOpts{Name: "theirs"}).Extract())
	if _, err := networks.Get(ctx, demo, theirs.ID).Extract(); status(err) != http.StatusNotFound {
		t.Errorf("another project's network is seen: %v", err)
	}
	if err := networks.Delete(ctx, demo, openstack.StableID("network", "private")).ExtractErr(); status(err) != http.StatusForbidden {
		t.Errorf("a shared network is deleted by a member: %v", err)
	}
	if _, err := subnets.Get(ctx, demo, openstack.StableID("subnet", "private-subnet")).Extract(); err != nil {
		t.Errorf("a subnet of a shared network is not seen: %v", err)
	}
	shared := true
	if _, err := networks.Create(ctx, demo, networks.CreateOpts{Name: "x", Shared: &shared}).Extract(); status(err) != http.StatusForbidden {
		t.Errorf("a member makes a shared network: %v", err)
	}
	if _, err := networks.List(network(t, &gophercloud.ProviderClient{EndpointLocator: demo.EndpointLocator}), nil).AllPages(ctx); status(err) != http.StatusUnauthorized {
		t.Errorf("without a token: %v, want 401", err)
	}
	if _, err := projects.List(identity(t, demo.ProviderClient), nil).AllPages(ctx); status(err) != http.StatusForbidden {
		t.Errorf("a member lists projects: %v", err)
	}
	pages, err := projects.List(identity(t, admin.ProviderClient), projects.ListOpts{Name: "demo"}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := projects.ExtractProjects(pages); len(list) != 1 || list[0].Name != "demo" {
		t.Errorf("projects named demo: %v", list)
	}
}

func TestPorts(t *testing.T) {
	_, url := serve(t, openstack.Options{})
	ctx := t.Context()
	demo := network(t, login(t, url, "demo", "demo"))
	private, subnet := openstack.StableID("network", "private"), openstack.StableID("subnet", "private-subnet")

	first := must[*ports.Port](t)(ports.Create(ctx, demo, ports.CreateOpts{NetworkID: private, Name: "one", DeviceOwner: "somebody",
		AllowedAddressPairs: []ports.AddressPair{{IPAddress: "10.1.0.77"}}}).Extract())
	if len(first.FixedIPs) != 2 || first.FixedIPs[0].IPAddress != "10.1.0.2" || first.FixedIPs[1].IPAddress != "fd00:1::1" || len(first.SecurityGroups) != 1 ||
		first.AllowedAddressPairs[0].IPAddress != "10.1.0.77" || first.DeviceOwner != "somebody" || first.MACAddress == "" {
		t.Errorf("a port: %+v", first)
	}
	at := func(address string) ports.CreateOpts {
		return ports.CreateOpts{NetworkID: private, FixedIPs: []ports.IP{{SubnetID: subnet, IPAddress: address}}}
	}
	second := must[*ports.Port](t)(ports.Create(ctx, demo, at("10.1.0.100")).Extract())
	if second.FixedIPs[0].IPAddress != "10.1.0.100" {
		t.Errorf("fixed: %+v", second.FixedIPs)
	}
	for address, want := range map[string]int{"10.1.0.100": 409, "10.9.0.1": 400} {
		if _, err := ports.Create(ctx, demo, at(address)).Extract(); status(err) != want {
			t.Errorf("port with %s: %v, want %d", address, err, want)
		}
	}
	name, group := "renamed", []string{openstack.StableID("no", "such")}
	moved := must[*ports.Port](t)(ports.Update(ctx, demo, second.ID, ports.UpdateOpts{Name: &name, FixedIPs: []ports.IP{{SubnetID: subnet, IPAddress: "10.1.0.101"}}}).Extract())
	if moved.Name != "renamed" || moved.FixedIPs[0].IPAddress != "10.1.0.101" || moved.RevisionNumber != 2 {
		t.Errorf("moved: %+v", moved)
	}
	if _, err := ports.Update(ctx, demo, second.ID, ports.UpdateOpts{SecurityGroups: &group}).Extract(); status(err) != http.StatusNotFound {
		t.Errorf("a group that does not exist: %v", err)
	}
	for _, q := range []ports.ListOpts{{Name: "renamed"}, {FixedIPs: []ports.FixedIPOpts{{IPAddress: "10.1.0.101"}}}, {ID: second.ID}, {Limit: 1, SortKey: "name", SortDir: "desc", Marker: ""}} {
		pages, err := ports.List(demo, q).AllPages(ctx)
		if err != nil {
			t.Fatal(err)
		}
		list, _ := ports.ExtractPorts(pages)
		want := 1
		if q.Limit > 0 {
			want = 2 // page by page
		}
		if len(list) != want || list[0].ID != second.ID {
			t.Errorf("%+v: %d ports, want %d", q, len(list), want)
		}
	}
	if err := subnets.Delete(ctx, network(t, login(t, url, "admin", "admin")), subnet).ExtractErr(); status(err) != http.StatusConflict {
		t.Errorf("a subnet in use is deleted: %v", err)
	}
	if err := ports.Delete(ctx, demo, second.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
}

func TestFloatingIPs(t *testing.T) {
	c, url := serve(t, openstack.Options{})
	ctx := t.Context()
	demo := network(t, login(t, url, "demo", "demo"))
	public, private := openstack.StableID("network", "public"), openstack.StableID("network", "private")
	port := must[*ports.Port](t)(ports.Create(ctx, demo, ports.CreateOpts{NetworkID: private}).Extract())
	f := must[*floatingips.FloatingIP](t)(floatingips.Create(ctx, demo, floatingips.CreateOpts{FloatingNetworkID: public, PortID: port.ID}).Extract())
	if f.FloatingIP != "10.2.0.3" || f.FixedIP != "10.1.0.2" || f.Status != "ACTIVE" {
		t.Errorf("floating IP: %+v", f)
	}
	if got := c.FloatingOf(netip.MustParseAddr("10.1.0.2")); len(got) != 1 || got[0].String() != "10.2.0.3" {
		t.Errorf("what stands for the port: %v", got)
	}
	second := must[*floatingips.FloatingIP](t)(floatingips.Create(ctx, demo, floatingips.CreateOpts{FloatingNetworkID: public}).Extract())
	if second.Status != "DOWN" || second.FloatingIP != "10.2.0.4" {
		t.Errorf("without a port: %+v", second)
	}
	if _, err := floatingips.Create(ctx, demo, floatingips.CreateOpts{FloatingNetworkID: public}).Extract(); status(err) != http.StatusConflict {
		t.Errorf("from an empty pool: %v", err)
	}
	if _, err := floatingips.Update(ctx, demo, second.ID, floatingips.UpdateOpts{PortID: &port.ID}).Extract(); status(err) != http.StatusConflict {
		t.Errorf("a second one for the same address: %v", err)
	}
	if _, err := floatingips.Create(ctx, demo, floatingips.CreateOpts{FloatingNetworkID: private}).Extract(); status(err) != http.StatusBadRequest {
		t.Errorf("from a network that is not external: %v", err)
	}
	off := must[*floatingips.FloatingIP](t)(floatingips.Update(ctx, demo, f.ID, floatingips.UpdateOpts{PortID: new(string)}).Extract())
	if off.PortID != "" || off.Status != "DOWN" || len(c.FloatingOf(netip.MustParseAddr("10.1.0.2"))) != 0 {
		t.Errorf("taken off: %+v", off)
	}
	on := must[*floatingips.FloatingIP](t)(floatingips.Update(ctx, demo, f.ID, floatingips.UpdateOpts{PortID: &port.ID}).Extract())
	if on.Status != "ACTIVE" {
		t.Errorf("put on again: %+v", on)
	}
	if err := ports.Delete(ctx, demo, port.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if after := must[*floatingips.FloatingIP](t)(floatingips.Get(ctx, demo, f.ID).Extract()); after.PortID != "" {
		t.Errorf("its port is gone: %+v", after)
	}
}

func TestSecurityGroups(t *testing.T) {
	_, url := serve(t, openstack.Options{})
	ctx := t.Context()
	demo := network(t, login(t, url, "demo", "demo"))
	g := must[*groups.SecGroup](t)(groups.Create(ctx, demo, groups.CreateOpts{Name: "web"}).Extract())
	if len(g.Rules) != 2 {
		t.Errorf("a new group has %d rules, want those of egress", len(g.Rules))
	}
	rule := rules.CreateOpts{SecGroupID: g.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolTCP, PortRangeMin: 80, PortRangeMax: 80, RemoteIPPrefix: "10.0.0.0/8"}
	r := must[*rules.SecGroupRule](t)(rules.Create(ctx, demo, rule).Extract())
	if _, err := rules.Create(ctx, demo, rule).Extract(); status(err) != http.StatusConflict {
		t.Errorf("the same rule again: %v", err)
	}
	rule.PortRangeMin = 100
	if _, err := rules.Create(ctx, demo, rule).Extract(); status(err) != http.StatusBadRequest {
		t.Errorf("ports the wrong way round: %v", err)
	}
	port := must[*ports.Port](t)(ports.Create(ctx, demo, ports.CreateOpts{NetworkID: openstack.StableID("network", "private"), SecurityGroups: &[]string{g.ID}}).Extract())
	if err := groups.Delete(ctx, demo, g.ID).ExtractErr(); status(err) != http.StatusConflict {
		t.Errorf("a group in use is deleted: %v", err)
	}
	if err := rules.Delete(ctx, demo, r.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if err := ports.Delete(ctx, demo, port.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if err := groups.Delete(ctx, demo, g.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
}

func TestQuota(t *testing.T) {
	c, url := serve(t, openstack.Options{})
	ctx := t.Context()
	demo, admin := network(t, login(t, url, "demo", "demo")), network(t, login(t, url, "admin", "admin"))
	two := 2
	q := must[*quotas.Quota](t)(quotas.Update(ctx, admin, c.ProjectID("demo"), quotas.UpdateOpts{Network: &two}).Extract())
	if q.Network != 2 || q.Port != 500 {
		t.Errorf("quota: %+v", q)
	}
	for i := range 3 {
		_, err := networks.Create(ctx, demo, networks.CreateOpts{Name: fmt.Sprint(i)}).Extract()
		if want := map[bool]int{true: 0, false: 409}[i < 2]; status(err) != want {
			t.Errorf("network %d: %v, want %d", i, err, want)
		}
	}
}

// TestRestart keeps everything: networks, tokens and those that were ended, and the ids of what is there from the beginning.
func TestRestart(t *testing.T) {
	kept := &memory{}
	c, url := serve(t, openstack.Options{State: kept})
	ctx := t.Context()
	p, ended := login(t, url, "demo", "demo"), login(t, url, "demo", "demo")
	net := must[*networks.Network](t)(networks.Create(ctx, network(t, p), networks.CreateOpts{Name: "kept"}).Extract())
	if err := tokens.Revoke(ctx, identity(t, p), ended.TokenID).Err; err != nil {
		t.Fatal(err)
	}
	// What is on disk is enough: nothing is written in the end.
	for deadline := time.Now().Add(10 * time.Second); !bytes.Contains(func() []byte { b, _ := kept.Load(); return b }(), []byte("revoked")); {
		if time.Now().After(deadline) {
			t.Fatal("nothing was kept")
		}
		time.Sleep(time.Millisecond)
	}
	_ = c
	again, url2 := serve(t, openstack.Options{State: &memory{text: func() []byte { b, _ := kept.Load(); return b }()}})
	if who, ok := again.Authenticate(p.TokenID); !ok || who.UserName != "demo" {
		t.Error("a token is no longer good")
	}
	if _, ok := again.Authenticate(ended.TokenID); ok {
		t.Error("a token that was ended is good again")
	}
	demo := network(t, login(t, url2, "demo", "demo"))
	if got, err := networks.Get(ctx, demo, net.ID).Extract(); err != nil || got.Name != "kept" {
		t.Errorf("the network: %v %v", got, err)
	}
	pages, err := networks.List(demo, nil).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := networks.ExtractNetworks(pages); len(list) != 3 {
		t.Errorf("%d networks, want 3", len(list))
	}
}

// TestAtOnce has many clients take addresses: none gets that of another.
func TestAtOnce(t *testing.T) {
	_, url := serve(t, openstack.Options{})
	demo := network(t, login(t, url, "demo", "demo"))
	var mu sync.Mutex
	var work sync.WaitGroup
	owners := map[string]string{}
	for range 8 {
		work.Go(func() {
			for range 20 {
				p, err := ports.Create(context.Background(), demo, ports.CreateOpts{NetworkID: openstack.StableID("network", "private")}).Extract()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, ip := range p.FixedIPs {
					if other := owners[ip.IPAddress]; other != "" {
						t.Errorf("%s belongs to %s and to %s", ip.IPAddress, other, p.ID)
					}
					owners[ip.IPAddress] = p.ID
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if len(owners) != 320 {
		t.Errorf("%d addresses, want 320", len(owners))
	}
}

// TestWrongRequests have an answer each, in the service's own shape.
func TestWrongRequests(t *testing.T) {
	_, url := serve(t, openstack.Options{})
	token := login(t, url, "demo", "demo").TokenID
	private := openstack.StableID("network", "private")
	for _, test := range []struct {
		method, path, body string
		status             int
		shape              string
	}{
		{"POST", "/identity/v3/auth/tokens", `{}`, 400, "error"},
		{"POST", "/identity/v3/auth/tokens", `nonsense`, 400, "error"},
		{"POST", "/identity/v3/auth/tokens", `{"auth":{"identity":{"methods":["totp"]}}}`, 401, "error"},
		{"GET", "/identity/v3/nosuch", ``, 404, "error"},
		{"GET", "/identity/v3/users", ``, 403, "error"},
		{"GET", "/network/v2.0/nosuch", ``, 404, "message"},
		{"GET", "/network/v2.0/networks/nosuch", ``, 404, "NeutronError"},
		{"PATCH", "/network/v2.0/networks", ``, 405, "NeutronError"},
		{"POST", "/network/v2.0/networks", `nonsense`, 400, "NeutronError"},
		{"POST", "/network/v2.0/networks", `{"port":{}}`, 400, "NeutronError"},
		{"POST", "/network/v2.0/networks", `{"network":{"nosuch":1}}`, 400, "NeutronError"},
		{"POST", "/network/v2.0/networks", `{"network":{"name":5}}`, 400, "NeutronError"},
		{"POST", "/network/v2.0/networks", `{"network":{"mtu":1}}`, 400, "NeutronError"},
		{"POST", "/network/v2.0/ports", `{"port":{}}`, 400, "NeutronError"},
		{"POST", "/network/v2.0/ports", `{"port":{"network_id":"` + private + `","fixed_ips":"x"}}`, 400, "NeutronError"},
		{"POST", "/network/v2.0/ports", `{"port":{"network_id":"` + private + `","fixed_ips":[{"nosuch":1}]}}`, 400, "NeutronError"},
		{"POST", "/network/v2.0/subnets", `{"subnet":{"network_id":"` + private + `","cidr":"10.3.0.0/24"}}`, 403, "NeutronError"},
		{"GET", "/network/v2.0/networks?limit=x", ``, 400, "NeutronError"},
		{"GET", "/network/v2.0/networks?marker=x", ``, 400, "NeutronError"},
		{"PUT", "/network/v2.0/networks/" + private, `{"network":{"id":"x"}}`, 403, "NeutronError"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, url+test.path, bytes.NewBufferString(test.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Auth-Token", token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		var body map[string]any
		if err := json.Unmarshal(text, &body); err != nil || resp.StatusCode != test.status || body[test.shape] == nil {
			t.Errorf("%s %s %s: %d %s, want %d with %s", test.method, test.path, test.body, resp.StatusCode, text, test.status, test.shape)
		}
	}
}
