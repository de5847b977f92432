package report

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"proxylab/bench/events"
)

// views renders everything; what matters is that it does.
func views(t testing.TB, r *Result) {
	t.Helper()
	if Table(r, TableOptions{}) == "" || Table(r, TableOptions{Width: 60, Color: true}) == "" {
		t.Fatal("an empty table")
	}
	for name, view := range map[string]func(*Result) ([]byte, error){"JSON": JSON, "JUnit": JUnit, "Bench": Bench} {
		if text, err := view(r); err != nil || len(text) == 0 {
			t.Fatalf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

// TestALogCutOffAnywhereStillGivesAResult cuts a log at each byte. Views are made of each different result.
func TestALogCutOffAnywhereStillGivesAResult(t *testing.T) {
	s := newSynthetic()
	s.start(1, "userspace", "iptables")
	s.play("userspace", "", 1, 0, character{middle: time.Millisecond, slowness: time.Millisecond, broken: 3})
	s.end("done")
	log := s.out.Bytes()
	lines := 0
	for n := range len(log) + 1 {
		r, err := Read(bytes.NewReader(log[:n]))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if n == len(log) || n == len(log)-1 {
			if r.Run.Outcome != Done {
				t.Fatalf("the whole log: %s", r.Run.Outcome)
			}
		} else if r.Run.Outcome != CutOff || len(r.Notes) == 0 || r.Run.Ended != nil {
			t.Fatalf("cut at %d: outcome %q, notes %q", n, r.Run.Outcome, r.Notes)
		}
		if whole := bytes.Count(log[:n], []byte("\n")); whole > lines || n == 0 {
			lines = whole
			views(t, r)
		}
	}
}

func TestACorruptLineIsAnErrorWithWhatCameBefore(t *testing.T) {
	s := fourProxiers(1, 1)
	log := bytes.Replace(s.out.Bytes(), []byte(`"swap":{`), []byte(`"swap":[`), 1)
	r, err := Read(bytes.NewReader(log))
	if err == nil || !strings.Contains(err.Error(), "line ") {
		t.Fatalf("error %v", err)
	}
	if len(r.Subjects) != 1 || r.Subjects[0].Sync == nil {
		t.Errorf("%d subjects", len(r.Subjects))
	}
	if _, err := ReadFile(t.TempDir()); err == nil {
		t.Error("a directory without a log was read")
	}
}

func FuzzRead(f *testing.F) {
	s := newSynthetic() // small: each try makes all views
	s.start(1, "userspace")
	s.play("userspace", "", 1, 0, character{middle: time.Millisecond, slowness: time.Millisecond, broken: 3})
	f.Add(s.out.Bytes())
	f.Add([]byte(`{"runStarted":{"expect":["load.web.errors == 0","x"],"repeat":-1,"proxiers":["a"]}}
{"subject":{"proxier":"a"},"loadTick":{"name":"web","seconds":-1,"requests":-5,"latency":{"hdr":"x"}}}
{"subject":{"proxier":"a","backend":"nft"},"sync":{"objects":{"rules":1}}}
{"runEnded":{}}
`))
	f.Fuzz(func(t *testing.T, log []byte) {
		r, _ := Read(bytes.NewReader(log))
		for _, view := range []func(*Result) ([]byte, error){JSON, JUnit, Bench} {
			_, _ = view(r)
		}
		table := Table(r, TableOptions{})
		if strings.ContainsFunc(table, func(r rune) bool { return r < ' ' && r != '\n' }) {
			t.Errorf("control characters in %q", table)
		}
		show := Progress(&strings.Builder{})
		for e, err := range events.Read(bytes.NewReader(log)) {
			if err == nil {
				show(e)
			}
		}
	})
}

// TestHowTimeIsCutIntoTicksMakesNoDifference: the same requests in one tick or in many give the same load.
func TestHowTimeIsCutIntoTicksMakesNoDifference(t *testing.T) {
	type request struct {
		us   int64
		kind string
		pod  string
	}
	tickOf := func(rs []request, seconds float64) events.Event {
		tick := &events.LoadTick{Name: "web", Seconds: seconds, ErrorsByKind: map[string]int64{}, Endpoints: map[string]int64{}}
		h := events.NewHistogram()
		for _, r := range rs {
			tick.Requests++
			if r.kind != "" {
				tick.Errors++
				tick.ErrorsByKind[r.kind]++
				continue
			}
			events.Record(h, time.Duration(r.us)*time.Microsecond)
			tick.Endpoints[r.pod]++
			tick.Bytes += 100
		}
		tick.Latency = events.Encode(h)
		return events.Event{Subject: &events.Subject{Proxier: "iptables", Repetition: 1}, LoadTick: tick}
	}
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) request {
			return request{
				us:   rapid.Int64Range(1, 5_000_000).Draw(t, "µs"),
				kind: rapid.SampledFrom([]string{"", "", "", "reset", "timeout"}).Draw(t, "kind"),
				pod:  rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "pod"),
			}
		}), 1, 60).Draw(t, "requests")
		whole, cut := NewFolder(), NewFolder()
		start := events.Event{Subject: &events.Subject{Proxier: "iptables", Repetition: 1}, LoadStarted: &events.LoadStarted{Name: "web", Kind: "http", RatePerSec: 10}}
		whole.Add(start)
		cut.Add(start)
		whole.Add(tickOf(requests, float64(len(requests))/8)) // eighths are exact
		for rest := requests; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "tick")
			cut.Add(tickOf(rest[:n], float64(n)/8))
			rest = rest[n:]
		}
		if d := cmp.Diff(whole.Result(), cut.Result(), cmpopts.IgnoreFields(Result{}, "Expectations")); d != "" {
			t.Fatal(d)
		}
	})
}

// TestInterleavedSubjectsDoNotMix: the events of several subjects give the same in any interleaving that keeps the
// order within each.
func TestInterleavedSubjectsDoNotMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var queues [][]events.Event
		var apart []*Subject
		for i, name := range []string{"userspace", "iptables"} {
			for r := 1; r <= 2; r++ {
				s := newSynthetic()
				s.play(name, "", r, 1, character{middle: time.Duration(100*(i+r)) * time.Microsecond, slowness: time.Duration(i+1) * time.Millisecond, broken: r})
				queues = append(queues, s.events)
				apart = append(apart, Fold(s.seq()).Subjects...)
			}
		}
		f := NewFolder()
		for len(queues) > 0 {
			i := rapid.IntRange(0, len(queues)-1).Draw(t, "next")
			n := rapid.IntRange(1, len(queues[i])).Draw(t, "events")
			for _, e := range queues[i][:n] {
				f.Add(e)
			}
			if queues[i] = queues[i][n:]; len(queues[i]) == 0 {
				queues = slices.Delete(queues, i, i+1)
			}
		}
		byName := cmpopts.SortSlices(func(a, b *Subject) bool {
			return a.Proxier < b.Proxier || a.Proxier == b.Proxier && a.Repetition < b.Repetition
		})
		if d := cmp.Diff(apart, f.Result().Subjects, byName); d != "" {
			t.Fatal(d)
		}
	})
}

func TestResultIsASnapshot(t *testing.T) {
	s := fourProxiers(1, 2)
	f := NewFolder()
	for _, e := range s.events[:len(s.events)/2] {
		f.Add(e)
	}
	r := f.Result()
	before := string(must(JSON(r)))
	for _, e := range s.events[len(s.events)/2:] {
		f.Add(e)
	}
	if d := cmp.Diff(before, string(must(JSON(r)))); d != "" {
		t.Errorf("later events changed an earlier result:\n%s", d)
	}
	if d := cmp.Diff(Fold(s.seq()), f.Result()); d != "" {
		t.Error(d)
	}
}

func fold(list ...events.Event) *Result { return Fold(slices.Values(list)) }

func about(backend string, e events.Event) events.Event {
	e.Subject = &events.Subject{Proxier: "iptables", Backend: backend, Repetition: 1}
	return e
}

func TestUsageIsSummedOverProcesses(t *testing.T) {
	u := func(node string, pid int, proxier string, cpu float64, rss, maxRSS int64) events.Event {
		return about("", events.Event{Usage: &events.Usage{Node: node, PID: pid, Proxier: proxier, CPUSeconds: cpu, RSSBytes: rss, MaxRSSBytes: maxRSS}})
	}
	r := fold(
		u("node1", 10, "iptables", 1, 50, 60), u("node2", 11, "iptables", 2, 55, 70),
		u("node1", 10, "iptables", 3, 50, 60),  // the same process, later: 3 in all
		u("node1", 20, "ipvs", 100, 900, 900),  // in charge after a swap: not its cost
		u("node1", 30, "iptables", 0.5, 5, 5),  // back again, in another process
		u("node1", 30, "iptables", 0.25, 5, 5), // a number used again: 0.5 + 0.25
	)
	if got := r.Subjects[0].ProxierUsage; got.CPUSeconds != 3+2+0.5+0.25 || got.MaxRSSBytes != 70 {
		t.Errorf("got %+v", got)
	}
	if notes := strings.Join(r.Notes, " "); !strings.Contains(notes, "what ipvs cost while in charge") {
		t.Error(notes)
	}
	r = fold(about("", events.Event{Sync: &events.Sync{Proxier: "ipvs", Node: "node1"}}), about("", events.Event{Sync: &events.Sync{Node: "node1"}}))
	if got := r.Subjects[0].Sync.Count; got != 1 {
		t.Errorf("%d syncs", got)
	}
}

func TestSyncFigures(t *testing.T) {
	sync := func(node string, full bool, seconds float64, cpu *float64, err string, objects map[string]int) events.Event {
		return about("", events.Event{Sync: &events.Sync{Node: node, Full: full, Seconds: seconds, CPUSeconds: cpu, Error: err, Objects: objects}})
	}
	r := fold(
		sync("node1", true, 2, number(1.0), "", map[string]int{"rules": 100, "chains": 7}),
		sync("node1", false, 0.5, number(0.5), "", map[string]int{"rules": 90}), // after a change of mode, say: no chains
		sync("node2", true, 1, number(1.5), "", map[string]int{"rules": 95}),
		sync("node2", false, 9, nil, "restore: exit status 1", nil),
	)
	want := &Sync{Count: 4, Full: 2, Partial: 2, Failures: 1, Seconds: &SyncSeconds{P50: 1, P99: 2, Max: 2},
		CPUSeconds: number(3.0), CPUSecondsPerSync: number(1.0), Objects: map[string]int{"rules": 95}}
	if d := cmp.Diff(want, r.Subjects[0].Sync); d != "" {
		t.Error(d)
	}
	r = fold(sync("node1", true, 1, nil, "no", nil))
	want = &Sync{Count: 1, Full: 1, Failures: 1}
	if d := cmp.Diff(want, r.Subjects[0].Sync); d != "" {
		t.Error(d)
	}
}

func TestSubjectsAndTheirBackEnds(t *testing.T) {
	note := events.Event{SubjectStarted: &events.SubjectStarted{}}
	sync := events.Event{Sync: &events.Sync{}}
	names := func(r *Result) string {
		var list []string
		for _, s := range r.Subjects {
			n := 0
			if s.Sync != nil {
				n = s.Sync.Count
			}
			list = append(list, nameOf(s.Proxier, s.Backend)+strings.Repeat("+", n))
		}
		return strings.Join(list, ", ")
	}
	for name, c := range map[string]struct {
		log  []events.Event
		want string
	}{
		"known from the start":  {[]events.Event{about("nft", note), about("nft", sync)}, "iptables (nft)+"},
		"known later":           {[]events.Event{about("", note), about("nft", sync), about("nft", sync)}, "iptables (nft)++"},
		"not always said":       {[]events.Event{about("nft", note), about("", sync)}, "iptables (nft)+"},
		"one after the other":   {[]events.Event{about("legacy", note), about("legacy", sync), about("nft", note), about("", sync)}, "iptables (legacy)+, iptables (nft)+"},
		"two known later":       {[]events.Event{about("", note), about("legacy", sync), about("nft", note), about("nft", sync)}, "iptables (legacy)+, iptables (nft)+"},
		"start missing":         {[]events.Event{about("legacy", sync)}, "iptables (legacy)+"},
		"repetition not given":  {[]events.Event{{Subject: &events.Subject{Proxier: "iptables"}, Sync: &events.Sync{}}, about("", sync)}, "iptables++"},
		"never said, and noted": {[]events.Event{about("", note)}, "iptables"},
	} {
		if got := names(fold(c.log...)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestWhatWasNotMeasuredIsAbsent(t *testing.T) {
	r := fold(about("", events.Event{SubjectStarted: &events.SubjectStarted{}}),
		about("", events.Event{LoadStarted: &events.LoadStarted{Name: "web", Kind: "http", RatePerSec: 1}}))
	text := string(must(JSON(r)))
	for _, key := range []string{"requests", "errors", "rate\"", "latencySeconds", "sync", "programmingSeconds", "swap",
		"proxierUsage", "softirqSeconds", "firstPacketSeconds", "endpoints", "ended"} {
		if strings.Contains(text, `"`+key) {
			t.Errorf("%s is in %s", key, text)
		}
	}
	// What was measured to be 0 is there.
	r = fold(about("", events.Event{LoadStarted: &events.LoadStarted{Name: "web", Kind: "http", RatePerSec: 1}}),
		about("", events.Event{LoadTick: &events.LoadTick{Name: "web", Seconds: 1}}), about("", events.Event{Softirq: &events.Softirq{}}))
	text = string(must(JSON(r)))
	for _, part := range []string{`"requests": 0`, `"errors": 0`, `"late": 0`, `"rate": 0`, `"softirqSeconds": 0`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
}

func TestNotesSayWhatAReaderMustKnow(t *testing.T) {
	sub := func(p string, e events.Event) events.Event {
		e.Subject = &events.Subject{Proxier: p, Repetition: 1}
		return e
	}
	r := fold(
		events.Event{RunStarted: &events.RunStarted{Kernel: events.Kernel{Kind: "uml"}, Proxiers: []string{"a", "b", "c"}, Repeat: 2}},
		sub("a", events.Event{Note: &events.Note{Text: "same"}}), sub("b", events.Event{Note: &events.Note{Text: "same"}}),
		sub("a", events.Event{Note: &events.Note{Text: "only a"}}), sub("a", events.Event{Note: &events.Note{Text: "only a"}}),
		sub("a", events.Event{LoadTick: &events.LoadTick{Name: "web", Requests: 100, Late: 2, Errors: 3,
			ErrorsByKind: map[string]int64{"no-port": 3}, Latency: &events.Histogram{HDR: "rubbish"}}}),
		sub("b", events.Event{Programming: &events.Programming{Change: "added", Seconds: 10, Error: "not seen"}}),
		sub("b", events.Event{SubjectStarted: &events.SubjectStarted{}}),
		events.Event{}, events.Event{Softirq: &events.Softirq{}},
		events.Event{RunEnded: &events.RunEnded{Outcome: "done"}},
	)
	all := strings.Join(r.Notes, "\n")
	for _, part := range []string{
		"same\na: only a\n", "User Mode Linux", "a was played 1 times of 2.", "c was not played.",
		"2 of 100 requests were sent over 10 ms late because the load generator was busy (at worst web with a, 2.0%)", "a: web: 3 errors (no-port) are the load generator's own",
		"a: web: some latencies are missing", "b: 1 of 1 changes were not seen", "1 events of the log are of a kind",
		"1 events of the log name no proxier",
	} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is not in\n%s", part, all)
		}
	}
	if strings.Contains(all, "cut off") {
		t.Error("a whole log is called cut off")
	}
	if _, err := JSON(fold(about("", events.Event{LoadTick: &events.LoadTick{Name: "x", Seconds: math.MaxFloat64}}),
		about("", events.Event{LoadTick: &events.LoadTick{Name: "x", Seconds: math.MaxFloat64}}))); err == nil {
		t.Error("an infinity was written as JSON")
	}
}
