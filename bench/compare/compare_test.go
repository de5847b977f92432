package compare

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"proxylab/bench/report"
)

// result has one proxier with these p99s, one for each repetition, and errors.
func result(id string, p99 []float64, errors int64) *report.Result {
	r := &report.Result{Run: report.Run{ID: id, Scenario: "s", CPUs: 2}}
	for i, v := range p99 {
		requests := int64(1000)
		r.Subjects = append(r.Subjects, &report.Subject{Proxier: "iptables", Repetition: i + 1, Loads: map[string]*report.Load{
			"web":        {Kind: "http", Requests: &requests, Errors: &errors, Latency: &report.Latency{P50: 0.001, P99: v}},
			"web/direct": {Kind: "http", Requests: &requests, Errors: &errors, Latency: &report.Latency{P50: 0.001, P99: v}},
		}})
	}
	return r
}

func around(v float64, n int) []float64 {
	var out []float64
	for i := range n {
		out = append(out, v*(1+0.001*float64(i)))
	}
	return out
}

func verdictOf(t *testing.T, c *Comparison, figure string) string {
	t.Helper()
	for _, r := range c.Rows {
		if r.Figure == figure {
			return r.Verdict
		}
	}
	t.Fatalf("no %s among %d rows", figure, len(c.Rows))
	return ""
}

func TestVerdicts(t *testing.T) {
	const p99 = "load.web.latency.p99"
	for name, c := range map[string]struct {
		base, new *report.Result
		threshold float64
		figure    string
		want      string
	}{
		"slower":              {result("a", around(0.010, 6), 0), result("b", around(0.020, 6), 0), 0.1, p99, Regression},
		"faster":              {result("a", around(0.020, 6), 0), result("b", around(0.010, 6), 0), 0.1, p99, Improvement},
		"slower, but little":  {result("a", around(0.010, 6), 0), result("b", around(0.0109, 6), 0), 0.1, p99, Same},
		"the same":            {result("a", around(0.010, 6), 0), result("b", around(0.010, 6), 0), 0, p99, Same},
		"one repetition":      {result("a", around(0.010, 1), 0), result("b", around(0.090, 1), 0), 0.1, p99, Unjudged},
		"three repetitions":   {result("a", around(0.010, 3), 0), result("b", around(0.090, 6), 0), 0.1, p99, Unjudged},
		"four repetitions":    {result("a", around(0.010, 4), 0), result("b", around(0.090, 4), 0), 0.1, p99, Regression},
		"errors from nothing": {result("a", around(0.010, 6), 0), result("b", around(0.010, 6), 5), 0.1, "load.web.error_rate", Regression},
		"errors to nothing":   {result("a", around(0.010, 6), 5), result("b", around(0.010, 6), 0), 0.1, "load.web.error_rate", Improvement},
	} {
		if got := verdictOf(t, Results(c.base, c.new, c.threshold), c.figure); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestWhereMoreIsBetterLessIsARegression(t *testing.T) {
	with := func(rate float64) *report.Result {
		r := result("x", around(0.01, 6), 0)
		for i, s := range r.Subjects {
			v := rate + float64(i)/100
			s.Loads["web"].Rate = &v
		}
		return r
	}
	if got := verdictOf(t, Results(with(200), with(100), 0.1), "load.web.rate"); got != Regression {
		t.Errorf("half the rate is %q", got)
	}
	if got := verdictOf(t, Results(with(100), with(200), 0.1), "load.web.rate"); got != Improvement {
		t.Errorf("twice the rate is %q", got)
	}
}

// TestAgainstItselfNothingChanged, whatever was measured.
func TestAgainstItselfNothingChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p99 := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 12).Draw(t, "p99")
		r := result("a", p99, rapid.Int64Range(0, 10).Draw(t, "errors"))
		c := Results(r, r, 0)
		for _, row := range c.Rows {
			if row.Verdict == Regression || row.Verdict == Improvement || row.Change != 0 {
				t.Fatalf("%+v", row)
			}
		}
	})
}

func TestViews(t *testing.T) {
	c := Results(result("a", around(0.010, 6), 0), result("b", around(0.020, 6), 5), 0.1)
	table := string(Table(c))
	for _, want := range []string{"load.web.latency.p99", "regression", "+100%", "from 0", "2 of 3 figures got worse", "10ms [10ms, 10.1ms]"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	if strings.Contains(table, "direct") {
		t.Error("traffic straight to a pod is compared")
	}
	data, err := JSON(c)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Regressions int
		Rows        []map[string]any
	}
	if err := json.Unmarshal(data, &doc); err != nil || doc.Regressions != 2 || len(doc.Rows) != 3 {
		t.Errorf("%s: %v", data, err)
	}
	if _, has := doc.Rows[0]["change"]; has { // from 0
		t.Errorf("a change from 0 is a number: %v", doc.Rows[0])
	}
	data, err = JUnit(c)
	if err != nil {
		t.Fatal(err)
	}
	var suite junitSuite
	if err := xml.Unmarshal(data, &suite); err != nil || suite.Tests != 3 || suite.Failures != 2 {
		t.Errorf("%s: %v", data, err)
	}
}

func TestNotesSayWhatToKnow(t *testing.T) {
	base, new := result("a", around(0.010, 1), 0), result("b", around(0.010, 6), 0)
	new.Run.Scenario, new.Run.CPUs = "other", 8
	new.Subjects = append(new.Subjects, &report.Subject{Proxier: "nftables", Loads: new.Subjects[0].Loads})
	notes := fmt.Sprint(Results(base, new, 0.1).Notes)
	for _, want := range []string{"cannot be judged", "--repeat 6", "scenario: s and other", "number of CPUs: 2 and 8", "in the new run alone"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %s", want, notes)
		}
	}
	empty := &report.Result{}
	if n := Results(base, empty, 0.1).Notes; len(n) == 0 || !strings.Contains(n[0], "nothing to compare") {
		t.Errorf("%v", n)
	}
	broken := result("b", around(0.010, 6), 0)
	for _, s := range broken.Subjects {
		s.Error = "no pod"
	}
	if c := Results(base, broken, 0.1); len(c.Rows) != 0 {
		t.Error("what was not played to its end is compared")
	}
}
