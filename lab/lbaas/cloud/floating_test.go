package cloud

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"
)

func TestFloatingIP(t *testing.T) {
	r := newRig(t, func(s *setup) { s.options.Balancers.Internal, s.keystone = false, true })
	svc := r.add(newService())
	first := r.ensure(svc).Ingress[0].IP
	if !strings.HasPrefix(first, "127.201.") {
		t.Fatalf("published %s", first)
	}
	r.right(svc)
	if got := r.now(svc).Annotations[annAddress]; got != first {
		t.Errorf("annotation %q", got)
	}
	// The balancer is made anew, the address stays.
	r.delete(r.only().ID)
	if got := r.ensure(svc).Ingress[0].IP; got != first {
		t.Errorf("was %s, is %s", first, got)
	}
	// One that the user names.
	r.change(svc, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "127.201.7.7" })
	if got := r.ensure(svc).Ingress[0].IP; got != "127.201.7.7" {
		t.Error(got)
	}
	other := r.add(newService(func(s *corev1.Service) { s.Name, s.Spec.LoadBalancerIP = "other", "127.201.7.7" }))
	if _, err := r.try(other); err == nil || !strings.Contains(err.Error(), "floating IP 127.201.7.7 is used by port") {
		t.Errorf("a floating IP for two: %v", err)
	}
	r.remove(other)
	// None, and one again.
	r.change(svc, annotated(annInternal, "true"), func(s *corev1.Service) { s.Spec.LoadBalancerIP = "" })
	if got := r.ensure(svc).Ingress[0].IP; got != r.only().Address {
		t.Error(got)
	}
	ps, err := r.p.newPass(t.Context(), r.now(svc), nil)
	if err != nil {
		t.Fatal(err)
	}
	count := func() int {
		t.Helper()
		all, err := ps.listFloating(t.Context(), floatingips.ListOpts{})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := count(); n != 0 {
		t.Errorf("%d floating IPs", n)
	}
	r.change(svc, annotated(annInternal, "false", annFloatingSubnet, "pub*", annKeepFloating, "true"))
	kept := r.ensure(svc).Ingress[0].IP
	r.remove(svc)
	if n := count(); n != 1 {
		t.Errorf("%d floating IPs, %s was to be kept", n, kept)
	}
	// It is there for the next time, and goes with a Service that does not keep it, even without a balancer.
	r.change(svc, annotated(annKeepFloating, "false"))
	if got := r.ensure(svc).Ingress[0].IP; got != kept {
		t.Errorf("was %s, is %s", kept, got)
	}
	r.delete(r.only().ID)
	if _, exists, err := r.p.GetLoadBalancer(t.Context(), "kubernetes", r.now(svc)); err != nil || !exists {
		t.Errorf("a floating IP is left: exists %v, %v", exists, err)
	}
	r.remove(svc)
	if n := count(); n != 0 {
		t.Errorf("%d floating IPs", n)
	}
	r.change(svc, annotated(annFloatingSubnet, "nowhere"))
	if _, err := r.try(svc); err == nil || !strings.Contains(err.Error(), `fits name "nowhere"`) {
		t.Errorf("%v", err)
	}
}
