package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"proxylab/bench/report"
)

// summaryPage is the table that a run ends with, of what was measured so far.
type summaryPage struct {
	w, h    int
	list    scroll
	version int // of the state that lines are of
	second  int64
	width   int
	lines   []string
}

func (p *summaryPage) title() string    { return "Summary" }
func (p *summaryPage) setSize(w, h int) { p.w, p.h = w, h }

func (p *summaryPage) key(k keyMap, pressed tea.KeyMsg, _ *view) bool { return p.list.key(k, pressed) }

func (p *summaryPage) draw(a area, v *view) {
	a = a.sub(1, 0, a.w-1, a.h)
	p.refresh(a.w-2, v)
	if p.lines == nil {
		a.text(0, 0, faint, "The figures are being added up.")
		return
	}
	var lines []string
	for _, l := range p.lines {
		if matches(v.filter, l) {
			lines = append(lines, l)
		}
	}
	p.list.draw(a, len(lines), func(a area, i int) { a.ansi(0, 0, lines[i]) })
}

// refresh makes the table anew, once a second at most: it takes longer than all the rest.
func (p *summaryPage) refresh(width int, v *view) {
	if p.lines != nil && p.width == width && (p.version == v.state.version || p.second == v.now.Unix() && v.live) {
		return
	}
	result := v.state.Result(v.until)
	if result == nil {
		v.again = true
		return
	}
	if v.live && result.Run.Outcome == report.CutOff {
		running := *result
		running.Run.Outcome = "running"
		result = &running
	}
	text := report.Table(result, report.TableOptions{Width: max(width, 60), Color: true})
	p.lines, p.width, p.version, p.second = strings.Split(strings.TrimRight(text, "\n"), "\n"), width, v.state.version, v.now.Unix()
}
