package tui

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/exp/teatest"
	"github.com/muesli/termenv"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"proxylab/bench/events"
)

// same compares with a frame in testdata; go test -update writes it anew.
func same(t *testing.T, name, got string) {
	t.Helper()
	assert.Check(t, golden.String(got+"\n", name+".frame.txt"))
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

// TestEveryTab runs the whole program, presses the key of each tab, in the middle of the second subject of a real run, at the
// sizes of a small and of a large terminal, and looks at what it shows.
func TestEveryTab(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {160, 50}} {
		source := stillAt(t, 75*time.Second)
		source.state.Add(rulesOf(source.state.Began.Add(42 * time.Second)))
		m := &watched{newModel(source, Options{Stay: true}, themeFor(termenv.Ascii))}
		program := teatest.NewTestModel(t, m, teatest.WithInitialTermSize(size[0], size[1]))
		for i, p := range m.pages {
			program.Type(fmt.Sprint(i + 1))
			frame := m.settled(program)
			fits(t, frame, size[0], size[1])
			same(t, fmt.Sprintf("%s.%dx%d", strings.ToLower(p.title()), size[0], size[1]), frame)
		}
		teatest.WaitFor(t, program.Output(), func(out []byte) bool { return bytes.Contains(out, []byte("proxylab")) },
			teatest.WithDuration(time.Minute)) // the terminal gets it, too
		program.Type("q")
		if last := program.FinalModel(t, teatest.WithFinalTimeout(time.Minute)).(*watched); !last.quit {
			t.Error("q does not leave")
		}
	}
}

// watched is a program that can be asked what it shows.
type watched struct{ *model }

// asked is a message that is answered with what is shown, once nothing is left to be worked out for it.
type asked chan string

func (w *watched) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	answer, ok := msg.(asked)
	if !ok {
		_, cmd := w.model.Update(msg)
		return w, cmd
	}
	for w.view.again {
		w.frame(time.Now())
	}
	answer <- w.View()
	return w, nil
}

func (w *watched) settled(program *teatest.TestModel) string {
	answer := make(asked, 1)
	program.Send(answer)
	return <-answer
}

func TestOtherStates(t *testing.T) {
	at := func(after time.Duration) *model {
		return sized(stillAt(t, after), Options{Stop: func() {}}, themeFor(termenv.Ascii), 80, 24)
	}
	for name, m := range map[string]*model{
		"begun": at(0), "coloured": sized(stillAt(t, 75*time.Second), Options{}, themeFor(termenv.ANSI), 80, 24),
		"done": at(time.Hour),
	} {
		same(t, name, frameOf(m))
	}
	m := at(40 * time.Second)
	typed(m, "?")
	same(t, "help", frameOf(m))
	typed(m, "x", "q")
	same(t, "asking", frameOf(m))
	lab := sized(stillAt(t, 40*time.Second), Options{Control: &spy{}}, themeFor(termenv.Ascii), 80, 24)
	typed(lab, "s", "down")
	same(t, "menu", frameOf(lab))
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
