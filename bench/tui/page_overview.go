package tui

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
)

// overview shows the steps, the charts of a load, and the proxier, side by side.
type overview struct{ w, h int }

func (p *overview) title() string    { return "Overview" }
func (p *overview) setSize(w, h int) { p.w, p.h = w, h }

func (p *overview) key(k keyMap, pressed tea.KeyMsg, v *view) bool {
	return chooseLoad(k, pressed, v)
}

// chooseLoad moves the choice of a load.
func chooseLoad(k keyMap, pressed tea.KeyMsg, v *view) bool {
	by := 0
	switch {
	case key.Matches(pressed, k.Up):
		by = -1
	case key.Matches(pressed, k.Down):
		by = 1
	}
	v.moveLoad += by
	return by != 0
}

func (p *overview) draw(a area, v *view) {
	sub := v.state.Current()
	left, right := 22, 25
	switch {
	case a.w >= 150:
		left, right = 36, 38
	case a.w >= 110:
		left, right = 28, 30
	case a.w < 70:
		left, right = 0, 0
	case a.w < 80:
		left = 0
	}
	if left > 0 {
		drawSteps(a.sub(1, 0, left-2, a.h), v, sub)
		a.sub(left-1, 0, 1, a.h).column(0)
	}
	if right > 0 {
		a.sub(a.w-right, 0, 1, a.h).column(0)
		drawProxier(a.sub(a.w-right+2, 0, right-3, a.h), v, sub)
	}
	middle := a.sub(left+1, 0, a.w-left-right-2, a.h)
	if sub == nil {
		middle.text(0, middle.h/2, faint, "No load has started yet.")
		return
	}
	list := v.loadsOf(sub, false)
	v.move(list)
	if len(list) == 0 {
		middle.text(0, middle.h/2, faint, noLoad(v))
		return
	}
	// As many loads as there is room for, from the chosen one on.
	shown := min(max(middle.h/18, 1), len(list))
	first := min(v.chosen(list), len(list)-shown)
	h := middle.h / shown
	for i := range shown {
		drawLoad(middle.sub(0, i*h, middle.w, h), v, list[first+i])
	}
}

func noLoad(v *view) string {
	if v.filter != "" {
		return "No load passes the filter."
	}
	return "No load has started yet."
}

// drawSteps lists the scenario's steps: done, running, to come.
func drawSteps(a area, v *view, sub *Subject) {
	a.text(0, 0, bold, "Steps")
	if v.state.Started == nil {
		return
	}
	texts := v.state.Started.Steps
	if sub != nil && len(texts) == 0 { // a lab that is up: what was done so far
		for i := range len(sub.Steps) {
			if step := sub.Steps[i]; step != nil {
				texts = append(texts, step.Text)
			}
		}
	}
	list := a.sub(0, 1, a.w, a.h-1)
	running := -1
	if sub != nil {
		running = sub.Running
	}
	// The running one stands in the middle, and has a line more for its bar.
	first := min(max(running-list.h/2, 0), max(len(texts)+1-list.h, 0))
	y := 0
	for i := first; i < len(texts) && y < list.h; i++ {
		y += drawStep(list.sub(0, y, list.w, list.h-y), v, sub, i, texts[i])
	}
	if hidden := len(texts) - first - list.h; y >= list.h && hidden > 0 && list.h > 0 {
		list.sub(0, list.h-1, list.w, 1).clear()
		list.text(2, list.h-1, faint, fmt.Sprintf("… %d more", hidden+1))
	}
}

// drawStep draws one and returns how many lines it took.
func drawStep(a area, v *view, sub *Subject, i int, text string) int {
	text = stepText(text, a.w-2)
	var step *Step
	if sub != nil {
		step = sub.Steps[i]
	}
	switch {
	case step == nil:
		a.text(0, 0, faint, "· "+text)
		return 1
	case step.Error != "":
		a.text(0, 0, bad, "✗ "+text)
		return 1
	case step.Done:
		a.text(0, 0, good, "✓")
		took := seconds(step.Seconds)
		if room := a.w - 2 - columns(text); step.Kind != "wait" && room > len(took) {
			a.right(a.w, 0, faint, took)
		}
		a.text(2, 0, plain, text)
		return 1
	case sub != nil && !sub.Ended.IsZero():
		a.text(0, 0, warn, "◼ "+text)
		return 1
	}
	a.text(0, 0, accent, "▶ "+text)
	passed := max(v.now.Sub(step.Began).Seconds(), 0)
	line := a.sub(2, 1, a.w-2, 1)
	took := fmt.Sprintf("%.0fs", passed)
	if expected := expectedSeconds(v.state, i, step); expected > 0 {
		took = fmt.Sprintf("%.0f/%.0fs", passed, expected)
		line.bar(0, 0, line.w-len(took)-1, passed/expected, accent)
	}
	line.right(line.w, 0, faint, took)
	return 2
}

// stepText is a step for where there are so many columns: what does not fit is said shorter.
func stepText(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	kind, _, _ := strings.Cut(text, " ")
	switch {
	case kind == "patch" && strings.Contains(text, `"sessionAffinity":"ClientIP"`):
		return "affinity ClientIP"
	case kind == "patch" && strings.Contains(text, `"sessionAffinity":"None"`):
		return "affinity None"
	case kind == "swap":
		text = strings.Replace(text, " (the first that does not run now)", "", 1)
		return strings.ReplaceAll(strings.Replace(text, "swap to ", "swap ", 1), "kube-proxy/", "kp/")
	case kind == "churn":
		return strings.Replace(text, " pods of", "", 1)
	}
	return text
}

// expectedSeconds is how long a step will take: as it says itself, or as it took under the subject before; 0: not known.
func expectedSeconds(s *State, i int, step *Step) float64 {
	for _, before := range s.Subjects[:max(len(s.Subjects)-1, 0)] {
		if b := before.Steps[i]; b != nil && b.Done && b.Kind == step.Kind {
			return b.Seconds
		}
	}
	words := strings.Fields(step.Text)
	if len(words) == 0 || (step.Kind != "wait" && step.Kind != "churn") {
		return 0
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(words[len(words)-1], "s"), 64)
	if err != nil {
		return 0
	}
	return v
}
