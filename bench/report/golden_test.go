package report

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/perf/benchfmt"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"proxylab/bench/events"
)

// same compares with a file in testdata; go test -update writes it anew.
func same(t *testing.T, name string, got []byte) {
	t.Helper()
	assert.Check(t, golden.String(string(got), name))
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

func TestGolden(t *testing.T) {
	once, thrice := fourProxiers(1, 4), fourProxiers(3, 2)
	result := Fold(once.seq())
	same(t, "run.result.json", must(JSON(result)))
	same(t, "run.table.txt", []byte(Table(result, TableOptions{})))
	same(t, "run.table.color.txt", []byte(Table(result, TableOptions{Color: true})))
	same(t, "run.junit.xml", must(JUnit(result)))
	same(t, "run.bench.txt", must(Bench(result)))
	same(t, "repeated.table.txt", []byte(Table(Fold(thrice.seq()), TableOptions{})))
	same(t, "repeated.table.120.txt", []byte(Table(Fold(thrice.seq()), TableOptions{Width: 120})))
	cut, err := Read(bytes.NewReader(once.out.Bytes()[:once.out.Len()/2]))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "cut.table.txt", []byte(Table(cut, TableOptions{})))
	same(t, "cut.junit.xml", must(JUnit(cut)))
	same(t, "empty.table.txt", []byte(Table(NewFolder().Result(), TableOptions{})))
	same(t, "empty.result.json", must(JSON(NewFolder().Result())))

	var lines bytes.Buffer
	p := &progress{out: &lines, zone: time.UTC}
	for _, e := range thrice.events {
		p.show(e)
	}
	same(t, "repeated.progress.txt", lines.Bytes())
}

func TestTheLogAndItsEventsGiveTheSame(t *testing.T) {
	s := fourProxiers(2, 2)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, events.FileName), s.out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(must(JSON(Fold(s.seq())))), string(must(JSON(got)))); d != "" {
		t.Error(d)
	}
}

func TestTablesKeepTheirWidth(t *testing.T) {
	s := newSynthetic()
	names := []string{"userspace", "iptables", "ipvs", "nftables", "kube-proxy/iptables", "kube-proxy/ipvs", "kube-proxy/nftables"}
	s.start(6, names...)
	for r := 1; r <= 6; r++ {
		for i, n := range names {
			s.play(n, "", r, 1, character{middle: time.Duration(300+37*i*r) * time.Microsecond, slowness: time.Duration(10+3*r) * time.Millisecond, broken: r})
		}
	}
	s.end("done")
	r := Fold(s.seq())
	for _, width := range []int{0, 80, 100, 120, 200} {
		table := Table(r, TableOptions{Width: width})
		limit := widest
		if width > 0 {
			limit = min(width, widest)
		}
		if got := text.LongestLineLen(table); got > limit {
			t.Errorf("width %d: %d columns", width, got)
		}
		for _, n := range names {
			if n, _, _ := strings.Cut(n, "/"); !strings.Contains(table, n) {
				t.Errorf("width %d: %s is not in it", width, n)
			}
		}
	}
}

// TestFourFitEighty is what the demo shows.
func TestFourFitEighty(t *testing.T) {
	for line := range strings.Lines(Table(Fold(fourProxiers(1, 4).seq()), TableOptions{})) {
		if n := text.StringWidth(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestColourSaysNothingMore(t *testing.T) {
	r := Fold(fourProxiers(1, 4).seq())
	if d := cmp.Diff(Table(r, TableOptions{}), text.StripEscape(Table(r, TableOptions{Color: true}))); d != "" {
		t.Error(d)
	}
}

func TestBenchIsReadByItsOwnReader(t *testing.T) {
	r := Fold(fourProxiers(2, 2).seq())
	reader := benchfmt.NewReader(bytes.NewReader(must(Bench(r))), "bench")
	seen := map[string]int{}
	for reader.Scan() {
		switch rec := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			seen[string(rec.Name.Base())]++
			seen[rec.GetConfig("proxier")]++
		}
	}
	for what, want := range map[string]int{"Load": 18, "Sync": 6, "Programming": 12, "Swap": 6, "Usage": 6,
		"userspace": 16, "iptables (legacy)": 16, "kube-proxy/iptables (legacy)": 16} {
		if seen[what] != want {
			t.Errorf("%d lines of %q, want %d (%v)", seen[what], what, want, seen)
		}
	}
	if reader.Units().GetBetter("p99-sec") != -1 || reader.Units().GetBetter("req/s") != 1 {
		t.Error("units do not say what is better")
	}
}

func TestJUnitCountsAreRightAndOddTextIsHarmless(t *testing.T) {
	s := newSynthetic()
	s.emit(events.Event{RunStarted: &events.RunStarted{Scenario: "a <b> & \x00\x1b", Expect: []string{"nonsense", "load.x.errors == 0"}}})
	s.subject = &events.Subject{Proxier: "p\"<", Repetition: 1}
	s.emit(events.Event{StepStarted: &events.StepStarted{Text: "]]>\x07"}})
	s.emit(events.Event{SubjectEnded: &events.SubjectEnded{Error: "first\nsecond \xff"}})
	r := Fold(s.seq())
	var got junitSuites
	if err := xml.Unmarshal(must(JUnit(r)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 5 || got.Failures != 2 || got.Errors != 2 || got.Suites[0].Skipped != 1 {
		t.Errorf("%d tests, %d failures, %d errors, %d skipped", got.Tests, got.Failures, got.Errors, got.Suites[0].Skipped)
	}
	if table := Table(r, TableOptions{}); !strings.Contains(table, "✗ unreadable") {
		t.Error(table)
	}
}
