package play

import (
	"maps"
	"testing"
	"time"

	"proxylab/lab/lbaas/octavia"
)

func TestServiceOfABalancer(t *testing.T) {
	for name, want := range map[string]string{
		"kube_service_e-lab_default_web": "default/web", "kube_service_my_cluster_shop_front-end": "shop/front-end", "mine": "",
	} {
		if got := serviceOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The model follows balancers, pools and members as the server tells of them.
func TestBalancerModel(t *testing.T) {
	m := newBalancerModel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tell := func(kind, id, parent, field, from, to string) float64 {
		at = at.Add(time.Second)
		s := &octavia.State{Kind: kind, ID: id, Parent: parent, Balancer: "b", Field: field, From: from, To: to}
		if kind == "loadbalancer" {
			s.Name = "kube_service_lab_default_web"
		}
		return m.change(at, s).Seconds
	}
	expect := func(what string, want map[string]int) {
		t.Helper()
		if got := m.fewest(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("nothing", map[string]int{})
	tell("loadbalancer", "b", "", provisioning, "", "PENDING_CREATE")
	tell("member", "m1", "p1", provisioning, "", "PENDING_CREATE") // before its pool
	tell("pool", "p1", "b", provisioning, "", "PENDING_CREATE")
	tell("pool", "p2", "b", provisioning, "", "PENDING_CREATE")
	expect("nothing works yet", map[string]int{"default/web": 0})
	if waited := tell("loadbalancer", "b", "", provisioning, "PENDING_CREATE", "ACTIVE"); waited != 4 {
		t.Errorf("pending for %v s, want 4", waited)
	}
	tell("member", "m0", "p1", provisioning, "PENDING_CREATE", "ACTIVE")
	tell("member", "m9", "p2", provisioning, "PENDING_CREATE", "ACTIVE")
	expect("nobody asks how they are", map[string]int{"default/web": 1})
	tell("healthmonitor", "h", "p1", provisioning, "", "PENDING_CREATE")
	expect("somebody does", map[string]int{"default/web": 0})
	tell("member", "m0", "p1", provisioning, "ACTIVE", "DELETED")
	tell("member", "m9", "p2", provisioning, "ACTIVE", "DELETED")
	tell("healthmonitor", "h2", "p2", provisioning, "", "PENDING_CREATE")
	for _, member := range [][2]string{{"m1", "p1"}, {"m2", "p1"}, {"m3", "p2"}} {
		tell("member", member[0], member[1], provisioning, "PENDING_CREATE", "ACTIVE")
		tell("member", member[0], member[1], operating, "OFFLINE", "ONLINE")
	}
	expect("two and one", map[string]int{"default/web": 1})
	tell("member", "m4", "p2", operating, "", "NO_MONITOR")
	tell("member", "m4", "p2", provisioning, "", "ACTIVE")
	expect("two and two", map[string]int{"default/web": 2})
	tell("member", "m1", "p1", operating, "ONLINE", "ERROR")
	tell("member", "m2", "p1", provisioning, "ACTIVE", "PENDING_DELETE")
	tell("member", "m2", "p1", provisioning, "PENDING_DELETE", "DELETED")
	expect("none and two", map[string]int{"default/web": 0})
	tell("member", "m3", "p2", provisioning, "ACTIVE", "DELETED") // at once
	tell("pool", "p1", "b", provisioning, "ACTIVE", "DELETED")
	expect("one", map[string]int{"default/web": 1})
	tell("loadbalancer", "b", "", provisioning, "ACTIVE", "DELETED")
	expect("gone", map[string]int{})
}
