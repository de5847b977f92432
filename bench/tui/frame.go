package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"proxylab/bench/units"
)

// Heights of what frames a page: two lines and the tabs above it, and the log and the keys below.
const headHeight = 3

// footHeight is the log's with the line above it, and the keys'.
func footHeight(h int) int {
	switch {
	case h >= 40:
		return 8
	case h >= 20:
		return 4
	case h >= 8:
		return 1
	}
	return 0
}

func chrome(h int) int { return headHeight + footHeight(h) }

// draw makes the frame.
func (m *model) draw(s *State, now time.Time) {
	v := &m.view
	v.state, v.now, v.again = s, now, false
	v.live = s.Ended == nil && !m.ended
	limit := time.Now().Add(frameBudget)
	v.until = func() bool { return time.Now().After(limit) }
	if s.waiting > 2000 { // so that the summary does not have to read all at once
		s.digest(v.until)
	}
	if m.canvas == nil || m.canvas.w != m.w || m.canvas.h != m.h {
		m.canvas = newCanvas(m.w, m.h)
	}
	m.canvas.clear()
	a := m.canvas.all()
	m.drawHead(a.sub(0, 0, a.w, headHeight), s)
	foot := footHeight(a.h)
	body := a.sub(0, headHeight, a.w, a.h-headHeight-foot)
	m.pages[m.page].draw(body, v)
	m.drawFoot(a.sub(0, a.h-foot, a.w, foot), s)
	switch {
	case m.helping:
		m.drawHelp(a.sub(0, headHeight, a.w, a.h-headHeight-1))
	case m.menu != nil:
		m.menu.draw(body)
	}
	m.drawn = m.canvas.render(m.theme)
	v.state = nil // it is the source's
}

func (m *model) drawHead(a area, s *State) {
	status, st := m.status(s)
	if _, replay := m.source.(*Player); (!replay || m.ended) && !s.Began.IsZero() {
		status += "  " + clockText(m.view.now.Sub(s.Began).Seconds())
	}
	room := a.w - columns(status) - 2
	a.right(a.w-1, 0, st, status)
	first := a.sub(0, 0, room, 1)
	x := first.text(1, 0, accent, "proxylab") + 3
	if s.Started == nil {
		first.text(x, 0, plain, "waiting for the run to begin")
	} else {
		r := s.Started
		x += first.text(x, 0, bold, r.Scenario)
		first.text(x, 0, faint, fmt.Sprintf("  %s lab, kernel %s (%s), %d CPUs", r.Lab, r.Kernel.Release, r.Kernel.Kind, r.CPUs))
	}
	m.drawProgress(a.sub(1, 1, a.w-2, 1), s)
	x = 1
	for i, p := range m.pages {
		text := fmt.Sprintf(" %d %s ", i+1, p.title())
		st := plain
		if i == m.page {
			st = inverse
			if !m.theme.colours() {
				text = fmt.Sprintf("[%d %s]", i+1, p.title())
			}
		}
		x += a.text(x, 2, st, text)
	}
}

// status is what the view does, in a word or two.
func (m *model) status(s *State) (string, style) {
	p, replay := m.source.(*Player)
	switch {
	case m.stopping && s.Ended == nil:
		return "◼ stopping", warn
	case replay:
		return replayStatus(p, s)
	case m.frozen:
		return "❚❚ frozen", warn
	case s.Ended != nil:
		return "◼ " + s.Ended.Outcome, plain
	}
	return "● live", good
}

func replayStatus(p *Player, s *State) (string, style) {
	at, of := p.progress()
	where := fmt.Sprintf("%s of %s", clockText(at), clockText(of))
	switch {
	case p.Ended() && s.Ended == nil:
		return "◼ cut off", bad
	case p.Ended():
		return "◼ " + s.Ended.Outcome, plain
	case p.paused:
		return "❚❚ paused at " + where, warn
	case p.tail && time.Since(p.end) > growing:
		return "● waiting, last event " + clockText(time.Since(p.end).Seconds()) + " ago", warn
	case p.tail:
		return "● growing", good
	}
	return fmt.Sprintf("▶ ×%g  %s", p.speed, where), good
}

// drawProgress is the second line: what is played now, and how much of the run is behind.
func (m *model) drawProgress(a area, s *State) {
	sub := s.Current()
	if sub == nil {
		text := "the lab is brought up"
		if s.Ended != nil {
			text = "nothing was played"
		} else if s.Started == nil {
			text = ""
		}
		a.text(0, 0, faint, text)
		return
	}
	planned := !m.view.control && s.Started != nil && len(s.Started.Steps) > 0
	if planned {
		done, all := progressOf(s)
		width := min(a.w/5, 30)
		percent := fmt.Sprintf(" %3.0f%%", 100*done/max(all, 1))
		room := a.w - width - len(percent)
		a.bar(room, 0, width, done/max(all, 1), good)
		a.right(a.w, 0, plain, percent)
		a = a.sub(0, 0, room-2, 1)
	}
	x := a.text(0, 0, subjectStyle(sub.Number), "■ "+sub.Name()) + 1
	if now := sub.Proxier(); now != sub.ID.Proxier && s.Ended == nil && a.w >= 100 {
		x += a.text(x, 0, warn, "now "+now) + 1
	}
	if !planned {
		return
	}
	text := fmt.Sprintf("%d of %d", sub.Number+1, s.planned())
	if step := sub.Steps[sub.Running]; step != nil && s.Ended == nil {
		text += fmt.Sprintf(", step %d/%d: %s", sub.Running+1, max(len(s.Started.Steps), sub.Running+1), step.Text)
	}
	a.text(x, 0, faint, text)
}

// progressOf counts steps.
func progressOf(s *State) (done, all float64) {
	if s.Started == nil {
		return 0, 1
	}
	steps := max(len(s.Started.Steps), 1)
	all = float64(steps * s.planned())
	for _, sub := range s.Subjects {
		if !sub.Ended.IsZero() {
			done += float64(steps)
			continue
		}
		for _, step := range sub.Steps {
			if step.Done {
				done++
			}
		}
	}
	return min(done, all), all
}

// drawFoot is the log and the keys.
func (m *model) drawFoot(a area, s *State) {
	if a.h == 0 {
		return
	}
	m.drawKeys(a.sub(1, a.h-1, a.w-2, 1))
	if a.h < 3 {
		return
	}
	a.line(0, '─', frame)
	if m.view.filter != "" {
		a.text(2, 0, warn, " filter: "+m.view.filter+" ")
	}
	lines := a.sub(1, 1, a.w-2, a.h-2)
	var shown []LogLine
	for _, l := range slices.Backward(s.Log) {
		if matches(m.view.filter, l.Text) && len(shown) < lines.h {
			shown = append(shown, l)
		}
	}
	for i, l := range shown {
		y := len(shown) - 1 - i
		st := plain
		if l.Bad {
			st = bad
		}
		lines.text(0, y, faint, clockText(l.At.Sub(s.Began).Seconds()))
		lines.text(7, y, st, l.Text)
	}
}

func (m *model) drawKeys(a area) {
	switch {
	case m.typing:
		a.text(0, 0, accent, "filter: "+m.filter.Value()+"▏  enter keeps it, esc removes it")
	case m.asking:
		question := "End the run now? q or y: yes, what was measured is kept · any other key: no"
		if m.view.control {
			question = "Leave the lab? q or y: yes, it stays up · any other key: no"
		}
		a.text(0, 0, bad, question)
	default:
		if width := max(a.w, 1); m.help.Width != width || m.shortHelp == nil {
			m.help.Width = width
			m.shortHelp = strings.Split(m.help.ShortHelpView(m.keys.ShortHelp()), m.help.ShortSeparator)
		}
		x := 0
		for i, part := range m.shortHelp {
			if i > 0 {
				x += a.text(x, 0, frame, m.help.ShortSeparator)
			}
			name, says, _ := strings.Cut(part, " ")
			x += a.text(x, 0, accent, name)
			x += a.text(x, 0, faint, " "+says)
		}
	}
}

func (m *model) drawHelp(a area) {
	a.clear()
	a.text(2, 1, bold, "Keys")
	m.help.Width = 0
	x, y, high := 2, 3, 0
	for _, group := range m.keys.FullHelp() {
		text := m.help.FullHelpView([][]keyBinding{group})
		lines := strings.Split(text, "\n")
		if text == "" {
			continue
		}
		wide := 0
		for _, l := range lines {
			wide = max(wide, columns(l))
		}
		if x > 2 && x+wide > a.w {
			x, y, high = 2, y+high+1, 0
		}
		for i, l := range lines {
			a.text(x, y+i, plain, l)
		}
		x, high = x+wide+4, max(high, len(lines))
	}
	a.text(2, min(y+high+1, a.h-1), faint, "Any key closes this.")
}

// matches says whether a text passes a filter.
func matches(filter, text string) bool {
	return filter == "" || strings.Contains(strings.ToLower(text), strings.ToLower(filter))
}

// clockText is seconds as "03:21" or "1:02:03".
func clockText(seconds float64) string {
	n := int(max(seconds, 0))
	if n >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
	}
	return fmt.Sprintf("%02d:%02d", n/60, n%60)
}

// clock is a moment of the run, from its begin.
func (v *view) clock(at time.Time) string { return clockText(at.Sub(v.state.Began).Seconds()) }

func seconds(v float64) string { return units.Seconds(v) }
