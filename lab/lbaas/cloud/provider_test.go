package cloud

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/quotas"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"proxylab/lab/lbaas/faults"
)

// TestProviders is what is done with providers that lack something, and with those that want it otherwise.
func TestProviders(t *testing.T) {
	no := false
	for _, tt := range []struct {
		name   string
		lacks  faults.Provider
		config func(*Config)
		create []string // writes
		grow   []string // writes when a node comes
		left   int      // listeners
		event  string
	}{
		{name: "no batch", lacks: faults.Provider{BatchMembers: &no}, create: []string{"POST loadbalancers"},
			grow: []string{"PUT members", "POST members", "POST members"}, left: 2},
		{name: "no UDP", lacks: faults.Provider{UDP: &no}, left: 1, event: "UDPNotSupported"},
		{name: "no monitors", lacks: faults.Provider{Monitors: &no}, config: func(c *Config) { c.CreateMonitor = true }, left: 2, event: "MonitorNotSupported"},
		{name: "nothing", lacks: faults.Provider{Monitors: &no, UDP: &no, BatchMembers: &no}, config: func(c *Config) { c.CreateMonitor = true }, left: 1, event: "UDPNotSupported"},
		{name: "one by one", config: func(c *Config) { c.SerialCreate = true }, left: 2, create: []string{
			"POST loadbalancers", "POST listeners", "POST pools", "PUT members", "POST listeners", "POST pools", "PUT members"},
			grow: []string{"PUT members", "PUT members"}},
		{name: "no cascade", config: func(c *Config) { c.NoCascade = true }, left: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(s *setup) {
				s.server.Faults.Provider = &tt.lacks
				if tt.config != nil {
					tt.config(&s.options.Balancers)
				}
			})
			svc := r.add(newService())
			status := r.ensure(svc)
			if got := r.writes(); tt.create != nil && !slices.Equal(got, tt.create) {
				t.Errorf("create: %v", got)
			}
			if h := r.tree(svc); len(h.Listeners) != tt.left || len(h.Pools) != tt.left {
				t.Errorf("%d listeners, %d pools", len(h.Listeners), len(h.Pools))
			}
			if tt.event != "" {
				r.said(tt.event, "")
			}
			if refused := len(status.Ingress[0].Ports); refused != 2-tt.left {
				t.Errorf("%+v", status)
			}
			r.writes()
			r.nodes = append(r.nodes, node("node-3", "10.0.0.13"))
			r.ensure(svc)
			if got := r.writes(); tt.grow != nil && !slices.Equal(got, tt.grow) {
				t.Errorf("grow: %v", got)
			}
			r.right(svc)
			r.remove(svc)
			if left := r.balancers(); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

// TestVersions has a Service live with every version that Octavia advertises.
func TestVersions(t *testing.T) {
	for _, version := range []string{"v2.0", "v2.1", "v2.5", "v2.6", "v2.12", "v2.14", "v2.16", "v2.22", "v2.26"} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, func(s *setup) { s.server.Version = version })
			svc := r.add(newService(clientIP(60)))
			r.ensure(svc)
			r.right(svc)
			b := r.only()
			if tagged := slices.Contains(b.Tags, "kube_service_kubernetes_default_web"); tagged != (version >= "v2.12" || version == "v2.5" || version == "v2.6") {
				t.Errorf("tags %v", b.Tags)
			}
			r.change(svc, ports(port("TCP", 81, 30081)))
			r.ensure(svc)
			r.right(svc)
			if h := r.tree(svc); len(h.Listeners) != 1 || len(h.Pools) != 1 {
				t.Errorf("%d listeners, %d pools", len(h.Listeners), len(h.Pools))
			}
			r.remove(svc)
			if left := r.balancers(); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

func TestKeystone(t *testing.T) {
	r := newRig(t, func(s *setup) { s.keystone, s.server.TokenTTL = true, time.Hour })
	svc := r.add(newService())
	// A token that is not taken any more is exchanged.
	r.plan(faults.Fault{Name: "expired", Operation: "loadbalancer.create", Nth: 1, Status: http.StatusUnauthorized},
		faults.Fault{Name: "expired again", Operation: "pool.list", Nth: 1, Status: http.StatusUnauthorized})
	r.ensure(svc)
	r.right(svc)
	r.remove(svc)

	bad := newRig(t, func(s *setup) { s.on, s.keystone, s.options.Endpoint.Password = r, true, "wrong" })
	bad.p.opts.Endpoint.Password = "wrong"
	if _, err := bad.try(bad.add(newService())); err == nil || !strings.Contains(err.Error(), "authentication at "+r.http.URL) {
		t.Errorf("%v", err)
	}
}

func TestLimiterAndQuota(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.plan(faults.Fault{Name: "limited", Operation: "loadbalancer.create", Count: 1, Status: http.StatusTooManyRequests})
	r.ensure(svc)
	limit := quotas.UpdateOpts{Loadbalancer: ptr.To(1)}
	if err := quotas.Update(t.Context(), r.api().lb, projectOf(t, r), limit).Err; err != nil {
		t.Fatal(err)
	}
	_, err := r.try(r.add(newService(func(s *corev1.Service) { s.Name = "more" })))
	if err == nil || err.Error() != "create load balancer kube_service_kubernetes_default_more: 403: Quota has been met for resources: Load Balancer" {
		t.Errorf("%v", err)
	}
}

func TestDualStack(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService(dualStack))
	var families []corev1.IPFamily
	var before []string
	for _, i := range r.ensure(svc).Ingress {
		families = append(families, familyOf(netip.MustParseAddr(i.IP)))
		before = append(before, i.IP)
	}
	if d := cmp.Diff([]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, families); d != "" {
		t.Error(d)
	}
	r.right(svc)
	r.delete(r.only().ID)
	var after []string
	for _, i := range r.ensure(svc).Ingress {
		after = append(after, i.IP)
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Error(d)
	}
}

// TestTooLate is what can be had only when a balancer is made.
func TestTooLate(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	r.change(svc, dualStack, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "127.200.9.9" })
	r.ensure(svc)
	r.said("SecondFamilyIgnored", "was made without an address of IPv6")
	r.said("AddressIgnored", "spec.loadBalancerIP comes too late")
	r.right(svc)

	old := newRig(t, func(s *setup) { s.server.Version = "v2.25" })
	svc = old.add(newService(dualStack))
	old.ensure(svc)
	old.said("SecondFamilyIgnored", "Octavia 2.25 has one address per balancer")
}

// TestNoBalancerAnyMore is a Service that stays when its balancer goes.
func TestNoBalancerAnyMore(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	r.change(svc, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	r.remove(svc)
	if a := r.now(svc).Annotations; len(a) != 0 {
		t.Errorf("annotations %v", a)
	}
	if left := r.balancers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestAddressLost is a balancer that is made again while somebody else has its address.
func TestAddressLost(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	address := r.ensure(svc).Ingress[0].IP
	r.delete(r.only().ID)
	other := wantBalancer{Name: "thief", SubnetID: r.p.conf.SubnetID, Address: address}
	if err := loadbalancers.Create(t.Context(), r.api().lb, body{"loadbalancer", other}).Err; err != nil {
		t.Fatal(err)
	}
	if now := r.ensure(svc).Ingress[0].IP; now == address {
		t.Errorf("%s for two", now)
	}
	r.said("AddressLost", address)
}

func TestMistakesAreToldBeforeAnything(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService(annotated(annProxy, "perhaps", annClientData, "soon")))
	if _, err := r.try(svc); err == nil || !strings.Contains(err.Error(), annProxy) || !strings.Contains(err.Error(), annClientData) {
		t.Errorf("%v", err)
	}
	if w := r.writes(); len(w) > 0 {
		t.Error(w)
	}
	// They are not in the way of a deletion.
	r.change(svc, func(s *corev1.Service) { s.Annotations = nil })
	r.ensure(svc)
	r.change(svc, annotated(annProxy, "perhaps"))
	r.remove(svc)
	if left := r.balancers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestRepairKeepsOffTheDeleted is a repair that had to wait while the Service went.
func TestRepairKeepsOffTheDeleted(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	old := r.now(svc)
	r.change(svc, func(s *corev1.Service) { now := metav1.Now(); s.DeletionTimestamp = &now })
	r.remove(svc)
	if err := r.drift(old); err != nil {
		t.Fatal(err)
	}
	if left := r.balancers(); len(left) > 0 {
		t.Errorf("made again for a Service that goes: %+v", left)
	}
}

func TestKeyedLocks(t *testing.T) {
	var k keyedLocks
	unlock, err := k.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := k.lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.lock(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	got := make(chan func())
	go func() {
		u, err := k.lock(context.Background(), "a")
		if err != nil {
			t.Error(err)
		}
		got <- u
	}()
	unlock()
	(<-got)()
	if len(k.held) != 0 {
		t.Errorf("kept: %v", k.held)
	}
}

// projectOf is the project of the balancers.
func projectOf(t *testing.T, r *rig) string {
	t.Helper()
	b, err := loadbalancers.Get(t.Context(), r.api().lb, r.only().ID).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return b.ProjectID
}
