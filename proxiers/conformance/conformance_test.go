package conformance

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func yes() *bool { v := true; return &v }
func no() *bool  { return new(bool) }

func TestJudge(t *testing.T) {
	row := Row{Area: "area", Name: "name", Known: map[string]Difference{"kube-proxy/x": {"differs so", "k1"}}}
	native, upstream := Proxier{Name: "x", Mode: "x", Native: true}, Proxier{Name: "kube-proxy/x", Mode: "x"}
	for _, tc := range []struct {
		name     string
		proxier  Proxier
		failures []string
		why      string
		want     Result
	}{
		{"holds", native, nil, "", Result{Holds: yes()}},
		{"differs", native, []string{"a", "b"}, "", Result{Holds: no(), Detail: "a; b"}},
		{"does not apply after all", native, nil, "no SCTP", Result{Detail: "no SCTP"}},
		{"differs before it turns out not to apply", native, []string{"a"}, "no SCTP", Result{Holds: no(), Detail: "a"}},
		{"differs as is known", upstream, []string{"a"}, "", Result{Holds: no(), Detail: "differs so (a)", Reported: "k1"}},
		{"known to differ, but holds", upstream, nil, "", Result{Holds: yes(), Detail: "known to differ in some cases: differs so", Reported: "k1"}},
	} {
		tc.want.Area, tc.want.Behaviour, tc.want.Proxier = row.Area, row.Name, tc.proxier.Name
		if diff := cmp.Diff(tc.want, judge(row, tc.proxier, tc.failures, tc.why)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// sample has one of each kind of result.
func sample() Document {
	return Document{
		Environment: Environment{
			Lab: "netns", Nodes: 2, Kernel: Kernel{"host", "6.1.0"}, CPUs: 4, Version: "v1",
			Backends: map[string]string{"iptables": "nft"}, Facts: []string{"nftables v1.0.6"},
		},
		Rows: []Result{
			{Area: "addresses", Behaviour: "cluster IP", Proxier: "iptables", Holds: yes(), Seconds: 1},
			{Area: "addresses", Behaviour: "cluster IP", Proxier: "kube-proxy/iptables", Holds: yes(), Seconds: 2},
			{Area: "addresses", Behaviour: "SCTP", Proxier: "iptables", Detail: "the kernel lacks it"},
			{Area: "addresses", Behaviour: "SCTP", Proxier: "kube-proxy/iptables", Detail: "the kernel lacks it"},
			{Area: "state", Behaviour: "a behaviour whose name is so long that the table has to break it into two lines", Proxier: "iptables", Holds: no(), Detail: "want local1; met timed-out: 5"},
			{Area: "state", Behaviour: "a behaviour whose name is so long that the table has to break it into two lines", Proxier: "kube-proxy/iptables", Holds: no(), Detail: "black-holed", Reported: "k19029"},
			{Area: "state", Behaviour: "last", Proxier: "iptables", Holds: yes()},
		},
	}
}

func TestTable(t *testing.T) { golden(t, "table.txt", []byte(sample().Table())) }

func TestJSON(t *testing.T) {
	b, err := sample().JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "document.json", b)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (write it anew with -update): %s", path, diff)
	}
}

func TestDiffering(t *testing.T) {
	native, upstream := Proxier{Name: "iptables"}, Proxier{Name: "kube-proxy/iptables"}
	if differ, of := sample().Differing(native); differ != 1 || of != 3 {
		t.Errorf("native: %d of %d", differ, of)
	}
	if differ, of := sample().Differing(native, upstream); differ != 2 || of != 5 {
		t.Errorf("both: %d of %d", differ, of)
	}
	if differ, of := sample().Differing(); differ != 0 || of != 0 {
		t.Errorf("none: %d of %d", differ, of)
	}
}

func TestSort(t *testing.T) {
	rows := []Row{{Name: "a"}, {Name: "b"}}
	proxiers := []Proxier{{Name: "y"}, {Name: "x"}}
	got := []Result{{Behaviour: "b", Proxier: "x"}, {Behaviour: "a", Proxier: "x"}, {Behaviour: "b", Proxier: "y"}, {Behaviour: "a", Proxier: "y"}}
	Sort(got, rows, proxiers)
	want := []Result{{Behaviour: "a", Proxier: "y"}, {Behaviour: "a", Proxier: "x"}, {Behaviour: "b", Proxier: "y"}, {Behaviour: "b", Proxier: "x"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUneven(t *testing.T) {
	// Reference values: the 0.999 quantiles of the chi-square distribution.
	for degrees, x := range map[int]float64{1: 10.8276, 2: 13.8155, 3: 16.2662, 4: 18.4668, 9: 27.8772, 10: 29.5883} {
		if p := chiSquareTail(x, degrees); math.Abs(p-0.001) > 1e-6 {
			t.Errorf("%d degrees: %g", degrees, p)
		}
	}
	if p := chiSquareTail(7.8147, 3); math.Abs(p-0.05) > 1e-5 {
		t.Errorf("3 degrees: %g", p)
	}
	for _, tc := range []struct {
		counts []int
		even   bool
	}{
		{[]int{100, 100, 100, 100}, true}, {[]int{90, 110, 95, 105}, true}, {[]int{200, 100, 50, 50}, false}, {[]int{400, 0}, false},
		{[]int{7}, true}, {nil, true}, {[]int{0, 0}, true},
	} {
		if p := Uneven(tc.counts); (p > 0.001) != tc.even {
			t.Errorf("%v: p = %g", tc.counts, p)
		}
	}
}

func TestCheck(t *testing.T) {
	run := func(*T) {}
	if err := Check([]Row{{Area: "a", Name: "x", Run: run}, {Area: "b", Name: "y", Run: run}}); err != nil {
		t.Error(err)
	}
	for _, rows := range [][]Row{{{Area: "a", Run: run}}, {{Name: "x", Run: run}}, {{Area: "a", Name: "x"}}, {{Area: "a", Name: "x", Run: run}, {Area: "b", Name: "x", Run: run}}} {
		if Check(rows) == nil {
			t.Errorf("%v", rows)
		}
	}
}

func TestPerformEndsWithTheRow(t *testing.T) {
	for _, tc := range []struct {
		run      func(*T)
		failures int
		why      string
	}{
		{func(*T) {}, 0, ""},
		{func(t *T) { t.Errorf("a"); t.Fatalf("b"); t.Errorf("never") }, 2, ""},
		{func(t *T) { t.NotApplicable("no"); t.Errorf("never") }, 0, "no"},
		{func(*T) { panic("ouch") }, 1, ""},
	} {
		trial := &T{}
		trial.perform(tc.run)
		if len(trial.failures) != tc.failures || trial.why != tc.why {
			t.Errorf("%v, %q", trial.failures, trial.why)
		}
	}
}

func TestRuleLines(t *testing.T) {
	text := "# Generated\n*nat\n:PREROUTING ACCEPT [3:4]\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n"
	want := []string{"iptables-save nat :KUBE-SERVICES", "iptables-save nat -A PREROUTING -j KUBE-SERVICES"}
	if diff := cmp.Diff(want, ruleLines("iptables-save", text)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"left behind: b", "lost: a"}, DifferenceOf([]string{"a", "c"}, []string{"b", "c"})); diff != "" {
		t.Error(diff)
	}
}
