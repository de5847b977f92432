package lbaas_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/octavia"
)

// TestWrongPlans are refused with all that is wrong with them.
func TestWrongPlans(t *testing.T) {
	l := serve(t, lbaas.Options{})
	for _, test := range []struct {
		plan string
		want []string
	}{
		{`nonsense`, []string{"no plan of faults"}},
		{`{"nosuch": 1}`, []string{`unknown field "nosuch"`}},
		{`{"faults": [{"operation": "listener.create", "latency": "5"}]}`, []string{"not a duration"}},
		{`{"version": "2.10", "quota": {"nosuch": 1, "pool": -2}, "faults": [
			{"operation": "listener.made", "status": 418, "nth": 1, "every": 2},
			{"status": 500}, {"operation": "*"}, {"operation": "*", "status": 500, "drop": true, "share": 2},
			{"operation": "*", "status": 500, "pending": "1s"}, {"operation": "*", "jitter": "1s"}, {"kill": "lb9"},
			{"flap": {"member": ""}}, {"edit": {"kind": "nosuch", "name": "[", "set": {}}}, {"name": "a", "kill": "active"}, {"name": "a", "kill": "active"}]}`,
			[]string{"version: ", "quota.nosuch: ", "quota.pool: ", "faults[0].operation: ", "listener.create", "faults[0].status: ", "faults[0].nth: ",
				"faults[1]: needs an operation", "faults[2]: does nothing", "faults[3].drop: ", "faults[3].share: ", "faults[4]: does several things",
				"faults[5]: does nothing", "faults[5].jitter: ", "faults[6].kill: ", "faults[7].flap.member: ", "faults[8].edit.kind: ", "faults[8].edit.name: ",
				"faults[8].edit.set: ", "faults[10].name: "}},
	} {
		text := l.admin("POST", "/faults", test.plan, 400)
		var out struct{ Problems []string }
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		all := strings.Join(out.Problems, "\n")
		for _, want := range test.want {
			if !strings.Contains(all, want) {
				t.Errorf("%s: no %q in\n%s", test.plan, want, all)
			}
		}
	}
	if on := l.admin("GET", "/faults", "", 200); strings.TrimSpace(on) != "[]" {
		t.Errorf("something was put on: %s", on)
	}
	l.admin("DELETE", "/faults/nosuch", "", 404)
}

// TestOperations: what plans may speak of is what requests are.
func TestOperations(t *testing.T) {
	known := map[string]bool{}
	for _, op := range lbaas.Operations() {
		if known[op] {
			t.Errorf("%s is there twice", op)
		}
		known[op] = true
	}
	id := "/6c3f7bb1-1111-4444-8888-000000000001"
	seen := map[string]bool{}
	for _, path := range []string{"loadbalancers", "listeners", "pools", "pools" + id + "/members", "healthmonitors", "l7policies", "l7policies" + id + "/rules",
		"flavors", "flavorprofiles", "availabilityzones", "availabilityzoneprofiles", "quotas", "quotas/defaults", "providers", "providers/amphora/flavor_capabilities",
		"providers/amphora/availability_zone_capabilities", "../octavia/amphorae"} {
		for _, end := range []string{"", id, id + "/status", id + "/stats", id + "/failover", id + "/config"} {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				at := "/v2.0/lbaas/" + path + end
				at = strings.ReplaceAll(at, "/lbaas/..", "")
				r, err := http.NewRequestWithContext(t.Context(), method, "http://x"+at, nil)
				if err != nil {
					t.Fatal(err)
				}
				if op := octavia.OperationOf(r); op != "" {
					seen[op] = true
					if !known[op] {
						t.Errorf("%s %s is %s, which no plan may speak of", method, at, op)
					}
				}
			}
		}
	}
	for op := range known {
		if !seen[op] {
			t.Errorf("no request is %s", op)
		}
	}
}
