package report

import "strings"

// Section is a part of the table that all views of a result share: a heading and figures of all proxiers.
type Section struct {
	Title string
	Rows  []Row
}

// Row is one figure, of all proxiers.
type Row struct {
	Label  string
	Indent int // depth below the row that it explains
	Cells  []Cell
}

// Cell is one figure of one proxier, over its repetitions.
type Cell struct {
	Text string // of several repetitions, the median
	Span string // the least and the most, where repetitions differ
	Bad  bool   // something to look at: an expectation that does not hold, an error
	Good bool   // an expectation that holds
	None bool   // not measured
}

// Sections is the content of the table, and the proxiers that its columns are.
func Sections(r *Result) (proxiers []string, sections []Section) {
	cols := columns(r.Subjects)
	for _, c := range cols {
		proxiers = append(proxiers, c.name)
	}
	if len(cols) == 0 {
		return nil, nil
	}
	for _, line := range allRows(cols, r.Expectations) {
		if line.title {
			sections = append(sections, Section{Title: flat(line.label)})
			continue
		}
		row := Row{Label: flat(line.label), Indent: len(line.indent()) / 2}
		for _, c := range line.cells {
			row.Cells = append(row.Cells, Cell{
				Text: strings.ReplaceAll(c.text, "\n", " "), Span: c.span,
				Bad: c.state == bad, Good: c.state == good, None: c.state == empty,
			})
		}
		last := &sections[len(sections)-1]
		last.Rows = append(last.Rows, row)
	}
	return proxiers, sections
}

// Failures are subjects, steps and load generators that did not do what they were asked for, in sentences.
func Failures(r *Result) []string { return failures(r) }

// Unmeasured says what was not measured, and why.
func Unmeasured(r *Result) []string { return gaps(columns(r.Subjects), r) }

// Name is how people call a subject's proxier: "iptables (legacy)".
func Name(s *Subject) string { return nameOf(s.Proxier, s.Backend) }
