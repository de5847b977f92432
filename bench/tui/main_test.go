package tui

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	"proxylab/bench/events"
	"proxylab/bench/events/eventstest"
)

// recording is the first two subjects of a real run.
func recording(t testing.TB) []events.Event {
	t.Helper()
	return slices.DeleteFunc(eventstest.Events(t), func(e events.Event) bool {
		return e.Subject != nil && strings.HasPrefix(e.Subject.Proxier, "kube-proxy/")
	})
}

// still is a source that stands at a moment of a run.
type still struct {
	state *State
	now   time.Time
}

func (s *still) Frame(_ time.Time, draw func(*State, time.Time)) { draw(s.state, s.now) }
func (s *still) Freeze(bool)                                     {}
func (s *still) Ended() bool                                     { return s.state.Ended != nil }

// stillAt is the recorded run after so much time.
func stillAt(t testing.TB, after time.Duration) *still {
	t.Helper()
	s := &still{state: NewState()}
	for _, e := range recording(t) {
		if s.now = e.Time; !s.state.Began.IsZero() && e.Time.Sub(s.state.Began) > after {
			s.now = s.state.Began.Add(after)
			break
		}
		s.state.Add(e)
	}
	return s
}

func themeFor(p termenv.Profile) *theme {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(p)
	return newTheme(r)
}

// sized is a program on a terminal of a size.
func sized(source Source, o Options, t *theme, w, h int) *model {
	m := newModel(source, o, t)
	m.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return m
}

// frameOf is what is drawn in the end, when all that takes longer than a frame may has been done.
func frameOf(m *model) string {
	m.touched = true
	m.View()
	for m.view.again {
		m.frame(time.Now())
	}
	return m.drawn
}

// typed presses keys by their names.
func typed(m *model, keys ...string) {
	for _, k := range keys {
		m.Update(keyMsg(k))
	}
}

var namedKeys = map[string]tea.KeyType{
	"tab": tea.KeyTab, "shift+tab": tea.KeyShiftTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "enter": tea.KeyEnter, "esc": tea.KeyEsc,
	"ctrl+c": tea.KeyCtrlC, " ": tea.KeySpace, "backspace": tea.KeyBackspace,
}

func keyMsg(name string) tea.KeyMsg {
	if kind, ok := namedKeys[name]; ok {
		if kind == tea.KeySpace {
			return tea.KeyMsg{Type: kind, Runes: []rune{' '}}
		}
		return tea.KeyMsg{Type: kind}
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(name)}
}

// fits fails where a frame is larger than its terminal.
func fits(t interface {
	Helper()
	Fatalf(string, ...any)
}, frame string, w, h int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) > max(h, 1) {
		t.Fatalf("%d lines on a terminal of %d", len(lines), h)
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n > w {
			t.Fatalf("line %d is %d columns wide on a terminal of %d: %q", i, n, w, l)
		}
	}
}

// spy is a lab that only notes what it is to do.
type spy struct{ done []Action }

func (s *spy) Do(a Action)     { s.done = append(s.done, a) }
func (s *spy) Swaps() []string { return []string{"userspace", "iptables", "kube-proxy/nftables"} }

func allKeys(k keyMap) []string {
	var names []string
	for _, group := range k.FullHelp() {
		for _, b := range group {
			names = append(names, b.Keys()...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
