package cloud

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func named(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// TestNames is row cpo 2004, 2624, 1371: names of 255 characters at most, and different for different Services.
func TestNames(t *testing.T) {
	if got := balancerName("kubernetes", named("default", "web")); got != "kube_service_kubernetes_default_web" {
		t.Error(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.StringMatching(`[a-z]([-a-z0-9]{0,60}[a-z0-9])?`)
		cluster := rapid.StringMatching(`[a-z]{1,250}`).Draw(t, "cluster")
		a, b := named(label.Draw(t, "ns"), label.Draw(t, "name")), named(label.Draw(t, "ns2"), label.Draw(t, "name2"))
		x, y := balancerName(cluster, a), balancerName(cluster, b)
		if same := a.Namespace == b.Namespace && a.Name == b.Name; same != (x == y) {
			t.Fatalf("%q and %q", x, y)
		}
		name := partName("listener", 65535, x)
		if len(name) > 255 || !isPartOf(name, "listener", x) || (x != y && isPartOf(name, "listener", y)) {
			t.Fatalf("%d characters: %q", len(name), name)
		}
	})
}

func TestIsPartOf(t *testing.T) {
	for name, want := range map[string]bool{
		"pool_0_b": true, "pool_12_b": true, "pool__b": false, "pool_x_b": false, "pool_0_bb": false, "pool_0_a_b": false, "listener_0_b": false, "b": false,
	} {
		if got := isPartOf(name, "pool", "b"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestChoose is what may be taken for a Service's balancer.
func TestChoose(t *testing.T) {
	const base = "kube_service_c_ns_web"
	mine := []string{base, "kube_cluster_c1"}
	lb := func(id, status string, tags ...string) haveBalancer {
		return haveBalancer{ID: id, Name: base, Status: status, Tags: tags}
	}
	for _, tt := range []struct {
		name, row   string
		all         []haveBalancer
		alive       string
		dying       int
		namesake    string
		ambiguously bool
	}{
		{name: "none"},
		{name: "ours", all: []haveBalancer{lb("a", "ACTIVE", mine...)}, alive: "a"},
		{name: "one whose making was never answered", row: "cpo 2753", all: []haveBalancer{lb("a", "PENDING_CREATE", mine...)}, alive: "a"},
		{name: "without tags, as before 2.5", all: []haveBalancer{lb("a", "ACTIVE")}, alive: "a"},
		{name: "made by the community's provider", all: []haveBalancer{lb("a", "ACTIVE", base)}, alive: "a"},
		{name: "the dying one is ignored", row: "cpo 576", all: []haveBalancer{lb("a", "PENDING_DELETE", mine...), lb("b", "ACTIVE", mine...)}, alive: "b", dying: 1},
		{name: "dead", all: []haveBalancer{lb("a", "DELETED", mine...)}},
		{name: "two are an error", row: "cpo 2004, 2624, 1371", all: []haveBalancer{lb("a", "ACTIVE", base), lb("b", "ACTIVE", base)}, ambiguously: true},
		{name: "another cluster's", row: "cpo 2004, 2624, 1371", all: []haveBalancer{lb("a", "ACTIVE", base, "kube_cluster_c2")}, namesake: "a"},
		{name: "ours beside another cluster's", row: "cpo 2004, 2624, 1371", all: []haveBalancer{lb("a", "ACTIVE", base, "kube_cluster_c2"), lb("b", "ACTIVE", mine...)}, alive: "b", namesake: "a"},
		{name: "once ours, now shared by others", all: []haveBalancer{lb("a", "ACTIVE", "kube_service_c_ns_other", "kube_cluster_c1")}},
		{name: "a longer name, should the API find it", all: []haveBalancer{{ID: "a", Name: base + "-2", Status: "ACTIVE"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := choose(tt.all, base, "c1")
			if (err != nil) != tt.ambiguously {
				t.Fatal(err)
			}
			alive, namesake := "", ""
			if f.Alive != nil {
				alive = f.Alive.ID
			}
			if f.Namesake != nil {
				namesake = f.Namesake.ID
			}
			if alive != tt.alive || namesake != tt.namesake || len(f.Dying) != tt.dying {
				t.Errorf("alive %q, namesake %q, %d dying", alive, namesake, len(f.Dying))
			}
		})
	}
}

func TestOrphans(t *testing.T) {
	lb := func(id, name, status string, tags ...string) haveBalancer {
		return haveBalancer{ID: id, Name: name, Status: status, Tags: append(tags, "kube_cluster_c1")}
	}
	all := []haveBalancer{
		lb("used", "kube_service_c_ns_web", "ACTIVE", "kube_service_c_ns_web"),
		lb("untagged", "kube_service_c_ns_web", "ACTIVE"),
		lb("orphan", "kube_service_c_ns_gone", "ACTIVE", "kube_service_c_ns_gone"),
		lb("failed orphan", "kube_service_c_ns_gone", "ERROR"),
		lb("shared", "kube_service_c_ns_gone", "ACTIVE", "kube_service_c_ns_web"),
		lb("shared by another cluster", "kube_service_c_ns_gone", "ACTIVE", "kube_service_d_ns_web"),
		lb("busy", "kube_service_c_ns_gone", "PENDING_DELETE"),
		lb("made by hand", "mine", "ACTIVE"),
		{ID: "another cluster's", Name: "kube_service_c_ns_gone", Status: "ACTIVE", Tags: []string{"kube_cluster_c2"}},
	}
	var got []string
	for _, b := range orphans(all, "c1", map[string]bool{"kube_service_c_ns_web": true}) {
		got = append(got, b.ID)
	}
	if d := cmp.Diff([]string{"orphan", "failed orphan"}, got); d != "" {
		t.Error(d)
	}
}

func TestSubnetPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		tags    bool
		yes, no string
	}{
		{"public", false, "public", "private"},
		{"pub*", false, "public", "private"},
		{"!pub*", false, "private", "public"},
		{"~^pub.*[0-9]$", false, "public1", "public"},
		{"!~^pub", false, "private", "public"},
		{"a,b", true, "b,c", "c"},
		{"&a,b", true, "a,b,c", "b,c"},
		{"!a,b", true, "c", "b"},
		{"!&a,b", true, "b", "a,b"},
	} {
		match := func(value string) bool {
			if tt.tags {
				return tagPattern(tt.pattern)(strings.Split(value, ","))
			}
			f, err := namePattern(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			return f(value)
		}
		if !match(tt.yes) || match(tt.no) {
			t.Errorf("%q: %q %v, %q %v", tt.pattern, tt.yes, match(tt.yes), tt.no, match(tt.no))
		}
	}
	for _, bad := range []string{"[", "~("} {
		if _, err := subnetPattern(bad, ""); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}
