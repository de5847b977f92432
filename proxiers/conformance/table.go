package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is the document for people: a matrix of behaviours and proxiers, what differs in footnotes, and counts.
func (d Document) Table() string {
	proxiers := d.proxiers()
	w := table.NewWriter()
	w.SetStyle(table.StyleLight)
	w.Style().Format.Header = text.FormatDefault
	w.Style().Options.SeparateRows = false
	header := table.Row{"area", "behaviour"}
	for _, p := range proxiers {
		header = append(header, p)
	}
	w.AppendHeader(header)
	w.SetColumnConfigs([]table.ColumnConfig{{Number: 1, AutoMerge: true}, {Number: 2, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}})
	n := notes{}
	area := ""
	for _, row := range d.matrix() {
		if area != "" && area != row.area {
			w.AppendSeparator()
		}
		area = row.area
		cells := table.Row{row.area, row.behaviour}
		for _, p := range proxiers {
			cells = append(cells, n.cell(row.results[p]))
		}
		w.AppendRow(cells)
	}
	var b strings.Builder
	b.WriteString(w.Render() + "\n")
	n.write(&b)
	d.summary(&b, proxiers)
	return b.String()
}

// line is a row of the matrix.
type line struct {
	area, behaviour string
	results         map[string]*Result
}

func (d Document) matrix() []line {
	var lines []line
	for i, r := range d.Rows {
		at := slices.IndexFunc(lines, func(l line) bool { return l.behaviour == r.Behaviour })
		if at < 0 {
			lines = append(lines, line{r.Area, r.Behaviour, map[string]*Result{}})
			at = len(lines) - 1
		}
		lines[at].results[r.Proxier] = &d.Rows[i]
	}
	return lines
}

func (d Document) proxiers() []string {
	var names []string
	for _, r := range d.Rows {
		if !slices.Contains(names, r.Proxier) {
			names = append(names, r.Proxier)
		}
	}
	return names
}

// notes are the footnotes, in the order in which they are met; equal ones are said once.
type notes struct {
	texts []string
}

func (n *notes) number(text string) int {
	if i := slices.Index(n.texts, text); i >= 0 {
		return i + 1
	}
	n.texts = append(n.texts, text)
	return len(n.texts)
}

func (n *notes) cell(r *Result) string {
	switch {
	case r == nil:
		return "not tried"
	case r.Holds == nil:
		return fmt.Sprintf("n/a %d", n.number(r.Detail))
	case *r.Holds:
		return "holds"
	}
	what := r.Proxier + ": " + r.Detail
	if r.Reported != "" {
		what += " [" + r.Reported + "]"
	}
	return fmt.Sprintf("DIFFERS %d", n.number(what))
}

func (n *notes) write(b *strings.Builder) {
	for i, t := range n.texts {
		fmt.Fprintf(b, "%3d  %s\n", i+1, strings.ReplaceAll(strings.TrimSpace(t), "\n", "\n     "))
	}
	if len(n.texts) > 0 {
		b.WriteString("\n")
	}
}

// summary says how many of what, for each proxier.
func (d Document) summary(b *strings.Builder, proxiers []string) {
	for _, p := range proxiers {
		var holds, differs, unknown, not int
		for _, r := range d.Rows {
			switch {
			case r.Proxier != p:
			case r.Holds == nil:
				not++
			case *r.Holds:
				holds++
			default:
				differs++
				if r.Reported == "" {
					unknown++
				}
			}
		}
		fmt.Fprintf(b, "%s: %d of %d applicable behaviours hold", p, holds, holds+differs)
		if differs > 0 {
			fmt.Fprintf(b, ", %d differ (%d without a known report)", differs, unknown)
		}
		if not > 0 {
			fmt.Fprintf(b, ", %d do not apply", not)
		}
		if backend := d.Environment.Backends[p]; backend != "" {
			fmt.Fprintf(b, "; rules by iptables-%s", backend)
		}
		b.WriteString("\n")
	}
	e := d.Environment
	fmt.Fprintf(b, "kernel %s (%s), %d CPUs, lab %s with %d nodes, proxylab %s\n", e.Kernel.Release, e.Kernel.Kind, e.CPUs, e.Lab, e.Nodes, e.Version)
	for _, f := range e.Facts {
		b.WriteString(f + "\n")
	}
	if d.Interrupted {
		b.WriteString("interrupted: what was not tried by then is missing\n")
	}
}
