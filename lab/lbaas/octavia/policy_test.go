package octavia

import (
	"strings"
	"testing"
)

// TestRoles is the policy as a table: who may do what in their own project and in another.
func TestRoles(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	s := h.stack(false) // of project p
	calls := map[string]struct{ method, path, body string }{
		"list":     {"GET", "loadbalancers", ""},
		"show":     {"GET", "loadbalancers/" + s.lb, ""},
		"status":   {"GET", "loadbalancers/" + s.lb + "/status", ""},
		"stats":    {"GET", "listeners/" + s.listener + "/stats", ""},
		"members":  {"GET", "pools/" + s.pool + "/members", ""},
		"create":   {"POST", "listeners", `{"listener":{"loadbalancer_id":"` + s.lb + `","protocol":"TCP","protocol_port":80}}`},
		"batch":    {"PUT", "pools/" + s.pool + "/members", `{"members":[{"address":"169.254.169.254","protocol_port":1}]}`},
		"flavors":  {"GET", "flavors", ""},
		"profiles": {"GET", "flavorprofiles", ""},
		"flavor":   {"POST", "flavors", `{"flavor":{"name":"f","flavor_profile_id":"` + subnet + `"}}`},
		"quota":    {"GET", "quotas/p", ""},
		"setquota": {"PUT", "quotas/p", `{"quota":{"pool":null}}`},
		"failover": {"PUT", "loadbalancers/" + s.lb + "/failover", ""},
		"amphorae": {"GET", "../octavia/amphorae", ""},
	}
	all := strings.Fields("list show status stats members create batch flavors profiles flavor quota setquota failover amphorae")
	// What is allowed is answered by what the call deserves: 409 for the listener that is there, 400 for the address.
	passed := map[string]int{"create": 409, "batch": 400, "flavor": 400, "setquota": 202, "failover": 202}
	for _, row := range []struct{ project, roles, may string }{
		{"p", "member", "list show status stats members create batch flavors quota"},
		{"p", "load-balancer_member", "list show status stats members create batch flavors quota"},
		{"p", "reader", "list show status stats members flavors quota"},
		{"p", "load-balancer_observer", "list show status stats members flavors quota"},
		{"q", "member", "list flavors"},
		{"q", "load-balancer_global_observer", "list show status stats members flavors quota"},
		{"q", "load-balancer_quota_admin", "quota setquota"},
		{"q", "admin", strings.Join(all, " ")},
		{"q", "load-balancer_admin", strings.Join(all, " ")},
		{"p", "", ""},
		{"", "member", "flavors"},
	} {
		h.who = &Identity{ProjectID: row.project}
		if row.roles != "" {
			h.who.Roles = []string{row.roles}
		}
		for _, name := range all {
			c := calls[name]
			want := 403
			if strings.Contains(" "+row.may+" ", " "+name+" ") {
				want = 200
				if passed[name] != 0 {
					want = passed[name]
				}
			}
			t.Run(row.project+"/"+row.roles+"/"+name, func(t *testing.T) {
				h.T = t
				path := "/v2.0/lbaas/" + c.path
				if name == "amphorae" {
					path = "/v2.0/octavia/amphorae"
				}
				answer := h.do(c.method, path, c.body, want)
				if want == 403 && answer["faultstring"] != "Policy does not allow this request to be performed." {
					t.Error(answer)
				}
				h.settle()
			})
		}
	}
	h.T = t
}

// TestProjects shows nobody what belongs to others.
func TestProjects(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	for _, project := range []string{"p", "q", "q"} {
		h.who = &Identity{ProjectID: project, Roles: []string{"member"}}
		h.balancer()
	}
	count := func(who Identity, query string) int {
		h.Helper()
		h.who = &who
		return len(h.do("GET", "/v2.0/lbaas/loadbalancers"+query, nil, 200)["loadbalancers"].([]any))
	}
	member, admin := []string{"member"}, []string{"admin"}
	for _, row := range []struct {
		who   Identity
		query string
		want  int
	}{
		{Identity{"p", member}, "", 1}, {Identity{"q", member}, "", 2}, {Identity{"r", member}, "", 0},
		{Identity{"p", admin}, "", 3}, {Identity{"p", admin}, "?project_id=q", 2},
	} {
		if got := count(row.who, row.query); got != row.want {
			t.Errorf("%+v %s: %d, want %d", row.who, row.query, got, row.want)
		}
	}
	h.who = &Identity{"p", member}
	h.do("GET", "/v2.0/lbaas/loadbalancers?project_id=q", nil, 403)
	h.do("POST", "/v2.0/lbaas/loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet, "project_id": "q"}}, 403)
	h.who = nil // without Keystone everything is shown
	if got := len(h.do("GET", "/v2.0/lbaas/loadbalancers", nil, 200)["loadbalancers"].([]any)); got != 3 {
		t.Error(got)
	}
}

func TestDefaultProject(t *testing.T) {
	h := newHarness(t, Options{Manual: true, DefaultProject: "everybody"})
	delete(h.headers, "X-Project-Id")
	lb := h.balancer()
	if got := h.show("loadbalancers/" + lb)["project_id"]; got != "everybody" {
		t.Error(got)
	}
}
