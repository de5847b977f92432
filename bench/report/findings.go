package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"proxylab/bench/stats"
	"proxylab/bench/units"
)

// Weight orders findings.
type Weight int

// From what must be known to what is good to know.
const (
	Broken    Weight = iota // something did not work
	Differing               // proxiers differ
	Fine                    // what could have gone wrong and did not
)

// Finding is a sentence that follows from the figures, with the figures that it follows from.
type Finding struct {
	Weight   Weight
	Proxier  string // as the table names it; empty: about several
	Text     string
	Evidence string
}

// Differences below this factor are not worth a sentence: machines vary by that much.
const notable = 1.5

// Findings are what stands out in a result: what broke, and by how much proxiers differ. They are computed from the
// figures alone, the weightiest first.
func Findings(r *Result) []Finding {
	cols := columns(r.Subjects)
	var list []Finding
	for _, text := range failures(r) {
		list = append(list, Finding{Broken, "", "Not everything was played: " + text, "what the log says of the step"})
	}
	list = append(list, expectationFindings(cols, r.Expectations)...)
	for _, c := range cols {
		list = append(list, swapFindings(c)...)
		list = append(list, errorFindings(c)...)
		list = append(list, syncFindings(c)...)
	}
	list = append(list, compareFindings(cols)...)
	slices.SortStableFunc(list, func(a, b Finding) int { return int(a.Weight) - int(b.Weight) })
	return list
}

// expectationFindings: one sentence per expectation that did not hold, with what was got instead.
func expectationFindings(cols []*column, list []Verdict) []Finding {
	var out []Finding
	held := 0
	failed := map[string]*Finding{}
	for _, v := range list {
		if v.Holds {
			held++
			continue
		}
		name := nameOf(v.Proxier, v.Backend)
		if v.Value == nil && unplayed(cols, name, v.Repetition) {
			continue // that it was not played is said already
		}
		key := v.Name + "\n" + name
		if failed[key] == nil {
			failed[key] = &Finding{Broken, name, fmt.Sprintf("expected %s, which did not hold", v.Name), ""}
			out = append(out, Finding{Proxier: key})
		}
		f := failed[key]
		got := v.Got
		if f.Evidence != "" {
			f.Evidence += ", "
		}
		f.Evidence += "got " + got
		if slices.ContainsFunc(cols, func(c *column) bool { return c.name == name && len(c.subjects) > 1 }) {
			f.Evidence += fmt.Sprintf(" in repetition %d", v.Repetition)
		}
	}
	for i := range out {
		out[i] = *failed[out[i].Proxier]
	}
	if held == len(list) && held > 0 {
		out = append(out, Finding{Fine, "", "Everything that the scenario expects held", fmt.Sprintf("%d of %d expectations", held, len(list))})
	}
	return out
}

// unplayed says whether a repetition was not played to its end.
func unplayed(cols []*column, name string, repetition int) bool {
	for _, c := range cols {
		for _, s := range c.subjects {
			if c.name == name && s.Repetition == repetition {
				return s.Error != ""
			}
		}
	}
	return false
}

// swapFindings is one sentence on what all live changes broke, with each of them as evidence.
func swapFindings(c *column) []Finding {
	var names []string
	sums := map[string]*Swap{}
	kinds := map[string]map[string]int64{}
	var broken, failed int64
	for _, s := range c.subjects {
		for _, w := range s.Swap {
			name := swapName(w)
			if sums[name] == nil {
				sums[name], kinds[name] = &Swap{}, map[string]int64{}
				names = append(names, name)
			}
			t := sums[name]
			t.ConnectionsBroken, t.ConnectionsOpen = t.ConnectionsBroken+w.ConnectionsBroken, t.ConnectionsOpen+w.ConnectionsOpen
			t.RequestsFailed += w.RequestsFailed
			broken, failed = broken+int64(w.ConnectionsBroken), failed+w.RequestsFailed
			for _, m := range []map[string]int64{w.BrokenByKind, w.FailedByKind} {
				for k, n := range m {
					kinds[name][k] += n
				}
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	f := Finding{Fine, c.name, "no connection broken and no request failed at swaps", ""}
	switch {
	case broken > 0 && failed > 0:
		f.Weight, f.Text = Broken, counted(broken, "connection")+" broken and "+counted(failed, "new request")+" failed at swaps"
	case broken > 0:
		f.Weight, f.Text = Broken, counted(broken, "connection")+" broken at swaps"
	case failed > 0:
		f.Weight, f.Text = Broken, "no connection broken, but "+counted(failed, "new request")+" failed at swaps"
	}
	for i, name := range names {
		t := sums[name]
		names[i] = fmt.Sprintf("%s: %d of %d connections broken, %d requests failed", name, t.ConnectionsBroken, t.ConnectionsOpen, t.RequestsFailed)
		if len(kinds[name]) > 0 {
			names[i] += " (" + kindsText(kinds[name]) + ")"
		}
	}
	f.Evidence = strings.Join(names, "; ")
	return []Finding{f}
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// kindsText is "timeout 116, refused 6", the most first.
func kindsText(kinds map[string]int64) string {
	names := sortedKeys(kinds)
	slices.SortStableFunc(names, func(a, b string) int { return int(kinds[b] - kinds[a]) })
	for i, k := range names {
		names[i] = fmt.Sprintf("%s %d", k, kinds[k])
	}
	return strings.Join(names, ", ")
}

// errorFindings is one sentence on the shares of requests that failed, of the loads where that was one in a thousand or more.
func errorFindings(c *column) []Finding {
	var shares, evidence []string
	for _, name := range loadNames([]*column{c}) {
		var requests, errors int64
		kinds := map[string]int64{}
		for _, s := range c.subjects {
			if l := s.Loads[name]; l != nil {
				requests, errors = requests+*orZero(l.Requests), errors+*orZero(l.Errors)
				for k, n := range l.ErrorsByKind {
					kinds[k] += n
				}
			}
		}
		if share := float64(errors) / float64(max(requests, 1)); share >= 0.001 {
			shares = append(shares, fmt.Sprintf("%s of load %s", units.Share(share), name))
			evidence = append(evidence, fmt.Sprintf("%s: %d of %d (%s)", name, errors, requests, kindsText(kinds)))
		}
	}
	if len(shares) == 0 {
		return nil
	}
	return []Finding{{Broken, c.name, "requests failed: " + strings.Join(shares, ", "), strings.Join(evidence, "; ")}}
}

func syncFindings(c *column) []Finding {
	failed, all := 0, 0
	for _, s := range c.subjects {
		if s.Sync != nil {
			failed, all = failed+s.Sync.Failures, all+s.Sync.Count
		}
	}
	if failed == 0 {
		return nil
	}
	return []Finding{{Broken, c.name, fmt.Sprintf("%d syncs failed", failed), fmt.Sprintf("of %d", all)}}
}

// compareFindings: of the figures that matter most, the proxier that is worst, as a multiple of the best.
func compareFindings(cols []*column) []Finding {
	var out []Finding
	for _, q := range []struct{ path, what string }{
		{"programming.added.p99", "a new endpoint is reached late: programming p99"},
		{"programming.removed.p99", "a removed endpoint is still used for long: programming p99"},
		{"sync.seconds.p50", "sync p50"},
		{"usage.cpu", "processor time of the proxier"},
		{"usage.max_rss", "peak memory"},
	} {
		out = append(out, worst(cols, q.path, q.what)...)
	}
	return append(out, latencyFindings(cols)...)
}

// latencyFindings puts the loads together in which the same proxier is the slowest.
func latencyFindings(cols []*column) []Finding {
	var out []Finding
	for _, load := range loadNames(cols) {
		for _, f := range worst(cols, "load."+load+".latency.p99", "") {
			text, evidence := strings.TrimSpace(f.Text)+" in load "+load, load+": "+f.Evidence
			i := slices.IndexFunc(out, func(o Finding) bool { return o.Proxier == f.Proxier })
			if i < 0 {
				out = append(out, Finding{Differing, f.Proxier, "latency p99 " + text, evidence})
				continue
			}
			out[i].Text += ", " + text
			out[i].Evidence += "; " + evidence
		}
	}
	return out
}

// worst compares medians over repetitions.
func worst(cols []*column, path, what string) []Finding {
	var names, texts []string
	least, most, from, to := math.Inf(1), math.Inf(-1), -1, -1
	for _, c := range cols {
		var values []float64
		var text func(float64) string
		for _, s := range c.subjects {
			for _, f := range Figures(s) {
				if f.Path == path {
					values, text = append(values, f.Value), f.TextOf
				}
			}
		}
		m, ok := stats.Median(values)
		if !ok {
			continue
		}
		if m.Median < least {
			least, from = m.Median, len(names)
		}
		if m.Median > most {
			most, to = m.Median, len(names)
		}
		names, texts = append(names, c.name), append(texts, text(m.Median))
	}
	if from < 0 || from == to || least <= 0 || most/least < notable {
		return nil
	}
	return []Finding{{Differing, names[to], fmt.Sprintf("%s %sx of %s", what, units.Number(most/least), names[from]),
		fmt.Sprintf("%s against %s", texts[to], texts[from])}}
}
