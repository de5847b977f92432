package octavia

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuotas(t *testing.T) {
	h := newHarness(t, Options{Manual: true, Knobs: Knobs{EnforceQuotas: true, DefaultQuota: map[string]int{"load_balancer": 2}}})
	s := h.stack(true)
	h.balancer()
	want := func(path string, body obj, title string) {
		t.Helper()
		if got := h.do("POST", "/v2.0/lbaas/"+path, body, 403)["faultstring"]; got != "Quota has been met for resources: "+title {
			t.Error(got)
		}
	}
	want("loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet}}, "Load Balancer")
	got := h.do("PUT", "/v2.0/lbaas/quotas/p", obj{"quota": obj{"load_balancer": 3, "listener": 1, "pool": 1, "member": 3, "healthmonitor": 1}}, 202)["quota"]
	if d := cmp.Diff(map[string]any{"load_balancer": 3.0, "listener": 1.0, "pool": 1.0, "member": 3.0, "health_monitor": 1.0, "l7policy": -1.0, "l7rule": -1.0}, got); d != "" {
		t.Error(d)
	}
	want("listeners", obj{"listener": obj{"loadbalancer_id": s.lb, "protocol": "TCP", "protocol_port": 90}}, "Listener")
	want("pools", obj{"pool": obj{"loadbalancer_id": s.lb, "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}}, "Pool")
	want("loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet, "listeners": []obj{{"protocol": "TCP", "protocol_port": 80}}}}, "Listener")
	members := []obj{{"address": "10.0.0.1", "protocol_port": 80}, {"address": "10.0.0.8", "protocol_port": 80}, {"address": "10.0.0.9", "protocol_port": 80}}
	h.do("PUT", "/v2.0/lbaas/pools/"+s.pool+"/members", obj{"members": members}, 403)
	if got := h.states("pools/" + s.pool); got != "ACTIVE ONLINE" {
		t.Error("what was refused has changed the pool:", got)
	}
	h.do("PUT", "/v2.0/lbaas/pools/"+s.pool+"/members", obj{"members": members[:2]}, 202)
	h.settle()
	h.do("DELETE", "/v2.0/lbaas/quotas/p", nil, 202)
	if got := h.show("quotas/p")["load_balancer"]; got != 2.0 {
		t.Error(got)
	}
	if err := h.s.SetKnobs(Knobs{}); err != nil { // nothing is enforced any more
		t.Fatal(err)
	}
	h.balancer()
}

func TestBounds(t *testing.T) {
	h := newHarness(t, Options{Manual: true, Limits: Limits{Objects: 2}})
	s := h.stack(false)
	h.do("POST", "/v2.0/lbaas/pools/"+s.pool+"/members", obj{"member": obj{"address": "10.0.0.7", "protocol_port": 1}}, 403)
	h.make("flavorprofile", "flavorprofiles", obj{"name": "a", "provider_name": "amphora", "flavor_data": "{}"})
	h.make("flavorprofile", "flavorprofiles", obj{"name": "b", "provider_name": "amphora", "flavor_data": "{}"})
	h.do("POST", "/v2.0/lbaas/flavorprofiles", obj{"flavorprofile": obj{"name": "c", "provider_name": "amphora", "flavor_data": "{}"}}, 403)
	h.do("POST", "/v2.0/lbaas/loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet, "tags": make([]string, maxItems+1)}}, 400)
}

func TestProviderFeatures(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	s := h.stack(false)
	if err := h.s.SetKnobs(Knobs{Providers: map[string]Provider{"amphora": {NoBatchMembers: true, NoMonitors: true, NoUDP: true}}}); err != nil {
		t.Fatal(err)
	}
	for _, call := range []struct {
		method, path string
		body         obj
	}{
		{"PUT", "pools/" + s.pool + "/members", obj{"members": []obj{}}},
		{"POST", "healthmonitors", obj{"healthmonitor": obj{"pool_id": s.pool, "type": "TCP", "delay": 1, "timeout": 1, "max_retries": 1}}},
		{"POST", "listeners", obj{"listener": obj{"loadbalancer_id": s.lb, "protocol": "UDP", "protocol_port": 53}}},
		{"POST", "pools", obj{"pool": obj{"loadbalancer_id": s.lb, "protocol": "UDP", "lb_algorithm": "SOURCE_IP"}}},
		{"POST", "loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet, "listeners": []obj{{"protocol": "UDP", "protocol_port": 53}}}}},
		{"POST", "loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet, "pools": []obj{{"name": "a", "protocol": "TCP",
			"lb_algorithm": "SOURCE_IP", "healthmonitor": obj{"type": "TCP", "delay": 1, "timeout": 1, "max_retries": 1}}}}}},
	} {
		got, _ := h.do(call.method, "/v2.0/lbaas/"+call.path, call.body, 501)["faultstring"].(string)
		if !strings.HasPrefix(got, "Provider 'amphora' does not support a requested ") {
			t.Error(got)
		}
	}
	for _, k := range []Knobs{{Version: "v2.99"}, {Version: "2.5"}, {Providers: map[string]Provider{"nosuch": {}}}, {DefaultQuota: map[string]int{"cats": 1}}} {
		if err := h.s.SetKnobs(k); err == nil {
			t.Errorf("%+v was taken", k)
		}
	}
	if !h.s.Knobs().Providers["amphora"].NoUDP {
		t.Error("knobs that were refused have changed something")
	}
}

func TestFlavors(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	profile := h.make("flavorprofile", "flavorprofiles", obj{"name": "fp", "provider_name": "amphora", "flavor_data": "{}"})
	flavor := h.make("flavor", "flavors", obj{"name": "f", "flavor_profile_id": profile})
	h.do("POST", "/v2.0/lbaas/flavors", obj{"flavor": obj{"name": "f", "flavor_profile_id": profile}}, 409)
	h.do("POST", "/v2.0/lbaas/flavors", obj{"flavor": obj{"name": "g", "flavor_profile_id": subnet}}, 400)
	h.do("POST", "/v2.0/lbaas/flavorprofiles", obj{"flavorprofile": obj{"name": "x", "provider_name": "amphora", "flavor_data": "{"}}, 400)
	h.do("POST", "/v2.0/lbaas/flavorprofiles", obj{"flavorprofile": obj{"name": "x", "provider_name": "nosuch", "flavor_data": "{}"}}, 400)
	h.do("POST", "/v2.0/lbaas/loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet, "flavor_id": flavor, "provider": "octavia"}}, 400)
	lb := h.make("loadbalancer", "loadbalancers", obj{"vip_subnet_id": subnet, "flavor_id": flavor})
	h.do("DELETE", "/v2.0/lbaas/flavors/"+flavor, nil, 409)
	h.do("DELETE", "/v2.0/lbaas/flavorprofiles/"+profile, nil, 409)
	h.do("PUT", "/v2.0/lbaas/flavorprofiles/"+profile, obj{"flavorprofile": obj{"name": "y"}}, 409)
	h.do("PUT", "/v2.0/lbaas/flavors/"+flavor, obj{"flavor": obj{"enabled": false, "description": "no more"}}, 200)
	h.do("POST", "/v2.0/lbaas/loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet, "flavor_id": flavor}}, 400)
	h.do("DELETE", "/v2.0/lbaas/loadbalancers/"+lb, nil, 204)
	h.settle()
	h.do("DELETE", "/v2.0/lbaas/flavors/"+flavor, nil, 204)
	h.do("DELETE", "/v2.0/lbaas/flavorprofiles/"+profile, nil, 204)

	zones := h.make("availability_zone_profile", "availabilityzoneprofiles", obj{"name": "zp", "provider_name": "amphora", "availability_zone_data": "{}"})
	h.do("POST", "/v2.0/lbaas/availabilityzones", obj{"availability_zone": obj{"name": "z", "availability_zone_profile_id": zones}}, 201)
	h.do("POST", "/v2.0/lbaas/availabilityzones", obj{"availability_zone": obj{"name": "z", "availability_zone_profile_id": zones}}, 409)
	h.make("loadbalancer", "loadbalancers", obj{"vip_subnet_id": subnet, "availability_zone": "z"})
	h.do("DELETE", "/v2.0/lbaas/availabilityzones/z", nil, 409)
	if got := h.show("availabilityzones/z"); got["availability_zone_profile_id"] != zones || got["enabled"] != true {
		t.Error(got)
	}
}

// TestEvents wants every call and every change of state, in the order in which they happened.
func TestEvents(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	lb := h.balancer()
	h.do("GET", "/v2.0/lbaas/nosuch", nil, 404)
	h.do("DELETE", "/v2.0/lbaas/loadbalancers/"+lb, nil, 204)
	h.settle()
	h.awaitState(lb, deleted)
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for _, e := range h.events {
		switch {
		case e.State != nil:
			got = append(got, strings.Join([]string{e.State.Kind, e.State.Name, e.State.Field, e.State.From, e.State.To}, " "))
			if e.State.ID != lb || e.State.Balancer != lb {
				t.Errorf("%+v", e.State)
			}
		case e.Call.Seconds < 0 || e.Call.Project != "p":
			t.Errorf("%+v", e.Call)
		case e.Call.Status >= 400 || e.Call.Operation != "":
			got = append(got, e.Call.Method+" "+e.Call.Operation)
		}
	}
	want := []string{
		"loadbalancer lb provisioning_status  PENDING_CREATE", "POST loadbalancer.create",
		"loadbalancer lb provisioning_status PENDING_CREATE ACTIVE", "loadbalancer lb operating_status OFFLINE ONLINE",
		"GET ", "loadbalancer lb provisioning_status ACTIVE PENDING_DELETE", "DELETE loadbalancer.delete",
		"loadbalancer lb provisioning_status PENDING_DELETE DELETED",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
