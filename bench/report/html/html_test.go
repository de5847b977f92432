package html

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"proxylab/bench/events"
	"proxylab/bench/events/eventstest"
)

func written(t testing.TB, log []byte) string {
	t.Helper()
	return eventstest.Write(t, t.TempDir(), "run", log)
}

// short is a log small enough to read what is made of it.
func short() []byte {
	var out bytes.Buffer
	w := events.NewWriter(&out)
	at := time.Date(2026, 11, 3, 19, 0, 0, 0, time.UTC)
	emit := func(e events.Event) {
		e.Time = at
		w.Emit(e)
	}
	emit(events.Event{RunStarted: &events.RunStarted{ID: "r1", Scenario: "tiny <b>", Lab: "netns", Kernel: events.Kernel{Kind: "host", Release: "6.18"},
		CPUs: 2, Version: "v1", Proxiers: []string{"iptables", "nftables"}, Repeat: 1, Steps: []string{"load web", "swap to nftables"},
		Expect: []string{"swap.broken == 0"}, Environment: []string{"nft 1.0.6"}}})
	for i, proxier := range []string{"iptables", "nftables"} {
		s := &events.Subject{Proxier: proxier, Repetition: 1}
		of := func(e events.Event) { e.Subject = s; emit(e) }
		of(events.Event{SubjectStarted: &events.SubjectStarted{}})
		of(events.Event{StepStarted: &events.StepStarted{Index: 0, Kind: "load", Text: "load web"}})
		of(events.Event{LoadStarted: &events.LoadStarted{Name: "web", Kind: "http", RatePerSec: 20, Connections: "new"}})
		of(events.Event{StepEnded: &events.StepEnded{Index: 0}})
		of(events.Event{StepStarted: &events.StepStarted{Index: 1, Kind: "swap", Text: "swap to nftables"}})
		for k := range 6 {
			at = at.Add(500 * time.Millisecond)
			h := events.NewHistogram()
			for j := range 10 {
				events.Record(h, time.Duration(1+i+j%3)*time.Millisecond)
			}
			of(events.Event{LoadTick: &events.LoadTick{Name: "web", Seconds: 0.5, Requests: 10, Latency: events.Encode(h),
				Endpoints: map[string]int64{"a": int64(4 + k%2), "b": 5}}})
		}
		of(events.Event{Sync: &events.Sync{Node: "node1", Full: true, Seconds: 0.02 * float64(1+i)}})
		of(events.Event{Swap: &events.Swap{From: proxier, To: "nftables", Seconds: 1, ConnectionsOpen: 20, ConnectionsBroken: 12 * i}})
		of(events.Event{StepEnded: &events.StepEnded{Index: 1, Seconds: 3}})
		of(events.Event{SubjectEnded: &events.SubjectEnded{}})
	}
	emit(events.Event{RunEnded: &events.RunEnded{Outcome: "done"}})
	return out.Bytes()
}

func reportOf(t *testing.T, log []byte) string {
	t.Helper()
	v, err := ReadFile(written(t, log))
	if err != nil {
		t.Fatal(err)
	}
	data, err := v.Report()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestReportGolden(t *testing.T) { golden.Assert(t, reportOf(t, short()), "short.html") }

var reference = regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*["']?([^"'#)>]+)`)

func TestTheReportNeedsNothingElse(t *testing.T) {
	for name, log := range map[string][]byte{"short": short(), "real": eventstest.Log(t)} {
		got := reportOf(t, log)
		if refs := reference.FindAllString(got, -1); len(refs) > 0 {
			t.Errorf("%s: it refers to %q", name, refs)
		}
		for _, no := range []string{"<script", "<link", "<img", " style=", "tiny <b>", "ZgotmplZ"} {
			if strings.Contains(got, no) {
				t.Errorf("%s: it has %q", name, no)
			}
		}
		if findings, table := strings.Index(got, `id="findings-h"`), strings.Index(got, `id="table-h"`); findings < 0 || table < findings {
			t.Errorf("%s: findings at %d, the table at %d", name, findings, table)
		}
	}
}

func TestIdentifiersAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(reportOf(t, eventstest.Log(t)), -1) {
		if seen[m[1]] {
			t.Errorf("%q twice", m[1])
		}
		seen[m[1]] = true
	}
	if len(seen) < 50 {
		t.Errorf("only %d identifiers", len(seen))
	}
}

func TestALogCutOffAnywhereCanBeShown(t *testing.T) {
	log := eventstest.Log(t)
	for i := range 12 {
		v, err := ReadFile(written(t, log[:len(log)*i/12]))
		if err != nil {
			t.Fatalf("cut at %d of 12: %v", i, err)
		}
		if _, err := v.Report(); err != nil {
			t.Fatalf("cut at %d of 12: %v", i, err)
		}
	}
}

// BenchmarkTwoHours opens a log of two hours, from the file to the whole page.
func BenchmarkTwoHours(b *testing.B) {
	log := eventstest.TwoHours(b)
	path := written(b, log)
	b.SetBytes(int64(len(log)))
	defer eventstest.ReportCPU(b)()
	for b.Loop() {
		v, err := ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := v.Report(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkView draws what is shown of a run, as a live page does again and again.
func BenchmarkView(b *testing.B) {
	f := NewFolder()
	for e, err := range events.Read(bytes.NewReader(eventstest.Log(b))) {
		if err != nil {
			b.Fatal(err)
		}
		f.Add(e)
	}
	for b.Loop() {
		if _, err := f.View(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTwoHoursAreShown(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a long log")
	}
	log := eventstest.TwoHours(t)
	began := time.Now()
	v, err := ReadFile(written(t, log))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MB in %v", len(log)>>20, time.Since(began).Round(time.Millisecond))
	for _, g := range v.Timeline.Groups {
		for _, l := range g.Loads {
			if len(l.Points) > 300 {
				t.Errorf("%s, %s: %d points", g.Name(), l.Name, len(l.Points))
			}
		}
	}
	if n := len(v.Result.Subjects); n < 4*40 {
		t.Errorf("%d subjects: %s", n, fmt.Sprint(v.Proxiers))
	}
}
