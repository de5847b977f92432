package tui

import (
	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
)

// scroll is how far down a list is shown. It stays in range when it is drawn.
type scroll struct {
	first int
	page  int // lines that are shown
}

func (s *scroll) key(k keyMap, pressed tea.KeyMsg) bool {
	switch {
	case key.Matches(pressed, k.Up):
		s.first--
	case key.Matches(pressed, k.Down):
		s.first++
	case key.Matches(pressed, k.PageUp):
		s.first -= max(s.page-1, 1)
	case key.Matches(pressed, k.PageDown):
		s.first += max(s.page-1, 1)
	default:
		return false
	}
	return true
}

// draw shows count lines from the first on. Where there are more, the last column says where one is.
func (s *scroll) draw(a area, count int, line func(a area, i int)) {
	s.page = a.h
	s.first = max(min(s.first, count-a.h), 0)
	for y := range min(a.h, count-s.first) {
		line(a.sub(0, y, a.w-2, 1), s.first+y)
	}
	if count <= a.h || a.h < 2 {
		return
	}
	a.column(a.w - 1)
	handle := max(a.h*a.h/count, 1)
	at := s.first * (a.h - handle) / max(count-a.h, 1)
	for y := range handle {
		a.set(a.w-1, at+y, '┃', plain)
	}
}
