package octavia

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (h *harness) names(query string) string {
	h.Helper()
	body := h.do("GET", "/v2.0/lbaas/loadbalancers"+query, nil, 200)
	var out []string
	for _, o := range body["loadbalancers"].([]any) {
		out = append(out, fmt.Sprint(o.(map[string]any)["name"]))
	}
	return strings.Join(out, " ")
}

func TestListQueries(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	for i, name := range []string{"c", "a", "b", "a"} {
		h.make("loadbalancer", "loadbalancers", obj{"name": name, "vip_subnet_id": subnet, "admin_state_up": i != 2,
			"tags": []string{"all", "n" + fmt.Sprint(i)}})
	}
	for query, want := range map[string]string{
		"":                                 "c a b a",
		"?sort=name":                       "a a b c",
		"?sort=name:desc":                  "c b a a",
		"?sort=admin_state_up,name:desc":   "b c a a",
		"?sort_key=name&sort_dir=desc":     "c b a a",
		"?sort_key=name":                   "a a b c",
		"?name=a":                          "a a",
		"?name=a&admin_state_up=false":     "",
		"?admin_state_up=False":            "b",
		"?admin_state_up=1":                "c a a",
		"?tags=all":                        "c a b a",
		"?tags=all,n1":                     "a",
		"?tags=all&tags=n2":                "b",
		"?tags-any=n0,n3":                  "c a",
		"?not-tags=all,n1":                 "c b a",
		"?not-tags-any=n0,n1":              "b a",
		"?limit=2":                         "c a",
		"?limit=0":                         "c a b a",
		"?limit=infinite":                  "c a b a",
		"?vip_subnet_id=" + subnet:         "c a b a",
		"?provisioning_status=ACTIVE":      "c a b a",
		"?provisioning_status=ERROR":       "",
		"?vip_address=198.0.2.5&name=b":    "b",
		"?flavor_id=None":                  "",
		"?project_id=other":                "",
		"?fields=name&sort=name:asc":       "a a b c",
		"?fields=name,bogus&sort=name:asc": "a a b c",
	} {
		if got := h.names(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"?bogus=1":            "One or more arguments are either duplicate or invalid",
		"?name=a&name=b":      "One or more arguments are either duplicate or invalid",
		"?loadbalancer_id=x":  "One or more arguments are either duplicate or invalid",
		"?sort=bogus":         "Supplied sort key 'bogus' is not valid.",
		"?sort=name:sideways": "Supplied sort direction 'sideways' is not valid.",
		"?sort_key=bogus":     "Supplied sort key 'bogus' is not valid.",
		"?marker=x":           "Supplied pagination marker 'x' is not valid.",
	} {
		if got := h.do("GET", "/v2.0/lbaas/loadbalancers"+query, nil, 400)["faultstring"]; got != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	if got := h.do("GET", "/v2.0/lbaas/loadbalancers?limit=x", nil, 400)["description"]; got != "Supplied pagination limit 'x' is not valid." {
		t.Error(got)
	}
}

// TestPages walks through a list by its links, to the end and back.
func TestPages(t *testing.T) {
	h := newHarness(t, Options{Manual: true})
	for i := range 7 {
		h.make("loadbalancer", "loadbalancers", obj{"name": fmt.Sprint("n", i%3), "vip_subnet_id": subnet})
	}
	all := strings.Fields(h.names("?sort=name:desc"))
	var forward, last []string
	next, previous := "/v2.0/lbaas/loadbalancers?limit=2&sort=name:desc", ""
	for next != "" {
		var page []string
		page, next, previous = h.page(next, previous)
		if len(page) > 0 {
			last = page
		}
		forward = append(forward, page...)
	}
	if d := cmp.Diff(all, forward); d != "" {
		t.Error(d)
	}
	back := last
	for previous != "" {
		page, _, before := h.page(previous, "")
		back = append(page, back...)
		previous = before
	}
	if d := cmp.Diff(all, back); d != "" {
		t.Error("backwards:", d)
	}
}

// page gives the names on a page and its links; without a link back, the one before stays.
func (h *harness) page(path, before string) (names []string, next, previous string) {
	h.Helper()
	previous = before
	body := h.do("GET", path, nil, 200)
	for _, o := range body["loadbalancers"].([]any) {
		names = append(names, o.(map[string]any)["name"].(string))
	}
	for _, l := range body["loadbalancers_links"].([]any) {
		link := l.(map[string]any)
		u, err := url.Parse(link["href"].(string))
		if err != nil || u.Host != "example.com" {
			h.Fatal(link)
		}
		if link["rel"] == "next" {
			next = u.RequestURI()
		} else {
			previous = u.RequestURI()
		}
	}
	if len(names) == 0 {
		previous = before
	}
	return names, next, previous
}

// TestPrefix wants links to have the prefix that a server in front has taken off.
func TestPrefix(t *testing.T) {
	h := newHarness(t, Options{Manual: true, Knobs: Knobs{Version: "v2.5"}})
	r := httptest.NewRequest("GET", "/load-balancer/", nil)
	r.URL.Path = "/"
	w := httptest.NewRecorder()
	h.s.ServeHTTP(w, r)
	if got := w.Body.String(); !strings.Contains(got, `"http://example.com/load-balancer/v2"`) ||
		!strings.HasSuffix(got, `{"id":"v2.5","status":"CURRENT","updated":"2019-01-21T00:00:00Z","links":[{"href":"http://example.com/load-balancer/v2","rel":"self"}]}]}`) {
		t.Error(got)
	}
}
