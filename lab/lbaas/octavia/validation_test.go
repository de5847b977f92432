package octavia

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRefusals wants what is wrong to be said as Octavia says it: a status and a fault.
func TestRefusals(t *testing.T) {
	h := newHarness(t, Options{Manual: true, Limits: Limits{Body: 2000}})
	s := h.stack(false)
	udp := h.make("pool", "pools", obj{"loadbalancer_id": s.lb, "protocol": "UDP", "lb_algorithm": "ROUND_ROBIN"})
	other := h.balancer()
	lb := func(more string) string { return `{"loadbalancer":{"vip_subnet_id":"` + subnet + `",` + more + `}}` }
	listener := func(more string) string {
		return `{"listener":{"loadbalancer_id":"` + s.lb + `","protocol_port":99,` + more + `}}`
	}
	monitor := func(more string) string {
		return `{"healthmonitor":{"delay":5,"timeout":5,"max_retries":1,` + more + `}}`
	}
	pool := func(more string) string {
		return `{"pool":{"loadbalancer_id":"` + s.lb + `","lb_algorithm":"ROUND_ROBIN",` + more + `}}`
	}
	for _, row := range []struct {
		method, path, body string
		status             int
		fault              string
	}{
		{"POST", "loadbalancers", `[]`, 400, "Request must be a JSON dict"},
		{"POST", "loadbalancers", `{} {}`, 400, "Request is not in valid JSON format"},
		{"POST", "loadbalancers", `{}`, 400, "Invalid input for field/attribute loadbalancer. Value: 'None'. Mandatory field missing."},
		{"POST", "loadbalancers", `{"loadbalancer":7}`, 400, "Wrong type. Expected '<class 'dict'>', got '<class 'int'>'"},
		{"POST", "loadbalancers", `{"cat":{}}`, 400, "Unknown attribute for argument load_balancer: cat"},
		{"POST", "loadbalancers", strings.Repeat(" ", 3000), 413, "Request is too large: more than 2000 bytes"},
		{"POST", "loadbalancers", lb(`"name":7`), 400, "Wrong type. Expected '<class 'str'>', got '<class 'int'>'"},
		{"POST", "loadbalancers", lb(`"admin_state_up":"maybe"`), 400, "Value not an unambiguous boolean: maybe"},
		{"POST", "loadbalancers", lb(`"tags":"a"`), 400, "Wrong type. Expected '<class 'list'>', got '<class 'str'>'"},
		{"POST", "loadbalancers", lb(`"tags":[null]`), 400, "Value: '[None]'."},
		{"POST", "loadbalancers", lb(`"listeners":[{"protocol":"TCP"}]`), 400, "field/attribute protocol_port. Value: 'None'. Mandatory field missing."},
		{"POST", "loadbalancers", lb(`"listeners":[{"protocol":"TCP","protocol_port":80,"bogus":1}]`), 400, "Unknown attribute for argument load_balancer.loadbalancer.listeners: bogus"},
		{"POST", "loadbalancers", lb(`"listeners":[{"protocol":"TCP","protocol_port":80},{"protocol":"HTTP","protocol_port":80}]`), 409, "Another Listener on this Load Balancer is already using protocol TCP and protocol_port 80"},
		{"POST", "loadbalancers", lb(`"listeners":[{"protocol":"TCP","protocol_port":80,"default_pool":{"name":"x"}}]`), 400, "Pool 'x' was referenced but no full definition was found."},
		{"POST", "loadbalancers", lb(`"pools":[{"name":"x","protocol":"TCP"}]`), 400, "Pool definition for 'x' missing required attribute: lb_algorithm"},
		{"POST", "loadbalancers", lb(`"pools":[{"name":"x","protocol":"TCP","lb_algorithm":"SOURCE_IP"},{"name":"x","protocol":"TCP","lb_algorithm":"SOURCE_IP"}]`), 400, "Pool names must be unique"},
		{"POST", "loadbalancers", lb(`"pools":[{"name":"x","protocol":"TCP","lb_algorithm":"SOURCE_IP","members":[{"address":"10.0.0.1","protocol_port":1},{"address":"10.0.0.1","protocol_port":1}]}]`), 409, "Another member on this pool is already using ip 10.0.0.1 on protocol_port 1"},
		{"POST", "listeners", listener(`"protocol":"TERMINATED_HTTPS"`), 400, "An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners."},
		{"POST", "listeners", listener(`"protocol":"TCP","default_tls_container_ref":"x"`), 400, "only allowed on TERMINATED_HTTPS"},
		{"POST", "listeners", listener(`"protocol":"HTTP","insert_headers":{"X-Bogus":"true"}`), 400, "['X-Bogus'] is not a valid option for insert_headers"},
		{"POST", "listeners", listener(`"protocol":"HTTP","insert_headers":{"X-SSL-Issuer":"true"}`), 400, "['X-SSL-Issuer'] is not a valid option for HTTP protocol listener."},
		{"POST", "listeners", listener(`"protocol":"HTTP","default_pool_id":"` + s.pool + `"`), 400, "The pool protocol 'TCP' is invalid while the listener protocol is 'HTTP'."},
		{"POST", "listeners", listener(`"protocol":"TCP","default_pool_id":"` + subnet + `"`), 404, "Pool " + subnet + " not found."},
		{"POST", "listeners", listener(`"protocol":"TCP","connection_limit":-2`), 400, "Value should be greater or equal to -1"},
		{"POST", "listeners", listener(`"protocol":"TCP","allowed_cidrs":["10.0.0.1/8"]`), 400, "Value should be IPv4 or IPv6 CIDR format"},
		{"PUT", "listeners/" + s.listener, `{"listener":{"default_pool_id":"` + udp + `"}}`, 400, "The pool protocol 'UDP' is invalid"},
		{"PUT", "listeners/" + s.listener, `{"listener":{"insert_headers":{"X-Forwarded-For":"true"}}}`, 400, "insert-headers is not a valid option for a TCP protocol listener."},
		{"PUT", "listeners/nobody", `{"listener":{}}`, 404, "Listener nobody not found."},
		{"POST", "pools", pool(`"protocol":"UDP","session_persistence":{"type":"HTTP_COOKIE"}`), 400, "Session persistence of type HTTP_COOKIE is not supported for UDP protocol pools."},
		{"POST", "pools", pool(`"protocol":"UDP","session_persistence":{"type":"SOURCE_IP","cookie_name":"a"}`), 400, "only accepts: type, persistence_timeout, persistence_granularity."},
		{"POST", "pools", pool(`"protocol":"HTTP","session_persistence":{"type":"APP_COOKIE"}`), 400, `Field "cookie_name" must be specified`},
		{"POST", "pools", pool(`"protocol":"HTTP","session_persistence":{"type":"HTTP_COOKIE","cookie_name":"a"}`), 400, `Field "cookie_name" can only be specified`},
		{"POST", "pools", pool(`"protocol":"HTTP","session_persistence":{"type":"APP_COOKIE","cookie_name":"a(b"}`), 400, `Supplied "cookie_name" is invalid.`},
		{"POST", "pools", pool(`"protocol":"HTTP","session_persistence":{}`), 400, "field/attribute type. Value: 'None'. Mandatory field missing."},
		{"POST", "pools", pool(`"protocol":"HTTP","crl_container_ref":"x"`), 400, "A CA certificate reference is required"},
		{"POST", "pools", `{"pool":{"loadbalancer_id":"` + other + `","listener_id":"` + s.listener + `","protocol":"TCP","lb_algorithm":"SOURCE_IP"}}`, 404, "Listener " + s.listener + " not found."},
		{"POST", "healthmonitors", monitor(`"type":"TCP","pool_id":"` + subnet + `"`), 404, "Pool " + subnet + " not found."},
		{"POST", "healthmonitors", monitor(`"type":"TCP","url_path":"/x","pool_id":"` + s.pool + `"`), 400, "url_path is not a valid option for health monitors of type TCP"},
		{"POST", "healthmonitors", monitor(`"type":"HTTP","domain_name":"a.b","pool_id":"` + s.pool + `"`), 400, "'http_version' must be specified when 'domain_name' is provided."},
		{"POST", "healthmonitors", monitor(`"type":"HTTP","domain_name":"a.b","http_version":1.0,"pool_id":"` + s.pool + `"`), 400, "http_version 1.0 is not a valid option for health monitors HTTP 1.1 domain name health check"},
		{"POST", "healthmonitors", monitor(`"type":"HTTP","http_version":2,"pool_id":"` + s.pool + `"`), 400, "field/attribute http_version. Value: '2.0'."},
		{"POST", "healthmonitors", monitor(`"type":"HTTP","url_path":"x","pool_id":"` + s.pool + `"`), 400, "Not a valid URL Path: x"},
		{"POST", "healthmonitors", monitor(`"type":"HTTP","expected_codes":"abc","pool_id":"` + s.pool + `"`), 400, "Value should match the pattern"},
		{"POST", "healthmonitors", monitor(`"type":"PING","pool_id":"` + udp + `"`), 400, "The associated pool protocol is UDP, so only a UDP-CONNECT/SCTP/TCP/HTTP health monitor is supported."},
		{"POST", "healthmonitors", `{"healthmonitor":{"delay":1,"timeout":1,"max_retries":1,"type":"UDP-CONNECT","pool_id":"` + udp + `"}}`, 400, "The request delay value 1 should be larger than 3 for UDP-CONNECT health monitor type."},
		{"PUT", "pools/" + s.pool + "/members", `{"members":{}}`, 400, "Wrong type. Expected '<class 'list'>'"},
		{"PUT", "pools/" + s.pool + "/members", `{}`, 400, "field/attribute members. Value: 'None'. Mandatory field missing."},
		{"PUT", "pools/" + s.pool + "/members", `{"members":[{"address":"10.9.9.9","protocol_port":1},{"address":"10.9.9.9","protocol_port":1}]}`, 409, "Another member on this pool"},
		{"PUT", "pools/" + s.pool + "/members", `{"members":[{"address":"10.9.9.9","protocol_port":1,"bogus":1}]}`, 400, "Unknown attribute for argument members_.members: bogus"},
		{"PUT", "pools/nobody/members", `{"members":[]}`, 404, "Pool nobody not found."},
		{"GET", "pools/" + udp + "/members/" + s.a, ``, 404, "Member " + s.a + " not found."},
		{"PUT", "quotas/p", `{"quota":{"pool":-2}}`, 400, "Value should be greater or equal to -1"},
		{"DELETE", "quotas/nobody", ``, 404, "Quotas nobody not found."},
		{"GET", "providers/nosuch/flavor_capabilities", ``, 400, "Provider 'nosuch' is not enabled."},
	} {
		answer := h.do(row.method, "/v2.0/lbaas/"+row.path, row.body, row.status)
		text, _ := answer["faultstring"].(string)
		if text == "" {
			text, _ = answer["description"].(string)
		}
		if !strings.Contains(text, row.fault) {
			t.Errorf("%s %s %s\n  have %s\n  want %s", row.method, row.path, row.body, text, row.fault)
		}
	}
	if got := h.states("loadbalancers/" + s.lb); got != "ACTIVE ONLINE" {
		t.Error("after what was refused the balancer is", got)
	}
}

func TestPaths(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	s := h.stack(false)
	for _, prefix := range []string{"/v2/lbaas/", "/v2.0/lbaas/", "/v2.0/", "/v2/"} {
		h.do("GET", prefix+"loadbalancers/"+s.lb, nil, 200)
		h.do("GET", prefix+"pools/"+s.pool+"/members/", nil, 200)
	}
	for path, want := range map[string]int{
		"/": 200, "/v2.0": 200, "/v2.0/octavia": 200, "/healthcheck": 200, "/healthcheck/x": 404, "/v3": 404,
		"/v2.0/lbaas/members": 404, "/v2.0/lbaas/rules": 404, "/v2.0/lbaas/loadbalancers/" + s.lb + "/nosuch": 404,
		"/v2.0/lbaas/loadbalancers/" + s.lb + "/status/x": 404, "/v2.0/lbaas/pools/" + s.pool + "/members/x/y": 404,
		"/v2.0/lbaas/listeners/" + s.listener + "/status": 404, "/v2.0/lbaas/providers/x": 404, "/v2.0/lbaas/quotas/p/x": 404,
		"/v2.0/lbaas/quotas/p/default": 200, "/v2.0/octavia/amphorae/x": 404, "/v2.0/octavia/nosuch": 404,
	} {
		h.do("GET", path, nil, want)
	}
	for _, call := range [][2]string{
		{"POST", "/"}, {"DELETE", "/v2.0/lbaas/loadbalancers"}, {"POST", "/v2.0/lbaas/loadbalancers/x"}, {"PUT", "/v2.0/lbaas/listeners"},
		{"POST", "/v2.0/lbaas/loadbalancers/x/failover"}, {"PUT", "/v2.0/lbaas/loadbalancers/x/stats"}, {"POST", "/v2.0/lbaas/providers"},
		{"DELETE", "/v2.0/octavia/amphorae"}, {"POST", "/v2.0/lbaas/quotas"},
	} {
		h.do(call[0], call[1], "{}", 405)
	}
}

func TestOperationOf(t *testing.T) {
	for call, want := range map[string]string{
		"GET /":                                           "",
		"GET /v2.0/lbaas/nosuch":                          "",
		"PATCH /v2.0/lbaas/loadbalancers/x":               "",
		"POST /v2.0/lbaas/loadbalancers":                  "loadbalancer.create",
		"GET /v2/loadbalancers?name=x":                    "loadbalancer.list",
		"GET /v2.0/lbaas/loadbalancers/x":                 "loadbalancer.show",
		"DELETE /v2.0/lbaas/loadbalancers/x?cascade=1":    "loadbalancer.delete",
		"GET /v2.0/lbaas/loadbalancers/x/status":          "loadbalancer.status",
		"GET /v2.0/lbaas/loadbalancers/x/stats":           "loadbalancer.stats",
		"PUT /v2.0/lbaas/loadbalancers/x/failover":        "loadbalancer.failover",
		"PUT /v2.0/lbaas/listeners/x":                     "listener.update",
		"GET /v2.0/lbaas/listeners/x/stats":               "listener.stats",
		"POST /v2.0/lbaas/pools/x/members":                "member.create",
		"PUT /v2.0/lbaas/pools/x/members":                 "member.batch_update",
		"DELETE /v2.0/lbaas/pools/x/members/y":            "member.delete",
		"GET /v2.0/lbaas/healthmonitors":                  "healthmonitor.list",
		"POST /v2.0/lbaas/l7policies":                     "l7policy.create",
		"GET /v2.0/lbaas/l7policies/x/rules":              "l7rule.list",
		"PUT /v2.0/lbaas/quotas/x":                        "quota.update",
		"GET /v2.0/lbaas/quotas/defaults":                 "quota.defaults",
		"GET /v2.0/lbaas/providers":                       "provider.list",
		"GET /v2.0/lbaas/providers/x/flavor_capabilities": "provider.flavor_capabilities",
		"POST /v2.0/lbaas/flavors":                        "flavor.create",
		"GET /v2.0/lbaas/availabilityzones":               "availabilityzone.list",
		"DELETE /v2.0/lbaas/availabilityzoneprofiles/x":   "availabilityzoneprofile.delete",
		"GET /v2.0/octavia/amphorae":                      "amphora.list",
	} {
		method, path, _ := strings.Cut(call, " ")
		if got := OperationOf(httptest.NewRequest(method, path, http.NoBody)); got != want {
			t.Errorf("%s: %q, want %q", call, got, want)
		}
	}
}
