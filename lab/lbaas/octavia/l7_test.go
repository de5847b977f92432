package octavia

import (
	"strings"
	"testing"

	"proxylab/lab/lbaas/plane"

	"github.com/google/go-cmp/cmp"
)

// order gives the names of a listener's policies by position.
func (h *harness) order(listener string) string {
	h.Helper()
	body := h.do("GET", "/v2.0/lbaas/l7policies?listener_id="+listener+"&sort=position", nil, 200)
	var out []string
	for i, p := range body["l7policies"].([]any) {
		o := p.(map[string]any)
		if o["position"] != float64(i+1) {
			h.Errorf("policy %v has position %v, is number %d", o["name"], o["position"], i+1)
		}
		out = append(out, o["name"].(string))
	}
	return strings.Join(out, "")
}

func TestPolicyPositions(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	listener := h.make("listener", "listeners", obj{"loadbalancer_id": h.balancer(), "protocol": "HTTP", "protocol_port": 80})
	ids := map[string]string{}
	add := func(name string, more obj) {
		t.Helper()
		body := obj{"listener_id": listener, "name": name, "action": "REJECT"}
		for k, v := range more {
			body[k] = v
		}
		ids[name] = h.make("l7policy", "l7policies", body)
	}
	want := func(what, want string) {
		t.Helper()
		if got := h.order(listener); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	add("a", nil)
	add("b", nil)
	add("c", obj{"position": 1})
	want("new at the end, or where it wants", "cab")
	add("d", obj{"position": 1000})
	want("far behind the end", "cabd")
	move := func(name string, to int) {
		h.do("PUT", "/v2.0/lbaas/l7policies/"+ids[name], obj{"l7policy": obj{"position": to}}, 200)
		h.settle()
	}
	move("c", 3)
	want("forward", "abcd")
	move("d", 1)
	want("backward", "dabc")
	h.do("DELETE", "/v2.0/lbaas/l7policies/"+ids["a"], nil, 204)
	want("while it goes", "dabc")
	h.settle()
	want("gone", "dbc")
	if got := len(h.show("listeners/" + listener)["l7policies"].([]any)); got != 3 {
		t.Error(got)
	}
}

func TestPolicyActions(t *testing.T) {
	data := &recorder{}
	h := newHarness(t, Options{Manual: true, Apply: data.apply})
	lb := h.balancer()
	listener := h.make("listener", "listeners", obj{"loadbalancer_id": lb, "protocol": "HTTP", "protocol_port": 80})
	tcp := h.make("listener", "listeners", obj{"loadbalancer_id": lb, "protocol": "TCP", "protocol_port": 81})
	pool := h.make("pool", "pools", obj{"loadbalancer_id": lb, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"})
	id := h.make("l7policy", "l7policies", obj{"listener_id": listener, "action": "REDIRECT_TO_POOL", "redirect_pool_id": pool,
		"rules": []obj{{"type": "HEADER", "compare_type": "EQUAL_TO", "key": "X-A", "value": "b", "invert": true}}})
	if got := h.do("DELETE", "/v2.0/lbaas/pools/"+pool, nil, 409)["faultstring"]; got != "Pool "+pool+" is in use by L7 policy "+id {
		t.Error(got)
	}
	if got := h.show("pools/" + pool)["listeners"]; !cmp.Equal(got, []any{map[string]any{"id": listener}}) {
		t.Error(got)
	}
	want := plane.L7Policy{ID: id, Action: "REDIRECT_TO_POOL", AdminUp: true, RedirectPool: pool,
		Rules: []plane.L7Rule{{Type: "HEADER", CompareType: "EQUAL_TO", Key: "X-A", Value: "b", Invert: true, AdminUp: true}}}
	if d := cmp.Diff(want, data.last(t)[0].Listeners[0].Policies[0]); d != "" {
		t.Error(d)
	}
	o := h.do("PUT", "/v2.0/lbaas/l7policies/"+id, obj{"l7policy": obj{"action": "REDIRECT_TO_URL", "redirect_url": "https://a.example/x"}}, 200)
	if p := o["l7policy"].(map[string]any); p["redirect_pool_id"] != nil || p["redirect_http_code"] != 302.0 || p["provisioning_status"] != pendingUpdate {
		t.Error(p)
	}
	h.settle()
	h.do("DELETE", "/v2.0/lbaas/pools/"+pool, nil, 204)
	h.settle()
	for what, row := range map[string]struct {
		body obj
		want string
	}{
		"no URL":         {obj{"listener_id": listener, "action": "REDIRECT_TO_URL"}, "Invalid L7 Policy arguments: redirect_url must not be None"},
		"no pool":        {obj{"listener_id": listener, "action": "REDIRECT_TO_POOL"}, "Invalid L7 Policy arguments: redirect_pool_id or redirect_pool must not be None"},
		"TCP":            {obj{"listener_id": tcp, "action": "REJECT"}, "Validation failure: L7 policies are only supported on HTTP and TERMINATED_HTTPS listeners, not on TCP."},
		"bad URL":        {obj{"listener_id": listener, "action": "REDIRECT_TO_URL", "redirect_url": "a b"}, "Invalid input for field/attribute redirect_url. Value: 'a b'. Not a valid URL: a b"},
		"bad code":       {obj{"listener_id": listener, "action": "REJECT", "redirect_http_code": 200}, "Invalid input for field/attribute redirect_http_code. Value: '200'. Value should be one of: 301, 302, 303, 307, 308"},
		"unknown":        {obj{"listener_id": listener, "action": "REJECT", "rules": []obj{{"bogus": 1}}}, "Unknown attribute for argument l7policy_.l7policy.rules: bogus"},
		"rule needs key": {obj{"listener_id": listener, "action": "REJECT", "rules": []obj{{"type": "COOKIE", "compare_type": "EQUAL_TO", "value": "x"}}}, "Validation failure: Invalid L7 Rule: L7 rule type requires a key"},
	} {
		if got := h.do("POST", "/v2.0/lbaas/l7policies", obj{"l7policy": row.body}, 400)["faultstring"]; got != row.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestRules(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	listener := h.make("listener", "listeners", obj{"loadbalancer_id": h.balancer(), "protocol": "HTTP", "protocol_port": 80})
	policy := h.make("l7policy", "l7policies", obj{"listener_id": listener, "action": "REJECT"})
	rules := "l7policies/" + policy + "/rules"
	id := h.make("rule", rules, obj{"type": "PATH", "compare_type": "REGEX", "value": "^/a.*"})
	o := h.do("PUT", "/v2.0/lbaas/"+rules+"/"+id, obj{"rule": obj{"value": "/b", "compare_type": "STARTS_WITH"}}, 200)
	if r := o["rule"].(map[string]any); r["value"] != "/b" || r["type"] != "PATH" || r["provisioning_status"] != pendingUpdate {
		t.Error(r)
	}
	for _, path := range []string{"l7policies/" + policy, "listeners/" + listener} {
		if got := h.show(path)["provisioning_status"]; got != pendingUpdate {
			t.Error(path, got)
		}
	}
	if got := h.do("POST", "/v2.0/lbaas/"+rules, obj{"rule": obj{"type": "PATH", "compare_type": "EQUAL_TO", "value": "/"}}, 409)["faultstring"]; got != "L7Policy "+policy+" is immutable and cannot be updated." {
		t.Error(got)
	}
	h.settle()
	for _, bad := range []obj{
		{"type": "PATH", "compare_type": "REGEX", "value": "("}, {"type": "FILE_TYPE", "compare_type": "CONTAINS", "value": "x"},
		{"type": "HEADER", "compare_type": "EQUAL_TO", "value": "x"}, {"type": "PATH", "compare_type": "EQUAL_TO", "value": "a b"},
		{"type": "HEADER", "compare_type": "EQUAL_TO", "key": "a b", "value": "x"}, {"type": "PATH", "compare_type": "EQUAL_TO"},
		{"type": "NO", "compare_type": "EQUAL_TO", "value": "x"}, {"type": "PATH", "compare_type": "EQUAL_TO", "value": "a\nb"},
	} {
		h.do("POST", "/v2.0/lbaas/"+rules, obj{"rule": bad}, 400)
	}
	if got := h.do("GET", "/v2.0/lbaas/l7policies/nobody/rules", nil, 404); got["description"] != "L7Policy nobody not found." {
		t.Error(got)
	}
	if got := h.do("GET", "/v2.0/lbaas/l7policies/nobody", nil, 404); got["faultstring"] != "L7 Policy nobody not found." {
		t.Error(got)
	}
	for i := range 49 {
		h.make("rule", rules, obj{"type": "PATH", "compare_type": "EQUAL_TO", "value": "/" + strings.Repeat("x", i)})
	}
	h.do("POST", "/v2.0/lbaas/"+rules, obj{"rule": obj{"type": "PATH", "compare_type": "EQUAL_TO", "value": "/y"}}, 409)
	h.do("DELETE", "/v2.0/lbaas/"+rules+"/"+id, nil, 204)
	h.settle()
	h.do("GET", "/v2.0/lbaas/"+rules+"/"+id, nil, 404)
}
