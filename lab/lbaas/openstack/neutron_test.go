package openstack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"proxylab/lab/lbaas/openstack"
)

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
