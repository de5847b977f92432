package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// foot is what the table itself cannot say: what failed, what is missing and why, and the notes.
func (t *tabulator) foot() string {
	cols := columns(t.result.Subjects)
	parts := []string{
		t.list("Failed", failures(t.result)),
		t.list(notMeasured+" was not measured", gaps(cols, t.result)),
		t.list("Notes", t.result.Notes),
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
}

func (t *tabulator) list(title string, items []string) string {
	if len(items) == 0 {
		return ""
	}
	lines := []string{t.paint(title, "1")}
	for _, item := range items {
		lines = append(lines, "- "+strings.ReplaceAll(wrap(flat(item), t.width-2), "\n", "\n  "))
	}
	return strings.Join(lines, "\n")
}

// failures are subjects, steps and load generators that did not do what they were asked for.
func failures(r *Result) []string {
	var list []string
	for _, s := range r.Subjects {
		who := nameOf(s.Proxier, s.Backend)
		if r.Run.Repeat > 1 {
			who += fmt.Sprintf(", repetition %d", s.Repetition)
		}
		if s.Error != "" {
			list = append(list, who+": "+oneLine(s.Error))
		}
		for _, step := range s.Steps {
			if step.Error != "" && !strings.Contains(s.Error, step.Error) {
				list = append(list, fmt.Sprintf("%s: step %d (%s): %s", who, step.Index+1, flat(step.Text), oneLine(step.Error)))
			}
		}
		for _, name := range sortedKeys(s.Loads) {
			if l := s.Loads[name]; l.Error != "" {
				list = append(list, fmt.Sprintf("%s: the generator of load %s: %s", who, name, oneLine(l.Error)))
			}
		}
	}
	return list
}

// flat is s on one line, without control characters: texts of a log reach a terminal as they are otherwise.
func flat(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Join(strings.Fields(s), " ")
}

// oneLine is an error as a list can hold it: the log has the whole.
func oneLine(s string) string {
	s = flat(s)
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return s
}

// gap is cells without a figure, and why there is none.
type gap struct {
	why    string
	places []string // "Load web: rate"
	names  []string // proxiers
}

// gaps are the cells without a figure: a whole proxier or a whole part of the table is said once, and those that
// have the reason and the proxiers in common are said together.
func gaps(cols []*column, r *Result) []string {
	rows := allRows(cols, nil)
	unplayed := map[string]bool{}
	var list []gap
	for i, c := range cols {
		if !slices.ContainsFunc(rows, func(r row) bool { return !r.title && r.cells[i].state != empty }) {
			unplayed[c.name] = true
			list = addGap(list, "Everything", "it was not played far enough", c.name)
		}
	}
	for start := 0; start < len(rows); {
		end := start + 1
		for end < len(rows) && !rows[end].title {
			end++
		}
		title, _, _ := strings.Cut(rows[start].label, ":")
		for i, c := range cols {
			if !unplayed[c.name] {
				list = partGaps(list, title, rows[start+1:end], i, c.name)
			}
		}
		start = end
	}
	var lines []string
	for _, g := range merged(list) {
		who := strings.Join(g.names, ", ")
		if len(g.names) == len(cols) {
			who = "all"
		}
		lines = append(lines, fmt.Sprintf("%s (%s): %s", strings.Join(g.places, "; "), who, g.why))
	}
	return append(lines, notEvaluated(r, unplayed)...)
}

// partGaps are the gaps of one column in one part of the table.
func partGaps(list []gap, title string, rows []row, column int, name string) []gap {
	if !slices.ContainsFunc(rows, func(r row) bool { return r.cells[column].state != empty }) {
		return addGap(list, title, rows[0].why, name)
	}
	for _, r := range rows {
		if r.why != "" && r.cells[column].state == empty {
			list = addGap(list, title+": "+strings.TrimSpace(r.label), r.why, name)
		}
	}
	return list
}

// merged puts places together that have the reason and the proxiers in common.
func merged(list []gap) []gap {
	var out []gap
	for _, g := range list {
		i := slices.IndexFunc(out, func(o gap) bool { return o.why == g.why && slices.Equal(o.names, g.names) })
		if i < 0 {
			out = append(out, g)
		} else {
			out[i].places = append(out[i].places, g.places...)
		}
	}
	return out
}

func addGap(list []gap, place, why, name string) []gap {
	for i := range list {
		g := &list[i]
		if g.why == why && len(g.places) == 1 && g.places[0] == place {
			g.names = append(g.names, name)
			return list
		}
	}
	return append(list, gap{why, []string{place}, []string{name}})
}

// notEvaluated are the reasons of expectations that had no samples or that this version cannot read.
func notEvaluated(r *Result, but map[string]bool) []string {
	var lines []string
	for _, v := range r.Expectations {
		name := nameOf(v.Proxier, v.Backend)
		if v.Value != nil || but[name] {
			continue
		}
		if line := fmt.Sprintf("%s (%s): %s", v.Name, name, v.Got); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}
