package report

import (
	"fmt"
	"slices"
	"strings"

	"proxylab/bench/stats"
)

// notMeasured stands where there is no figure.
const notMeasured = "–"

// column is one proxier of a table: its repetitions.
type column struct {
	name     string
	proxier  string
	backend  string
	subjects []*Subject
}

// columns puts the repetitions of a subject together, in the order in which the proxiers were first played.
func columns(subjects []*Subject) []*column {
	var list []*column
	for _, s := range subjects {
		i := slices.IndexFunc(list, func(c *column) bool { return c.proxier == s.Proxier && c.backend == s.Backend })
		if i < 0 {
			i = len(list)
			list = append(list, &column{name: nameOf(s.Proxier, s.Backend), proxier: s.Proxier, backend: s.Backend})
		}
		list[i].subjects = append(list[i].subjects, s)
	}
	return list
}

// cell is one figure of one proxier, over its repetitions.
type cell struct {
	text  string // of several repetitions, the median
	span  string // beside it: of several repetitions that differ, the least and the most
	state state
	names bool // the text is names of proxiers, which may be broken after a slash
}

// state is what colour can say about a cell. Whatever it says, the text says too.
type state int

const (
	plain state = iota
	good
	bad
	empty
)

// row is a line of the table: a figure, of all proxiers.
type row struct {
	label string
	cells []cell
	title bool   // a heading over the rows that follow; has no cells
	why   string // why there may be none
}

// indent is the blanks that the label begins with.
func (r row) indent() string { return r.label[:len(r.label)-len(strings.TrimLeft(r.label, " "))] }

func (r row) empty() bool {
	for _, c := range r.cells {
		if c.state != empty {
			return false
		}
	}
	return true
}

// figure makes a row of one number per subject.
func figure(cols []*column, label string, dim dimension, why string, get func(*Subject) *float64) row {
	r := row{label: label, why: why}
	for _, c := range cols {
		var values []float64
		for _, s := range c.subjects {
			if v := get(s); v != nil {
				values = append(values, *v)
			}
		}
		r.cells = append(r.cells, overRepetitions(values, dim))
	}
	return r
}

// troubles is figure for what should be 0.
func troubles(cols []*column, label, why string, get func(*Subject) *float64) row {
	r := figure(cols, label, count, why, get)
	for i := range r.cells {
		if c := &r.cells[i]; c.state == plain && (c.text != "0" || c.span != "") {
			c.state = bad
		}
	}
	return r
}

func overRepetitions(values []float64, dim dimension) cell {
	m, ok := stats.Median(values)
	if !ok {
		return cell{text: notMeasured, state: empty}
	}
	c := cell{text: dim.format(m.Median)}
	if least, most := dim.format(m.Min), dim.format(m.Max); least != most {
		c.span = span(least, most)
	}
	return c
}

// span is "1.2..3.4ms", with one unit where both have the same.
func span(least, most string) string {
	unit := func(s string) string { return strings.TrimLeft(s, "-0123456789.") }
	if u := unit(least); u == unit(most) && !strings.ContainsAny(u, "0123456789") { // not of "1m2s"
		least = strings.TrimSuffix(least, u)
	}
	return least + ".." + most
}

// names makes a row of one name per subject; repetitions that agree are said once.
func names(cols []*column, label, why string, get func(*Subject) string) row {
	r := row{label: label, why: why}
	for _, c := range cols {
		var texts []string
		for _, s := range c.subjects {
			if t := get(s); t != "" && !slices.Contains(texts, t) {
				texts = append(texts, t)
			}
		}
		if len(texts) == 0 {
			r.cells = append(r.cells, cell{text: notMeasured, state: empty})
			continue
		}
		r.cells = append(r.cells, cell{text: strings.Join(texts, "\n"), names: true})
	}
	return r
}

// byKind makes a row per kind of error that any subject met.
func byKind(cols []*column, get func(*Subject) (kinds map[string]int64, measured bool)) []row {
	var kinds []string
	for _, c := range cols {
		for _, s := range c.subjects {
			m, _ := get(s)
			for kind := range m {
				if !slices.Contains(kinds, kind) {
					kinds = append(kinds, kind)
				}
			}
		}
	}
	slices.Sort(kinds)
	var rows []row
	for _, kind := range kinds {
		rows = append(rows, troubles(cols, "  "+kind, "", func(s *Subject) *float64 {
			m, measured := get(s)
			if !measured {
				return nil
			}
			return number(float64(m[kind]))
		}))
	}
	return rows
}

// verdicts makes a row per expectation.
func verdicts(cols []*column, list []Verdict) []row {
	var names []string
	for _, v := range list {
		if !slices.Contains(names, v.Name) {
			names = append(names, v.Name)
		}
	}
	var rows []row
	for _, name := range names {
		r := row{label: name}
		for _, c := range cols {
			r.cells = append(r.cells, verdictCell(c, name, list))
		}
		rows = append(rows, r)
	}
	return rows
}

// verdictCell: one repetition gives "✓ 12ms"; several give how many held, and what the first got that did not.
func verdictCell(c *column, name string, list []Verdict) cell {
	var of, held int
	var first, got string
	for _, v := range list {
		if v.Name != name || v.Proxier != c.proxier || v.Backend != c.backend {
			continue
		}
		text, _, _ := strings.Cut(v.Got, ":") // "no samples: why"; the why is below the table
		if of++; of == 1 {
			first = text
		}
		if v.Holds {
			held++
		} else if got == "" {
			got = text
		}
	}
	switch {
	case of == 0:
		return cell{text: notMeasured, state: empty}
	case held == of && of == 1:
		return cell{text: "✓ " + first, state: good}
	case held == of:
		return cell{text: fmt.Sprintf("✓ %d of %d", held, of), state: good}
	case of == 1:
		return cell{text: "✗ " + got, state: bad}
	}
	return cell{text: fmt.Sprintf("✗ %d of %d", held, of), span: got, state: bad}
}
