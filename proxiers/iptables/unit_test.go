package iptables

import (
	"context"
	"errors"
	"strings"
	"testing"

	"proxylab/proxiers/iptables/fake"
	"proxylab/proxiers/services"
)

func TestRestoreErrorNamesTheLine(t *testing.T) {
	input := []byte("*nat\n:KUBE-X - [0:0]\n-A KUBE-X -j NOWHERE\nCOMMIT\n")
	for output, want := range map[string]string{
		"iptables-restore v1.8.9 (legacy): Couldn't load target `NOWHERE'\n\nError occurred at line: 3\nTry ...": "-A KUBE-X -j NOWHERE",
		"iptables-restore: line 4 failed":                                 "COMMIT",
		"iptables-nft-restore: line 3: RULE_APPEND failed (No such file)": "-A KUBE-X -j NOWHERE",
		"Another app is currently holding the xtables lock; waited 5s":    "",
		"line 99 failed":                   "",
		"line 99999999999999999999 failed": "",
	} {
		e := newRestoreError([]string{"iptables-restore"}, input, output, errors.New("exit status 2"))
		if e.Text != want {
			t.Errorf("%q: line %d %q, want %q", output, e.Line, e.Text, want)
		}
		if e.Locked() != strings.Contains(output, "lock") || !strings.Contains(e.Error(), output[:10]) {
			t.Errorf("%v", e)
		}
	}
}

func TestBackendIsTheOneInUse(t *testing.T) {
	kubelet, ours := evidence{kubelet: true, rules: 1}, evidence{ours: true, rules: 1}
	for _, c := range []struct {
		nft, legacy evidence
		fallback    string
		want        string
	}{
		{evidence{rules: 9}, kubelet, "nft", "legacy"},
		{kubelet, evidence{ours: true, rules: 9}, "legacy", "nft"},
		{evidence{rules: 9}, ours, "nft", "legacy"},
		{ours, evidence{rules: 9}, "legacy", "nft"},
		{evidence{ours: true, rules: 3}, ours, "legacy", "nft"},
		{evidence{rules: 1}, evidence{rules: 2}, "nft", "legacy"},
		{evidence{}, evidence{}, "legacy", "legacy"},
		{evidence{}, evidence{}, "nft", "nft"},
		{evidence{}, evidence{}, "", "nft"},
	} {
		got, reason := choose(map[string]evidence{"nft": c.nft, "legacy": c.legacy}, c.fallback)
		if got != c.want {
			t.Errorf("%+v: %s because %s", c, got, reason)
		}
	}
	if got, _ := choose(map[string]evidence{"legacy": {}}, "nft"); got != "legacy" {
		t.Errorf("without nft's tools: %s", got)
	}
}

func TestMissingToolIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, backend := range []string{"legacy", "nft", "auto", ""} {
		_, err := New(Options{Backend: backend})
		if err == nil || !strings.Contains(err.Error(), "-restore") || !strings.Contains(err.Error(), "Debian package iptables") {
			t.Errorf("%q: %v", backend, err)
		}
	}
	if _, err := New(Options{Backend: "ebtables"}); err == nil || !strings.Contains(err.Error(), `"ebtables"`) {
		t.Errorf("%v", err)
	}
}

func TestJumpTarget(t *testing.T) {
	for rule, want := range map[string]string{
		"-A X -j KUBE-SERVICES": "KUBE-SERVICES",
		`-A X -m comment --comment "a -j KUBE-NODEPORTS \" -j B" -j KUBE-FORWARD`: "KUBE-FORWARD",
		"-A X -g KUBE-FORWARD":            "KUBE-FORWARD",
		"-A X -p tcp":                     "",
		"-A X -j DNAT --to-destination a": "DNAT",
	} {
		if got := jumpTarget([]byte(rule)); got != want {
			t.Errorf("%s: %q", rule, got)
		}
	}
}

// A count of transactions that only ours account for spares the check; a foreign one, or a failure, does not.
func TestWatch(t *testing.T) {
	now := uint32(1<<32 - 2) // it wraps around
	w := watch{generation: func() (uint32, error) { return now, nil }}
	step := func(sure bool, ours, theirs int, want bool) {
		t.Helper()
		if got := w.begin(); got != want {
			t.Errorf("untouched: %v, want %v", got, want)
		}
		now += uint32(ours + theirs)
		w.end(sure, ours)
	}
	step(false, 0, 5, false) // written whole
	step(true, 1, 0, false)  // checked
	step(true, 2, 0, true)
	step(true, 1, 1, true)
	step(true, 0, 0, false)
	now++
	step(true, 0, 0, false)
	w.generation = func() (uint32, error) { return 0, errors.New("no nf_tables") }
	step(true, 0, 0, false)
	w.generation = nil
	step(true, 0, 0, false)
}

// A restore that fails in the middle keeps nothing from converging, and the error has the line.
func TestFailedRestore(t *testing.T) {
	w := newWorld(t, t.TempDir(), 1000)
	want := manyServices(5, 2)
	mustSync(t, w, want)
	fault := fake.FailBetween
	w.v4.Fault = func([]byte) fake.Fault { return fault }
	next := replaceEndpoint(want, 1)
	next.Node.PodCIDRs = nil // both tables have something to write
	if _, err := w.Sync(context.Background(), next); err != nil {
		var e *fake.Error
		if !errors.As(err, &e) || e.Line == 0 || !strings.Contains(err.Error(), "IPv4") {
			t.Errorf("%v", err)
		}
	}
	flows := w.flows.calls
	fault = fake.FailBefore
	next.Full = true
	if _, err := w.Sync(context.Background(), replaceEndpoint(next, 2)); err == nil {
		t.Error("no error")
	}
	if w.flows.calls != flows {
		t.Error("flows were removed although the rules are not there")
	}
	fault, next.Full = fake.NoFault, true
	mustSync(t, w, next)
	fresh := newWorld(t, t.TempDir(), 1000)
	mustSync(t, fresh, next)
	if w.text() != fresh.text() {
		t.Error(w.text())
	}
}

func TestFamiliesAreCounted(t *testing.T) {
	w := newWorld(t, t.TempDir(), 1000)
	r, err := w.Sync(context.Background(), services.Snapshot{Node: testNode, Full: true})
	if err != nil {
		t.Fatal(err)
	}
	rules, chains := 0, 0
	for _, tables := range []*fake.Tables{w.v4, w.v6} {
		for _, table := range []string{tableNat, tableFilter} {
			for _, c := range tables.Chains(table) {
				if isOurs(c) {
					chains++
					list, _ := tables.Rules(table, c)
					rules += len(list)
				}
			}
		}
	}
	if r.Objects["rules"] != rules || r.Objects["chains"] != chains || !r.Full {
		t.Errorf("%+v, counted %d rules in %d chains", r, rules, chains)
	}
}
