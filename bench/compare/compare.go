// Package compare says whether one run is worse than another: for each figure of each proxier the medians over the
// repetitions with their confidence intervals, a Mann-Whitney test, and a verdict that needs both a significant difference and an
// effect above a threshold.
package compare

import (
	"fmt"
	"math"
	"slices"

	"proxylab/bench/report"
	"proxylab/bench/stats"
)

// Verdicts on a figure.
const (
	Regression  = "regression"
	Improvement = "improvement"
	Same        = "no difference"    // none that is significant and above the threshold
	Unjudged    = "cannot be judged" // too few repetitions to tell a difference from chance
)

// needed is how many repetitions each side needs before a Mann-Whitney test can reach p < 0.05 at all.
const needed = 4

// advised is from how many repetitions on a median has a 95 % confidence interval.
const advised = 6

// Comparison is how a new run differs from a base.
type Comparison struct {
	Base, New report.Run
	Threshold float64 // share of the base: 0.1 is 10 %
	Rows      []Row
	Notes     []string
}

// Row is one figure of one proxier.
type Row struct {
	Proxier        string
	Figure         string // as expectations name it
	HigherIsBetter bool
	Base, New      stats.Center
	// Change of the median as a share of the base; NaN where the base is 0 and the new is not.
	Change  float64
	P       float64
	Verdict string

	text func(float64) string
}

// Text is a value of the row's figure for people.
func (r Row) Text(v float64) string { return r.text(v) }

// key is a figure of a proxier.
type key struct{ proxier, figure string }

type values struct {
	all    []float64
	sample report.Figure
}

// Results compares two results. Threshold is a share: 0.1 is 10 %.
func Results(base, new *report.Result, threshold float64) *Comparison {
	c := &Comparison{Base: base.Run, New: new.Run, Threshold: threshold}
	before, order := gather(base)
	after, orderAfter := gather(new)
	for _, k := range order {
		if after[k] == nil {
			continue
		}
		if r, ok := row(k, before[k], after[k], threshold); ok {
			c.Rows = append(c.Rows, r)
		}
	}
	c.note(base, new, order, orderAfter, before, after)
	return c
}

// gather puts the repetitions of each figure together, in the order of play.
func gather(r *report.Result) (map[key]*values, []key) {
	list := map[key]*values{}
	var order []key
	for _, s := range r.Subjects {
		if s.Error != "" { // not played to its end: its figures are of another scenario
			continue
		}
		for _, f := range report.Figures(s) {
			k := key{report.Name(s), f.Path}
			if list[k] == nil {
				list[k] = &values{sample: f}
				order = append(order, k)
			}
			list[k].all = append(list[k].all, f.Value)
		}
	}
	return list, order
}

func row(k key, before, after *values, threshold float64) (Row, bool) {
	d, ok := stats.Compare(before.all, after.all)
	if !ok {
		return Row{}, false
	}
	r := Row{
		Proxier: k.proxier, Figure: k.figure, HigherIsBetter: before.sample.HigherIsBetter,
		Base: d.Base, New: d.New, Change: d.Change, P: d.P, text: before.sample.TextOf,
	}
	if d.Base.Median == d.New.Median {
		r.Change = 0
	}
	r.Verdict = verdict(r, d.Significant, threshold)
	return r, true
}

// verdict needs both: a difference that is unlikely to be chance, and one that is large enough to care.
func verdict(r Row, significant bool, threshold float64) string {
	switch {
	case r.Base.N < needed || r.New.N < needed:
		return Unjudged
	case !significant || r.New.Median == r.Base.Median:
		return Same
	case !math.IsNaN(r.Change) && math.Abs(r.Change) <= threshold: // from 0, any change is above a share of it
		return Same
	case (r.New.Median > r.Base.Median) == r.HigherIsBetter:
		return Improvement
	}
	return Regression
}

// Regressions are the rows that got worse.
func (c *Comparison) Regressions() []Row {
	return slices.DeleteFunc(slices.Clone(c.Rows), func(r Row) bool { return r.Verdict != Regression })
}

// Judged says whether any figure could be judged.
func (c *Comparison) Judged() bool {
	return slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Verdict != Unjudged })
}

// note says what a reader has to know: what is on one side alone, too few repetitions, other circumstances, and how many
// false alarms to expect.
func (c *Comparison) note(base, new *report.Result, order, orderAfter []key, before, after map[key]*values) {
	say := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	if len(c.Rows) == 0 {
		say("The runs have no figure of the same proxier in common: there is nothing to compare.")
	}
	least := math.MaxInt
	for _, r := range c.Rows {
		least = min(least, r.Base.N, r.New.N)
	}
	switch {
	case len(c.Rows) == 0:
	case least < needed:
		say("With fewer than %d repetitions on each side no difference can be told from chance. Some figures have only %d on one side and "+
			"cannot be judged: repeat both runs with --repeat %d or more.", needed, least, advised)
	case least < advised:
		say("With fewer than %d repetitions on each side a median has no 95 %% confidence interval.", advised)
	}
	for _, side := range []struct {
		name        string
		order       []key
		here, there map[key]*values
	}{{"base", order, before, after}, {"new", orderAfter, after, before}} {
		only := 0
		for _, k := range side.order {
			if side.there[k] == nil {
				only++
			}
		}
		if only > 0 {
			say("%d figures are in the %s run alone and are not compared.", only, side.name)
		}
	}
	for _, w := range []struct{ what, base, new string }{
		{"scenario", base.Run.Scenario, new.Run.Scenario},
		{"lab", base.Run.Lab, new.Run.Lab},
		{"kernel", base.Run.Kernel.Kind + " " + base.Run.Kernel.Release, new.Run.Kernel.Kind + " " + new.Run.Kernel.Release},
		{"number of CPUs", fmt.Sprint(base.Run.CPUs), fmt.Sprint(new.Run.CPUs)},
	} {
		if w.base != w.new {
			say("The runs differ in their %s: %s and %s.", w.what, w.base, w.new)
		}
	}
	judged := 0
	for _, r := range c.Rows {
		if r.Verdict != Unjudged {
			judged++
		}
	}
	if judged >= 20 {
		say("%d figures were tested at p < 0.05: of runs that do not differ, about %d would seem significantly worse by chance, though few "+
			"by more than the threshold.", judged, int(math.Round(float64(judged)*0.025)))
	}
}
