package cloud

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"

	"proxylab/lab/lbaas/faults"
)

func TestSharedBalancer(t *testing.T) {
	r := newRig(t)
	one := r.add(newService())
	r.ensure(one)
	b := r.only()
	if d := cmp.Diff(map[string]string{annID: b.ID, annMade: b.ID, annAddress: b.Address}, r.now(one).Annotations); d != "" {
		t.Error(d)
	}
	second := func(name string, number int32) *corev1.Service {
		return r.add(newService(annotated(annID, b.ID), ports(port("TCP", number, 30000+number)), func(s *corev1.Service) { s.Name = name }))
	}
	two := second("two", 8080)
	if got := r.ensure(two).Ingress[0].IP; got != b.Address {
		t.Error(got)
	}
	if d := cmp.Diff([]string{"kube_service_kubernetes_default_two", "kube_service_kubernetes_default_web"}, slices.Sorted(slices.Values(sharers(r.only().Tags)))); d != "" {
		t.Error(d)
	}
	r.right(one)
	r.right(two)
	if _, err := r.try(second("three", 8081)); err == nil || !strings.Contains(err.Error(), "is shared by 2 Services already") {
		t.Errorf("a third one: %v", err)
	}
	r.change(two, ports(port("TCP", 80, 30081)))
	if _, err := r.try(two); err == nil || !strings.Contains(err.Error(), "port 80/TCP of the load balancer belongs to listener") {
		t.Errorf("a port that is taken: %v", err)
	}
	r.change(two, ports(port("TCP", 8080, 38080)))

	// The one who made it goes first.
	r.remove(one)
	if h := r.tree(two); len(h.Listeners) != 1 || h.Listeners[0].Port != 8080 || len(h.Pools) != 1 || len(sharers(h.Balancer.Tags)) != 1 {
		t.Errorf("%+v", h)
	}
	r.right(two)
	// And comes again: the name is taken, the balancer is not its own any more.
	r.change(one, func(s *corev1.Service) { s.Annotations, s.Status = nil, corev1.ServiceStatus{} })
	r.ensure(one)
	if n := len(r.balancers()); n != 2 {
		t.Errorf("%d balancers", n)
	}
	r.remove(one)
	r.remove(two)
	if left := r.balancers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestBalancerMadeOutside(t *testing.T) {
	r := newRig(t)
	made := wantBalancer{Name: "mine", SubnetID: r.p.conf.SubnetID, Listeners: []wantListener{{Name: "own", Protocol: "TCP", Port: 9999, ConnectionLimit: -1}}}
	if err := loadbalancers.Create(t.Context(), r.api().lb, body{"loadbalancer", made}).Err; err != nil {
		t.Fatal(err)
	}
	b := r.only()
	svc := r.add(newService(annotated(annID, b.ID)))
	r.ensure(svc)
	r.right(svc)
	if h := r.tree(svc); len(h.Listeners) != 3 || !slices.Equal(h.Balancer.Tags, []string{"kube_service_kubernetes_default_web"}) {
		t.Errorf("%+v", h)
	}
	if made := r.now(svc).Annotations[annMade]; made != "" {
		t.Errorf("made %s", made)
	}
	r.remove(svc)
	if h := r.tree(svc); len(h.Listeners) != 1 || len(h.Pools) != 0 || len(h.Balancer.Tags) != 0 || h.Balancer.Name != "mine" {
		t.Errorf("%+v", h)
	}
	// In ERROR it is not ours to delete.
	r.ensure(svc)
	r.plan(faults.Fault{Name: "fails", Operation: "pool.update", Error: true})
	r.change(svc, clientIP(60))
	if _, err := r.try(svc); !errors.Is(err, errFailed) {
		t.Error(err)
	}
	if _, err := r.try(svc); !errors.Is(err, errFailed) || !strings.Contains(err.Error(), "let an administrator fail it over") {
		t.Error(err)
	}
	// One that is not there is not made.
	other := r.add(newService(annotated(annID, "00000000-dead-beef-0000-000000000000"), func(s *corev1.Service) { s.Name = "other" }))
	if _, err := r.try(other); !isGone(err) {
		t.Error(err)
	}
	r.remove(other)
	if b := r.only(); b.Name != "mine" {
		t.Errorf("%+v", b)
	}
}

// TestForeignBalancerStays is a Service that names another's balancer, and may not have it.
func TestForeignBalancerStays(t *testing.T) {
	r := newRig(t, func(s *setup) { s.server.Version = "v2.4" }) // without tags nobody shares
	one := r.add(newService())
	r.ensure(one)
	two := r.add(newService(annotated(annID, r.only().ID), func(s *corev1.Service) { s.Name = "two" }))
	if _, err := r.try(two); err == nil || !strings.Contains(err.Error(), "2.4 has no tags") {
		t.Error(err)
	}
	r.remove(two)
	r.right(one)
	r.plan(faults.Fault{Name: "fails", Operation: "pool.update", Error: true})
	r.change(one, clientIP(60))
	if _, err := r.try(one); !errors.Is(err, errFailed) {
		t.Error(err)
	}
	if _, err := r.try(two); !errors.Is(err, errFailed) {
		t.Error(err)
	}
	if b := r.only(); b.Status != "ERROR" {
		t.Errorf("%+v", b)
	}
}
