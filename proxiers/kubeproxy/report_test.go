package kubeproxy

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxylab/proxiers/runner"
)

// at is a moment of the tests, in seconds.
func at(s float64) time.Time { return unixTime(1000 + s) }

// look makes an observation from readings whose times are in seconds of at().
func look(s, cpu float64, v4, v6 reading) observation {
	for _, r := range []*reading{&v4, &v6} {
		for _, t := range []*float64{&r.Queued, &r.LastOK} {
			if *t != 0 {
				*t += 1000
			}
		}
	}
	return observation{At: at(s), CPU: cpu, Families: map[string]reading{"IPv4": v4, "IPv6": v6}}
}

type want struct {
	end, seconds, cpu float64
	full              bool
	err               string
}

func TestMerger(t *testing.T) {
	queued := reading{Queued: 0.01}
	first4 := reading{Syncs: 1, Seconds: 0.5, Full: 1, Queued: 0.01, LastOK: 0.6}
	first6 := reading{Syncs: 1, Seconds: 0.3, Full: 1, Queued: 0.01, LastOK: 0.9}
	started := []observation{look(0.05, 0.1, queued, queued), look(1, 0.4, first4, first6)}
	start := want{end: 0.9, seconds: 0.8, cpu: 0.4, full: true}

	tests := map[string]struct {
		looks []observation
		want  []want
	}{
		"the first report waits for both families": {
			[]observation{look(0.05, 0.1, queued, queued), look(0.65, 0.3, first4, queued), look(0.95, 0.4, first4, first6)},
			[]want{start},
		},
		"one family only": {
			[]observation{look(0.05, 0.1, queued, reading{}), look(0.65, 0.3, first4, reading{}), look(0.7, 0.3, first4, reading{})},
			[]want{{end: 0.6, seconds: 0.5, cpu: 0.3, full: true}},
		},
		"a family that shows up late is awaited": {
			[]observation{look(0.65, 0.3, first4, reading{}), look(0.7, 0.3, first4, queued), look(0.95, 0.4, first4, first6)},
			[]want{start},
		},
		"a first failure is part of the first report, and the next is whole": {
			[]observation{look(0.05, 0.1, queued, queued),
				look(0.95, 0.4, first4, reading{Syncs: 1, Seconds: 0.3, Full: 1, Failures: 1, Queued: 0.01}),
				look(2, 0.5, first4, reading{Syncs: 2, Seconds: 0.6, Full: 2, Failures: 1, Queued: 0.01, LastOK: 1.99})},
			[]want{{end: 0.95, seconds: 0.8, cpu: 0.4, full: true, err: "IPv6: writing the rules failed"},
				{end: 1.99, seconds: 0.3, cpu: 0.1, full: true}},
		},
		"a change of one family": {
			append(started, look(2, 0.5, reading{Syncs: 2, Seconds: 0.6, Full: 1, Queued: 1.8, LastOK: 1.95}, first6)),
			[]want{start, {end: 1.95, seconds: 0.1, cpu: 0.1}},
		},
		"a change of both, side by side": {
			append(started, look(2, 0.5,
				reading{Syncs: 2, Seconds: 0.6, Full: 1, Queued: 1.8, LastOK: 1.95}, // 1.85 to 1.95
				reading{Syncs: 2, Seconds: 0.6, Full: 1, Queued: 1.8, LastOK: 1.98})),
			[]want{start, {end: 1.98, seconds: 0.3, cpu: 0.1}},
		},
		"the slower family is awaited": {
			append(started,
				look(2, 0.5, reading{Syncs: 2, Seconds: 0.6, Full: 1, Queued: 1.8, LastOK: 1.95},
					reading{Syncs: 1, Seconds: 0.3, Full: 1, Queued: 1.8, LastOK: 0.9}),
				look(3, 0.9, reading{Syncs: 2, Seconds: 0.6, Full: 1, Queued: 1.8, LastOK: 1.95},
					reading{Syncs: 2, Seconds: 1.4, Full: 2, Queued: 1.8, LastOK: 2.95})),
			[]want{start, {end: 2.95, seconds: 1.1, cpu: 0.5, full: true}}, // 1.85 to 2.95
		},
		"held apart by the minimum period they are two": {
			append(started,
				look(2, 0.5, reading{Syncs: 2, Seconds: 0.6, Full: 1, Queued: 1.8, LastOK: 1.95},
					reading{Syncs: 1, Seconds: 0.3, Full: 1, Queued: 1.8, LastOK: 0.9}),
				look(3, 0.9, reading{Syncs: 2, Seconds: 0.6, Full: 1, Queued: 1.8, LastOK: 1.95},
					reading{Syncs: 2, Seconds: 0.4, Full: 1, Queued: 1.8, LastOK: 2.95})),
			[]want{start, {end: 1.95, seconds: 0.1, cpu: 0.1}, {end: 2.95, seconds: 0.1, cpu: 0.4}},
		},
		"several within one look are as many reports": {
			append(started, look(2, 0.6, reading{Syncs: 3, Seconds: 0.6, Full: 1, Queued: 1.9, LastOK: 1.95}, first6)),
			[]want{start, {end: 1.95, seconds: 0.05, cpu: 0.1}, {end: 1.95, seconds: 0.05, cpu: 0.1}},
		},
		"a sync without a success is a failure": {
			append(started, look(2, 0.6, reading{Syncs: 2, Seconds: 0.6, Full: 1, Queued: 1.9, LastOK: 0.6}, first6)),
			[]want{start, {end: 2, seconds: 0.1, cpu: 0.2, err: "IPv4: sync failed"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMerger(at(0), 0, "legacy")
			var got []runner.Report
			for _, o := range test.looks {
				got = append(got, m.observe(o)...)
			}
			if left := m.flush(); len(left) > 0 {
				t.Errorf("held back at the end: %+v", left)
			}
			compare(t, got, test.want)
		})
	}
}

func compare(t *testing.T, got []runner.Report, wants []want) {
	t.Helper()
	if len(got) != len(wants) {
		t.Fatalf("got %d reports: %+v", len(got), got)
	}
	for i, w := range wants {
		g := got[i]
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
		if !near(g.Time.Sub(at(0)).Seconds(), w.end) || !near(g.Seconds, w.seconds) || !near(g.CPUSeconds, w.cpu) ||
			g.Full != w.full || (w.err == "") != (g.Error == "") || !strings.Contains(g.Error, w.err) || g.Backend != "legacy" {
			t.Errorf("report %d: got %+v, want %+v", i, g, w)
		}
	}
}

// However the syncs of the two families fall, all CPU time is reported once, no sync is reported to be longer than
// the time that passed, and there are no more reports than syncs.
func TestMergerKeepsAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMerger(at(0), 0, "")
		state := [2]reading{{Queued: 0.001}, {Queued: 0.001}}
		now, cpu, syncs := 0.0, 0.0, uint64(0)
		var got []runner.Report
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			passed := 0.05
			now, cpu = now+passed, cpu+rapid.Float64Range(0, 0.05).Draw(t, "cpu")
			for i := range state {
				switch rapid.IntRange(0, 3).Draw(t, "event") {
				case 0:
					state[i].Queued = now
				case 1:
					state[i].Syncs++
					state[i].Seconds += rapid.Float64Range(0.0001, 0.04).Draw(t, "seconds")
					state[i].LastOK = now - 0.001
					syncs++
				}
			}
			got = append(got, m.observe(look(now, cpu, state[0], state[1]))...)
		}
		got = append(got, m.flush()...)
		reported := 0.0
		for _, r := range got {
			reported += r.CPUSeconds
			if r.Seconds <= 0 || r.Seconds > now+1e-6 {
				t.Fatalf("a sync of %v s within %v s", r.Seconds, now)
			}
		}
		if uint64(len(got)) > syncs || reported > cpu+1e-9 {
			t.Fatalf("%d reports of %d syncs, %v of %v CPU seconds", len(got), syncs, reported, cpu)
		}
	})
}

func TestOptions(t *testing.T) {
	err := Run(t.Context(), Options{Mode: "userspace", Backend: "ebtables", Verbosity: -1, SyncPeriod: -1})
	for _, part := range []string{`mode "userspace"`, "name of the node", "kubeconfig", `"ebtables"`, "negative", "verbosity"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
	if err := Cleanup(t.Context(), "ebpf"); err == nil {
		t.Error("an unknown mode was cleaned up")
	}
	if err := Preflight(t.Context(), "ebpf", ""); err == nil {
		t.Error("an unknown mode can run")
	}
}

// The first sync of one family keeps the other from even being asked for: the first report waits for both, unless
// the other never comes.
func TestMergerAwaitsExpectedFamily(t *testing.T) {
	v4 := reading{Syncs: 1, Seconds: 0.3, Full: 1, Queued: 0.1, LastOK: 0.4}
	v6 := reading{Syncs: 1, Seconds: 0.3, Full: 1, Queued: 0.6, LastOK: 0.9}
	for name, test := range map[string]struct {
		looks []observation
		want  []want
	}{
		"it comes": {[]observation{look(0.2, 0, reading{Queued: 0.1}, reading{}), look(0.5, 0.2, v4, reading{}), look(1, 0.5, v4, v6)},
			[]want{{end: 0.9, seconds: 0.6, cpu: 0.5, full: true}}},
		"it never comes": {[]observation{look(0.2, 0, reading{Queued: 0.1}, reading{}), look(0.5, 0.2, v4, reading{}), look(6, 0.2, v4, reading{})},
			[]want{{end: 0.4, seconds: 0.3, cpu: 0.2, full: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMerger(at(0), 0, "legacy", families...)
			var got []runner.Report
			for _, o := range test.looks {
				got = append(got, m.observe(o)...)
			}
			compare(t, got, test.want)
		})
	}
}
