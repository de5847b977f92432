package tui

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// endpointsPage shows who answers, lately and in all, and how long changes of the endpoints took to be obeyed.
type endpointsPage struct{ w, h int }

func (p *endpointsPage) title() string    { return "Endpoints" }
func (p *endpointsPage) setSize(w, h int) { p.w, p.h = w, h }

func (p *endpointsPage) key(k keyMap, pressed tea.KeyMsg, v *view) bool {
	return chooseLoad(k, pressed, v)
}

func (p *endpointsPage) draw(a area, v *view) {
	a = a.sub(1, 0, a.w-2, a.h)
	sub := v.state.Current()
	if sub == nil || len(sub.Loads) == 0 {
		a.text(0, 0, faint, "Nobody was asked yet.")
		return
	}
	unfiltered := *v // the filter is for pods here
	unfiltered.filter = ""
	list := unfiltered.loadsOf(sub, false)
	v.move(list)
	if len(list) == 0 {
		a.text(0, 0, faint, "Nobody was asked yet.")
		return
	}
	l := list[v.chosen(list)]
	top, half := a, a.w
	if a.w >= 70 {
		half = a.w*3/5 - 1
		top = a.sub(0, 0, half, a.h)
		a.sub(half+1, 0, 1, a.h).column(0)
		drawChanges(a.sub(half+3, 0, a.w-half-3, a.h), v, sub)
	}
	x := top.text(0, 0, bold, "Answers to load "+l.Name) + 2
	if len(list) > 1 {
		top.text(x, 0, faint, fmt.Sprintf("%d of %d loads, ↑ ↓ another", v.chosen(list)+1, len(list)))
	}
	p.bars(a.sub(0, 2, half, a.h-2), v, l)
}

// bars draws each pod twice: its share of the last seconds, and of all.
func (p *endpointsPage) bars(a area, v *view, l *Load) {
	_, now := l.now()
	lately, ever := shares(now, l.Pods, l.Ended), shares(l.Pods, l.Pods, true)
	lately = slices.DeleteFunc(lately, func(s podShare) bool { return !matches(v.filter, s.pod) })
	if len(lately) == 0 {
		a.text(0, 0, faint, "nobody answered yet")
		if len(l.Pods) > 0 {
			a.text(0, 0, faint, "No pod passes the filter.")
		}
		return
	}
	name, shown := 0, func(pod string) string { return pod }
	if a.w < 70 {
		shown = ownName
	}
	for _, s := range lately {
		name = max(name, columns(shown(s.pod)))
	}
	name = min(name, max(a.w/3, 8))
	width := max((a.w-name-18)/2, 3)
	if l.Ended {
		width = max(a.w-name-7, 3)
		a.text(name+1, 0, faint, "share of all answers")
	} else {
		a.text(name+1, 0, faint, fit("share of the last 3s", width+5))
		a.text(name+1+width+7, 0, faint, fit("share of all", width+5))
	}
	for y, s := range lately {
		if y+1 == a.h-1 && len(lately) > a.h-1 {
			a.text(0, y+1, faint, fmt.Sprintf("… %d more", len(lately)-y))
			return
		}
		st := plain
		if s.count == 0 {
			st = faint
		}
		a.text(0, y+1, st, tailOf(shown(s.pod), name))
		a.bar(name+1, y+1, width, s.share, good)
		a.text(name+1+width+1, y+1, st, fmt.Sprintf("%3.0f%%", 100*s.share))
		if l.Ended {
			continue
		}
		i := slices.IndexFunc(ever, func(e podShare) bool { return e.pod == s.pod })
		a.bar(name+1+width+7, y+1, width, ever[i].share, subject0)
		a.text(name+1+2*width+8, y+1, plain, fmt.Sprintf("%3.0f%%", 100*ever[i].share))
	}
}

// drawChanges lists how long the data path took to obey, the latest change first.
func drawChanges(a area, v *view, sub *Subject) {
	a.text(0, 0, bold, "Programming latency")
	if len(sub.Programming) == 0 {
		a.text(0, 2, faint, "no change seen yet")
		return
	}
	a.text(0, 1, faint, "change made, obeyed after")
	y := 2
	for _, p := range slices.Backward(sub.Programming) {
		if y >= a.h || !matches(v.filter, p.Endpoint) {
			continue
		}
		sign, st := "+", good
		if p.Change == "removed" {
			sign, st = "−", warn
		}
		text := seconds(p.Seconds)
		if p.Error != "" {
			text, st = "> "+text, bad
		}
		x := a.text(0, y, faint, v.clock(p.At)) + 1
		x += a.text(x, y, st, sign) + 1
		room := a.w - x - columns(text) - 1
		pod := p.Endpoint
		if columns(pod) > room {
			pod = ownName(pod)
		}
		a.text(x, y, plain, tailOf(pod, max(room, 1)))
		a.right(a.w, y, bold, text)
		y++
	}
}
