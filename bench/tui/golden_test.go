package tui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/muesli/termenv"

	"proxylab/bench/events"
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".frame.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got+"\n", "\n")); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it anew):\n%s", file, diff)
	}
}

// rulesOf are rules as a run has them in its log.
func rulesOf(at time.Time) events.Event {
	return events.Event{Time: at, Subject: &events.Subject{Proxier: "userspace", Backend: "nft", Repetition: 1}, Rules: &events.Rules{
		Service: "default/web", Node: "node1", Proxier: "userspace",
		Lines: []string{"default/web, port http 80/TCP, by its cluster IP 10.96.0.10:80", "  nat KUBE-PORTALS-CONTAINER:",
			"    -A KUBE-PORTALS-CONTAINER -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 34567",
			"      # goes to the proxy's own port, 34567"},
	}}
}

// TestEveryTab: each page of a real run at the sizes of a small and of a large terminal, in the middle of its second subject.
func TestEveryTab(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {160, 50}} {
		source := stillAt(t, 75*time.Second)
		source.state.Add(rulesOf(source.state.Began.Add(42 * time.Second)))
		m := sized(source, Options{}, themeFor(termenv.Ascii), size[0], size[1])
		for i, p := range m.pages {
			m.page = i
			frame := frameOf(m)
			fits(t, frame, size[0], size[1])
			golden(t, fmt.Sprintf("%s.%dx%d", strings.ToLower(p.title()), size[0], size[1]), frame)
		}
	}
}

func TestOtherStates(t *testing.T) {
	at := func(after time.Duration) *model {
		return sized(stillAt(t, after), Options{Stop: func() {}}, themeFor(termenv.Ascii), 80, 24)
	}
	for name, m := range map[string]*model{
		"begun": at(0), "coloured": sized(stillAt(t, 75*time.Second), Options{}, themeFor(termenv.ANSI), 80, 24),
		"done": at(time.Hour),
	} {
		golden(t, name, frameOf(m))
	}
	m := at(40 * time.Second)
	typed(m, "?")
	golden(t, "help", frameOf(m))
	typed(m, "x", "q")
	golden(t, "asking", frameOf(m))
	lab := sized(stillAt(t, 40*time.Second), Options{Control: &spy{}}, themeFor(termenv.Ascii), 80, 24)
	typed(lab, "s", "down")
	golden(t, "menu", frameOf(lab))
}

// TestWithoutColour: NO_COLOR leaves no escape sequence in any frame, and what colour would tell apart, letters do.
func TestWithoutColour(t *testing.T) {
	m := sized(stillAt(t, 75*time.Second), Options{}, themeFor(termenv.Ascii), 160, 50)
	for m.page = range m.pages {
		frame := frameOf(m)
		if strings.Contains(frame, "\x1b") {
			t.Errorf("%s has escape sequences", m.pages[m.page].title())
		}
		if m.page == 0 && !strings.Contains(frame, "a userspace") {
			t.Errorf("the legend does not say which letter is whose:\n%s", frame)
		}
	}
	coloured := sized(stillAt(t, 75*time.Second), Options{}, themeFor(termenv.ANSI), 160, 50)
	if !strings.Contains(frameOf(coloured), "\x1b[") {
		t.Error("no colour where there is")
	}
}
