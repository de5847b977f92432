package tui

import (
	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
)

type keyBinding = key.Binding

// menu is a list to choose one of.
type menu struct {
	items  []string
	chosen int
}

// press returns what was chosen, and whether the menu is done with; nothing is chosen by esc.
func (m *menu) press(msg tea.KeyMsg) (string, bool) {
	switch msg.String() {
	case "up":
		m.chosen = max(m.chosen-1, 0)
	case "down":
		m.chosen = max(min(m.chosen+1, len(m.items)-1), 0)
	case "enter", " ":
		if len(m.items) == 0 {
			return "", true
		}
		return m.items[m.chosen], true
	case "esc", "q", "s":
		return "", true
	}
	return "", false
}

func (m *menu) draw(a area) {
	const title = " Swap to: ↑ ↓ enter, esc "
	w := columns(title)
	for _, item := range m.items {
		w = max(w, columns(item)+4)
	}
	w = min(w+2, a.w)
	box := a.sub((a.w-w)/2, 1, w, min(len(m.items)+2, a.h-1))
	box.clear()
	box.line(0, '─', accent)
	box.line(box.h-1, '─', accent)
	box.text(1, 0, accent, title)
	for i, item := range m.items {
		if i == m.chosen {
			box.text(1, i+1, bold, "▶ "+item)
		} else {
			box.text(1, i+1, plain, "  "+item)
		}
	}
}
