package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// rulesPage shows the hops behind a Service, as they were last read.
type rulesPage struct {
	w, h   int
	list   scroll
	before int // how far behind the latest
}

func (p *rulesPage) title() string    { return "Rules" }
func (p *rulesPage) setSize(w, h int) { p.w, p.h = w, h }

func (p *rulesPage) key(k keyMap, pressed tea.KeyMsg, v *view) bool {
	switch pressed.String() {
	case "n":
		p.before--
	case "b":
		p.before++
	default:
		return p.list.key(k, pressed)
	}
	p.list.first = 0
	return true
}

func (p *rulesPage) draw(a area, v *view) {
	a = a.sub(1, 0, a.w-2, a.h)
	all := v.state.Rules
	if len(all) == 0 {
		a.text(0, 0, faint, "The rules behind each loaded Service are read when a subject's last step is done,")
		a.text(0, 1, faint, "so that reading them disturbs no measurement. None were read yet.")
		if v.control {
			a.text(0, 3, plain, "r reads them now.")
		}
		return
	}
	p.before = min(max(p.before, 0), len(all)-1)
	r := all[len(all)-1-p.before]
	x := a.text(0, 0, bold, r.Service) + 1
	x += a.text(x, 0, plain, fmt.Sprintf("on %s, by %s, at %s", r.Node, r.Proxier, v.clock(r.At))) + 2
	if len(all) > 1 {
		a.text(x, 0, faint, fmt.Sprintf("%d of %d · b before, n next", len(all)-p.before, len(all)))
	}
	lines := slices.DeleteFunc(slices.Clone(r.Lines), func(l string) bool { return !matches(v.filter, l) })
	p.list.draw(a.sub(0, 2, a.w, a.h-2), len(lines), func(a area, i int) {
		text := lines[i]
		st := plain
		switch trimmed := strings.TrimSpace(text); {
		case strings.HasPrefix(trimmed, "#"):
			st = good
		case !strings.HasPrefix(text, " "):
			st = bold
		}
		a.text(0, 0, st, text)
	})
}
