package openstack_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"proxylab/lab/lbaas/openstack"
)

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
