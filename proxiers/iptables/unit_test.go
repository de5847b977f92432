package iptables

import (
	"context"
	"errors"
	"strings"
	"testing"

	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
	"proxylab/proxiers/xtables"
	"proxylab/proxiers/xtables/fake"
)

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
	want := servicestest.Many(5, 2)
	mustSync(t, w, want)
	fault := fake.FailBetween(1)
	w.v4.Fault = func([]byte) fake.Fault { return fault }
	next := servicestest.ReplaceEndpoint(want, 1)
	next.Node.PodCIDRs = nil // both tables have something to write
	if _, err := w.Sync(context.Background(), next); err != nil {
		var e *xtables.RestoreError
		if !errors.As(err, &e) || e.Line == 0 || !strings.Contains(err.Error(), "IPv4") {
			t.Errorf("%v", err)
		}
	}
	flows := w.flows.calls
	fault = fake.FailBefore
	next.Full = true
	if _, err := w.Sync(context.Background(), servicestest.ReplaceEndpoint(next, 2)); err == nil {
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
	r, err := w.Sync(context.Background(), services.Snapshot{Node: servicestest.Facts, Full: true})
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
