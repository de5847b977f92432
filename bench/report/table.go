package report

import (
	"fmt"
	"slices"
	"strings"

	"proxylab/bench/units"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Widths of a table, in columns of a terminal.
const (
	narrow  = 80  // what is aimed at
	widest  = 120 // what is never exceeded
	minimum = 60  // below this nothing readable comes out, so nothing is tried
)

// TableOptions are how a table looks.
type TableOptions struct {
	Width int  // at most this many columns; 0: 80 where that is enough, and at most 120
	Color bool // with ANSI colours; what they say, the text says too
}

// Table is the result for people: the proxiers side by side. Of several repetitions it shows the median, with the
// least and the most. Where the proxiers do not fit side by side, it is several tables, one below the other.
func Table(r *Result, o TableOptions) string {
	limits := []int{narrow, widest}
	if o.Width > 0 {
		limits = []int{min(max(o.Width, minimum), widest)}
	}
	t := tabulator{result: r, color: o.Color, width: limits[len(limits)-1]}
	body := t.body(columns(r.Subjects), limits)
	parts := []string{t.head(), body, t.foot()}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n") + "\n"
}

type tabulator struct {
	result *Result
	color  bool
	width  int // of what is not a table
}

// body renders the columns in the most generous way that fits a limit, the narrowest limit first; if none does, half
// of the columns at a time.
func (t *tabulator) body(cols []*column, limits []int) string {
	if len(cols) == 0 {
		return "Nothing was played."
	}
	rows := allRows(cols, t.result.Expectations)
	var text string
	for _, limit := range limits {
		for _, compact := range []bool{false, true} {
			if text = t.render(cols, rows, compact); widthOf(text) <= limit {
				t.width = min(t.width, max(limit, widthOf(text)))
				return text
			}
		}
	}
	if len(cols) == 1 {
		return text // there is no narrower way
	}
	half := (len(cols) + 1) / 2
	return t.body(cols[:half], limits) + "\n\n" + t.body(cols[half:], limits)
}

func widthOf(s string) int { return text.LongestLineLen(s) }

// render makes the table. Compact, headings and spans take lines of their own and labels are wrapped.
func (t *tabulator) render(cols []*column, rows []row, compact bool) string {
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", " "
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	header := table.Row{""}
	labels := 36
	if compact {
		labels = 30
	}
	config := []table.ColumnConfig{{Number: 1, WidthMax: labels, WidthMaxEnforcer: wrapLabel}}
	for i, c := range cols {
		header = append(header, heading(c, compact))
		config = append(config, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	w.AppendHeader(header)
	w.SetColumnConfigs(config)
	for i, r := range rows {
		if r.title {
			if i > 0 {
				w.AppendRow(table.Row{""})
			}
			t.appendTitle(w, r.label, len(cols))
			continue
		}
		line := table.Row{"  " + r.indent() + flat(r.label)}
		for _, c := range r.cells {
			line = append(line, t.cell(c, compact))
		}
		w.AppendRow(line)
	}
	return w.Render()
}

// appendTitle lets a heading take the whole width, which the library does with cells that are equal.
func (t *tabulator) appendTitle(w table.Writer, title string, cols int) {
	title = t.paint(flat(title), "1")
	line := table.Row{title}
	for range cols {
		line = append(line, title)
	}
	w.AppendRow(line, table.RowConfig{AutoMerge: true, AutoMergeAlign: text.AlignLeft})
}

// wrapLabel breaks a label at blanks and indents what follows. Headings are not indented, and take all columns.
func wrapLabel(label string, width int) string {
	if text.StringWidth(label) <= width || !strings.HasPrefix(label, " ") {
		return label
	}
	indent := label[:len(label)-len(strings.TrimLeft(label, " "))]
	wrapped := wrap(strings.TrimSpace(label), width-len(indent)-2)
	return indent + strings.ReplaceAll(wrapped, "\n", "\n  "+indent)
}

func heading(c *column, compact bool) string {
	name := flat(c.name)
	if compact {
		name = strings.Replace(name, "/", "/\n", 1)
		name = strings.Replace(name, " (", "\n(", 1)
	}
	return name
}

func (t *tabulator) cell(c cell, compact bool) string {
	s := c.text
	if c.names && compact {
		s = strings.ReplaceAll(s, "/", "/\n")
	}
	if c.span != "" && compact {
		s += "\n" + c.span
	} else if c.span != "" {
		s += " (" + c.span + ")"
	}
	switch c.state {
	case good:
		return t.paint(s, "32")
	case bad:
		return t.paint(s, "31")
	case empty:
		return t.paint(s, "2")
	}
	return s
}

// paint colours each line of s, since the lines of a cell end up in lines of the table.
func (t *tabulator) paint(s, code string) string {
	if !t.color {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = "\x1b[" + code + "m" + l + "\x1b[0m"
	}
	return strings.Join(lines, "\n")
}

// head says what was played, and how it ended.
func (t *tabulator) head() string {
	run := t.result.Run
	name := flat(run.Scenario)
	if name == "" {
		name = "A run without a beginning"
	}
	first := t.paint(name, "1")
	if run.Lab != "" {
		first += fmt.Sprintf(" in a %s lab, kernel %s (%s), %d CPUs", flat(run.Lab), flat(run.Kernel.Release), flat(run.Kernel.Kind), run.CPUs)
	}
	second := flat(run.ID)
	if run.Started != nil {
		second += ", started " + run.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		if run.Ended != nil {
			second += ", took " + units.Seconds(run.Ended.Sub(*run.Started).Seconds())
		}
	}
	if run.Version != "" {
		second += ", proxylab " + flat(run.Version)
	}
	outcome := "Outcome: " + flat(run.Outcome)
	if run.Error != "" {
		outcome += ": " + oneLine(run.Error)
	}
	if run.Outcome != Done {
		outcome = t.paint(outcome, "31")
	}
	lines := []string{first, strings.TrimPrefix(second, ", "), outcome}
	if run.Repeat > 1 {
		lines = append(lines, fmt.Sprintf("Repetitions: %d; figures are medians, with the least and the most", run.Repeat))
	}
	lines = slices.DeleteFunc(lines, func(s string) bool { return s == "" })
	for i, line := range lines {
		lines[i] = wrap(line, t.width)
	}
	return strings.Join(lines, "\n")
}

// wrap breaks one line at blanks, and leaves none at the ends of lines.
func wrap(line string, width int) string {
	lines := strings.Split(text.WrapSoft(line, width), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}
