package tui

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/bubbles/key"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"
)

// TestEveryKeyIsInTheHelp: a key that is declared is a key that is explained.
func TestEveryKeyIsInTheHelp(t *testing.T) {
	k := newKeyMap(true, true)
	explained := map[string]bool{}
	for _, group := range k.FullHelp() {
		for _, b := range group {
			explained[fmt.Sprint(b.Keys())] = b.Help().Desc != ""
		}
	}
	v := reflect.ValueOf(k)
	seen := map[string]string{}
	for i := range v.NumField() {
		name, b := v.Type().Field(i).Name, v.Field(i).Interface().(key.Binding)
		if !explained[fmt.Sprint(b.Keys())] {
			t.Errorf("%s is not explained", name)
		}
		for _, pressed := range b.Keys() {
			if other := seen[pressed]; other != "" {
				t.Errorf("%q is both %s and %s", pressed, other, name)
			}
			seen[pressed] = name
		}
	}
}

// TestEveryKeyOnEveryTab types each key on each tab, and all of them one after the other, and looks at each frame. Any other order is
// TestAnySizeAnyMoment's.
func TestEveryKeyOnEveryTab(t *testing.T) {
	keys := append(allKeys(newKeyMap(true, true)), "x", "ö", "enter", "esc", "b", "n", "backspace")
	source := stillAt(t, 60*time.Second)
	source.state.Add(rulesOf(source.now))
	for _, control := range []Control{nil, &spy{}} {
		for page := range 7 {
			for _, pressed := range keys {
				m := sized(source, Options{Stop: func() {}, Control: control}, themeFor(termenv.Ascii), 80, 24)
				m.page = page
				typed(m, pressed)
				fits(t, m.View(), 80, 24)
			}
		}
		m := sized(source, Options{Stop: func() {}, Control: control}, themeFor(termenv.Ascii), 80, 24)
		for _, pressed := range keys { // one after the other, wherever that leads
			typed(m, pressed)
			fits(t, m.View(), 80, 24)
			m.quit = false
		}
	}
}

func TestTabsGoRound(t *testing.T) {
	m := sized(stillAt(t, 60*time.Second), Options{}, themeFor(termenv.Ascii), 80, 24)
	for i := range m.pages {
		if m.page != i {
			t.Fatalf("tab %d is shown after %d times tab", m.page, i)
		}
		typed(m, "tab")
	}
	if m.page != 0 {
		t.Error("the last tab is not followed by the first")
	}
	typed(m, "shift+tab")
	if m.page != len(m.pages)-1 {
		t.Error("the first tab is not preceded by the last")
	}
	typed(m, "3")
	if m.pages[m.page].title() != "Syncs" {
		t.Error("3 is not the third")
	}
}

func TestChoosingALoadKeepsItChosen(t *testing.T) {
	source := stillAt(t, 40*time.Second)
	m := sized(source, Options{}, themeFor(termenv.Ascii), 80, 24)
	frameOf(m)
	typed(m, "down", "down", "down", "down", "down", "down")
	frameOf(m)
	if m.view.load != "open" {
		t.Fatalf("%q is chosen, want the last load", m.view.load)
	}
	later := stillAt(t, 75*time.Second) // another subject
	m.source = later
	if frame := frameOf(m); !strings.Contains(frame, "│ open") {
		t.Errorf("the load is not shown any more:\n%s", frame)
	}
	typed(m, "up")
	frameOf(m)
	if m.view.load != "udp" {
		t.Errorf("%q is chosen", m.view.load)
	}
}

func TestFilter(t *testing.T) {
	m := sized(stillAt(t, 75*time.Second), Options{}, themeFor(termenv.Ascii), 160, 50)
	typed(m, "3", "/", "n", "o", "d", "e", "2", "q", "backspace", "enter")
	frame := frameOf(m)
	if m.view.filter != "node2" || m.asking || m.quit {
		t.Fatalf("the filter is %q", m.view.filter)
	}
	if strings.Contains(frame, "node1") || !strings.Contains(frame, "node2") {
		t.Errorf("not filtered:\n%s", frame)
	}
	typed(m, "/", "esc")
	if frame = frameOf(m); m.view.filter != "" || !strings.Contains(frame, "node1") {
		t.Errorf("still filtered:\n%s", frame)
	}
}

func TestQuitAsksWhileARunGoesOn(t *testing.T) {
	stopped := 0
	m := sized(stillAt(t, 30*time.Second), Options{Stop: func() { stopped++ }}, themeFor(termenv.Ascii), 80, 24)
	typed(m, "q")
	if m.quit || stopped != 0 || !strings.Contains(frameOf(m), "End the run now?") {
		t.Fatal("q does not ask")
	}
	typed(m, "n")
	if m.asking || stopped != 0 {
		t.Fatal("no is taken for yes")
	}
	typed(m, "q", "q")
	if stopped != 1 || m.quit || !strings.Contains(frameOf(m), "stopping") {
		t.Fatalf("stopped %d times, the view has left: %v", stopped, m.quit)
	}
	typed(m, "q", "ctrl+c") // q has nothing more to ask, Ctrl-C is for who does not want to wait
	if stopped != 1 || !m.quit || !m.forced {
		t.Error("the view does not leave for who stops twice")
	}
	alone := sized(stillAt(t, 30*time.Second), Options{}, themeFor(termenv.Ascii), 80, 24)
	typed(alone, "q")
	if !alone.quit {
		t.Error("q does not leave a view with no run to end")
	}
}

func TestKeysActOnALab(t *testing.T) {
	lab := &spy{}
	m := sized(stillAt(t, 30*time.Second), Options{Control: lab}, themeFor(termenv.Ascii), 80, 24)
	typed(m, "+", "-", "a", "c", "l", "k", "r", "s", "down", "down", "up", "enter", "s", "esc")
	want := []Action{{Kind: ScaleUp}, {Kind: ScaleDown}, {Kind: Affinity}, {Kind: Churn}, {Kind: ToggleLoad}, {Kind: KillPod},
		{Kind: ShowRules}, {Kind: Swap, To: "iptables"}}
	if !reflect.DeepEqual(lab.done, want) {
		t.Errorf("did %v, want %v", lab.done, want)
	}
	without := sized(stillAt(t, 30*time.Second), Options{}, themeFor(termenv.Ascii), 80, 24)
	typed(without, "+", "-", "a", "c", "l", "k", "r", "s") // must not do anything
	if without.menu != nil {
		t.Error("a menu without a lab")
	}
}

// TestAnySizeAnyMoment: whatever is typed and however the terminal is resized, at whatever moment of a run, the frame fits.
func TestAnySizeAnyMoment(t *testing.T) {
	keys := append(allKeys(newKeyMap(true, true)), "x", "enter", "esc", "日")
	rapid.Check(t, func(r *rapid.T) {
		source := stillAt(t, time.Duration(rapid.IntRange(0, 100).Draw(r, "seconds"))*time.Second)
		var control Control
		if rapid.Bool().Draw(r, "a lab") {
			control = &spy{}
		}
		profile := rapid.SampledFrom([]termenv.Profile{termenv.Ascii, termenv.ANSI, termenv.TrueColor}).Draw(r, "colours")
		m := newModel(source, Options{Control: control, Stop: func() {}}, themeFor(profile))
		for range rapid.IntRange(1, 6).Draw(r, "times") {
			w, h := rapid.IntRange(0, 220).Draw(r, "width"), rapid.IntRange(0, 70).Draw(r, "height")
			m.resize(w, h)
			typed(m, rapid.SliceOfN(rapid.SampledFrom(keys), 0, 6).Draw(r, "keys")...)
			fits(r, m.View(), w, h)
			if m.quit {
				return
			}
		}
	})
}
