package tui

import (
	"fmt"
	"maps"
	"slices"

	"proxylab/bench/units"

	tea "github.com/charmbracelet/bubbletea"
)

// loadsPage shows all loads in figures, and the chosen one in charts.
type loadsPage struct{ w, h int }

func (p *loadsPage) title() string    { return "Loads" }
func (p *loadsPage) setSize(w, h int) { p.w, p.h = w, h }

func (p *loadsPage) key(k keyMap, pressed tea.KeyMsg, v *view) bool {
	return chooseLoad(k, pressed, v)
}

func (p *loadsPage) draw(a area, v *view) {
	a = a.sub(1, 0, a.w-2, a.h)
	sub := v.state.Current()
	if sub == nil {
		a.text(0, 0, faint, "No load has started yet.")
		return
	}
	list := v.loadsOf(sub, true)
	v.move(list)
	if len(list) == 0 {
		a.text(0, 0, faint, noLoad(v))
		return
	}
	rows := [][]string{{"", "LOAD", "WHAT", "RATE", "P50", "P99", "ERRORS", "REQUESTS", "ERRORS IN ALL"}}
	for i, l := range list {
		rows = append(rows, loadRow(v, l, i == v.chosen(list)))
	}
	if a.w < 100 {
		for i := range rows {
			rows[i][2] = "" // the heading of the charts says it
		}
	}
	most := len(list) + 1
	if a.h < 30 {
		most = min(most, max(a.h/3, 3))
	}
	first := max(min(v.chosen(list)-(most-2)/2, len(list)-(most-1)), 0)
	rows = append(rows[:1], rows[1+first:1+first+min(most-1, len(list)-first)]...)
	drawTable(a, rows, []bool{3: true, 4: true, 5: true, 6: true, 7: true}, func(row int) style {
		switch {
		case row == 0:
			return faint
		case first+row-1 == v.chosen(list):
			return bold
		}
		return plain
	})
	y := len(rows) + 1
	if a.h-y < 7 {
		return
	}
	drawLoad(a.sub(0, y, a.w, a.h-y), v, list[v.chosen(list)])
}

// loadRow is a load in figures: of the last three seconds (of one that has ended, of all its time), and in all.
func loadRow(v *view, l *Load, chosen bool) []string {
	row := []string{"", l.Name, "", "–", "–", "–", "–", fmt.Sprint(l.Total), errorsText(l)}
	if chosen {
		row[0] = "▶"
	}
	if l.Info != nil {
		row[2] = traits(l)
	}
	b, _ := l.now()
	if l.Ended { // then of all its time
		all, ok := l.sum(v.until)
		if !ok {
			v.again = true
			return row
		}
		b = *all
	}
	if b.seconds == 0 {
		return row
	}
	switch l.kind() {
	case "hold":
		row[3] = fmt.Sprintf("%d open", b.open)
	case "stream":
		row[3] = units.Throughput(float64(b.bytes) / b.seconds)
	default:
		row[3] = units.Rate(float64(b.requests) / b.seconds)
	}
	if p50, p99, ok := b.quantiles(); ok && l.kind() != "hold" {
		row[4], row[5] = seconds(p50), seconds(p99)
	}
	row[6] = units.Rate(float64(b.errors) / b.seconds)
	return row
}

// errorsText is "12: 9 reset, 3 timeout".
func errorsText(l *Load) string {
	if l.Errors == 0 {
		return "0"
	}
	text := fmt.Sprintf("%d:", l.Errors)
	for i, kind := range slices.Sorted(maps.Keys(l.Kinds)) {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %d %s", l.Kinds[kind], kind)
	}
	return text
}

// drawTable writes rows in columns as wide as what they hold, those of right aligned there.
func drawTable(a area, rows [][]string, right []bool, styleOf func(row int) style) {
	width := columnsOf(rows)
	for y, row := range rows {
		drawRow(a, y, row, width, right, styleOf(y))
	}
}

// scrollTable is drawTable with a heading, the first of the rows, below which the others scroll; marked are those that are to be
// looked at.
func scrollTable(a area, list *scroll, rows [][]string, right, marked []bool) {
	width, styleOf := columnsOf(rows), markedRows(marked)
	drawRow(a, 0, rows[0], width, right, styleOf(0))
	list.draw(a.sub(0, 1, a.w, a.h-1), len(rows)-1, func(a area, i int) {
		drawRow(a, 0, rows[i+1], width, right, styleOf(i+1))
	})
}

func markedRows(marked []bool) func(row int) style {
	return func(row int) style {
		switch {
		case row == 0:
			return faint
		case marked[row]:
			return bad
		}
		return plain
	}
}

func drawRow(a area, y int, row []string, width []int, right []bool, st style) {
	x := 0
	for i, text := range row {
		if i < len(right) && right[i] {
			a.text(x+width[i]-columns(text), y, st, text)
		} else {
			a.text(x, y, st, text)
		}
		if width[i] > 0 {
			x += width[i] + 2
		}
	}
}
