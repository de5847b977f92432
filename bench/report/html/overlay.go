package html

import (
	"slices"

	"proxylab/bench/chart"
	"proxylab/bench/timeline"
)

// Overlay is the loads of two runs, their curves over each other: those of base are thin. The time of both counts from the
// first step of their scenarios.
func Overlay(base, with *View) ([]Group, error) {
	var out []Group
	for _, name := range commonLoads(base.Timeline, with.Timeline) {
		g := Group{ID: "load-" + identifier(name), Title: "Load " + name, Text: "Thin lines are the base, thick ones the new run."}
		through, took := measures(kindOf(with.Timeline, name))
		var list []drawing
		for _, m := range append([]measure{through}, took...) {
			list = append(list, chart.Lines{ID: g.ID + "-" + m.id, Title: m.title, Note: m.note, Unit: m.unit, Log: m.log,
				Series: bothSeries(base.Timeline, with.Timeline, name, m), Marks: commonMarks(base.Timeline, with.Timeline)})
		}
		if err := g.draw(list); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

func commonLoads(base, with *timeline.Timeline) []string {
	has := loadNames(base)
	return slices.DeleteFunc(loadNames(with), func(name string) bool { return !slices.Contains(has, name) })
}

// bothSeries are the curves of a load in two runs, proxier by proxier.
func bothSeries(base, with *timeline.Timeline, load string, m measure) []chart.Series {
	before, now := series(base, load, m.of), series(with, load, m.of)
	for i := range before {
		before[i].Name, before[i].Thin = before[i].Name+", base", true
	}
	for i := range now {
		now[i].Name += ", new"
	}
	return append(before, now...)
}

// commonMarks are the steps of the new run, if the base went through the same: else they would stand at the wrong curves.
func commonMarks(base, with *timeline.Timeline) []chart.Mark {
	same := slices.EqualFunc(base.Steps, with.Steps, func(a, b timeline.Step) bool { return a.Kind == b.Kind && a.Text == b.Text })
	if !same {
		return nil
	}
	return marks(with.Steps)
}
