package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/units"
)

// progressEvery is the time of the run between two lines about its loads.
const progressEvery = 2 * time.Second

// Progress returns a function that writes a run to w as it happens, a line for each event that a person waits for,
// and a line about all loads every two seconds. It is for logs and terminals that show nothing but lines. It is to be
// called from one goroutine; errors of w are ignored.
func Progress(w io.Writer) func(events.Event) {
	p := &progress{out: w, zone: time.Local}
	return p.show
}

type progress struct {
	out     io.Writer
	zone    *time.Location
	at      time.Time // of the event at hand
	steps   int
	players int // subjects that will be played
	played  int
	since   time.Time // of the figures below
	running []string  // loads, as they started
	loads   map[string]*load
	folder  *Folder // of this subject
}

func (p *progress) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	fmt.Fprintf(p.out, "%s %s%s\n", p.at.In(p.zone).Format("15:04:05"), indent, flat(text))
}

func (p *progress) show(e events.Event) {
	p.at = e.Time
	switch {
	case e.RunStarted != nil:
		p.runStarted(e.RunStarted)
	case e.RunEnded != nil:
		if e.RunEnded.Error != "" {
			p.line("run %s: %s", e.RunEnded.Outcome, oneLine(e.RunEnded.Error))
		} else {
			p.line("run %s", e.RunEnded.Outcome)
		}
	case e.Note != nil:
		p.line("%snote: %s", p.prefix(e.Subject), oneLine(e.Note.Text))
	case e.Subject == nil:
	default:
		p.ofSubject(e)
	}
}

func (p *progress) prefix(s *events.Subject) string {
	if s == nil {
		return ""
	}
	name := nameOf(s.Proxier, s.Backend)
	if s.Repetition > 1 {
		name += fmt.Sprintf(" #%d", s.Repetition)
	}
	return name + ": "
}

func (p *progress) runStarted(r *events.RunStarted) {
	p.steps, p.players = len(r.Steps), len(r.Proxiers)*max(r.Repeat, 1)
	times := ""
	if r.Repeat > 1 {
		times = fmt.Sprintf(", %d times each", r.Repeat)
	}
	p.line("run %s: %s in a %s lab, kernel %s (%s), %d CPUs", r.ID, r.Scenario, r.Lab, r.Kernel.Release, r.Kernel.Kind, r.CPUs)
	p.line("proxiers: %s%s", strings.Join(r.Proxiers, ", "), times)
	for i, s := range r.Steps {
		p.line("  step %d/%d: %s", i+1, len(r.Steps), s)
	}
}

func (p *progress) ofSubject(e events.Event) {
	who := p.prefix(e.Subject)
	if p.folder == nil || e.SubjectStarted != nil {
		p.folder, p.loads, p.running, p.since = NewFolder(), map[string]*load{}, nil, e.Time
	}
	p.folder.Add(e)
	switch {
	case e.SubjectStarted != nil:
		p.played++
		p.line("%sstarted (%d of %d)", who, p.played, max(p.players, p.played))
	case e.SubjectEnded != nil:
		p.subjectEnded(who, e.SubjectEnded)
	case e.StepStarted != nil:
		p.line("%sstep %d/%d: %s", who, e.StepStarted.Index+1, max(p.steps, e.StepStarted.Index+1), e.StepStarted.Text)
	case e.StepEnded != nil:
		p.stepEnded(who, e.StepEnded)
	case e.LoadStarted != nil:
		p.running = append(p.running, e.LoadStarted.Name)
		p.loadOf(e.LoadStarted.Name).start(e.LoadStarted)
	case e.LoadTick != nil:
		p.loadOf(e.LoadTick.Name).tick(e.LoadTick)
	case e.LoadEnded != nil:
		p.running = slices.DeleteFunc(p.running, func(n string) bool { return n == e.LoadEnded.Name })
		if e.LoadEnded.Error != "" {
			p.line("%sload %s: %s", who, e.LoadEnded.Name, oneLine(e.LoadEnded.Error))
		}
	case e.Sync != nil && e.Sync.Error != "":
		p.line("%ssync on %s failed: %s", who, e.Sync.Node, oneLine(e.Sync.Error))
	case e.Swap != nil:
		p.swapped(who, e.Swap)
	default:
		if text := LBaaSLine(e); text != "" {
			p.line("%s%s", who, text)
		}
	}
	if e.Time.Sub(p.since) >= progressEvery {
		p.loadsLine(who)
	}
}

func (p *progress) loadOf(name string) *load {
	l := p.loads[name]
	if l == nil {
		l = newLoad()
		p.loads[name] = l
	}
	return l
}

func (p *progress) stepEnded(who string, e *events.StepEnded) {
	if e.Error != "" {
		p.line("%sstep %d failed after %s: %s", who, e.Index+1, units.Seconds(e.Seconds), oneLine(e.Error))
		return
	}
	p.line("%sstep %d ok, %s", who, e.Index+1, units.Seconds(e.Seconds))
}

func (p *progress) swapped(who string, s *events.Swap) {
	where := ""
	if s.Node != "" {
		where = " on " + s.Node
	}
	p.line("%sswapped %s to %s%s in %s: %d of %d connections broken%s, %d new requests failed%s", who, s.From, s.To, where,
		units.Seconds(s.Seconds), s.ConnectionsBroken, s.ConnectionsOpen, inParentheses(s.BrokenByKind),
		s.RequestsFailed, inParentheses(s.FailedByKind))
}

// inParentheses is " (3 reset, 1 timeout)", or nothing.
func inParentheses(kinds map[string]int64) string {
	var parts []string
	for _, kind := range sortedKeys(kinds) {
		parts = append(parts, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// loadsLine says what the loads met since the previous such line: "web 200/s p99 1.2ms 0 errors | held 50/50".
func (p *progress) loadsLine(who string) {
	var parts []string
	for _, name := range slices.Sorted(slices.Values(p.running)) { // which of them began to report first is chance
		if l := p.loads[name]; l != nil && l.ticks > 0 && !isDirect(name) {
			parts = append(parts, name+" "+loadNow(l.measured()))
		}
	}
	if len(parts) == 0 {
		return
	}
	p.line("%s%s", who, strings.Join(parts, " | "))
	p.since = p.at
	for name, l := range p.loads { // the next figures, of the same loads
		next := newLoad()
		next.result = l.result
		p.loads[name] = next
	}
}

func loadNow(l *Load) string {
	var parts []string
	if l.OpenLast != nil {
		parts = append(parts, fmt.Sprintf("%d/%d", *l.OpenLast, l.Count))
	}
	if l.Rate != nil {
		parts = append(parts, rate.format(*l.Rate))
	}
	if l.Kind == "stream" && l.ThroughputBps != nil {
		parts = append(parts, flow.format(*l.ThroughputBps))
	}
	if l.Latency != nil && l.Kind != "hold" {
		parts = append(parts, "p99 "+units.Seconds(l.Latency.P99))
	}
	if l.Kind != "hold" || *orZero(l.Errors) > 0 {
		parts = append(parts, fmt.Sprintf("%d errors%s", *orZero(l.Errors), inParentheses(l.ErrorsByKind)))
	}
	return strings.Join(parts, " ")
}

// subjectEnded sums a subject up.
func (p *progress) subjectEnded(who string, e *events.SubjectEnded) {
	if e.Error != "" {
		p.line("%sfailed: %s", who, oneLine(e.Error))
	} else {
		p.line("%sdone", who)
	}
	for _, s := range p.folder.Result().Subjects {
		for _, name := range sortedKeys(s.Loads) {
			if l := s.Loads[name]; l.Requests != nil && !isDirect(name) {
				p.line("  load %s: %s", name, loadTotal(l))
			}
		}
		if text := costTotal(s); text != "" {
			p.line("  %s", text)
		}
	}
	p.folder = nil
}

func loadTotal(l *Load) string {
	text := fmt.Sprintf("%d requests, %d errors%s", *l.Requests, *l.Errors, inParentheses(l.ErrorsByKind))
	if l.Latency != nil {
		text += fmt.Sprintf(", p50 %s, p99 %s", units.Seconds(l.Latency.P50), units.Seconds(l.Latency.P99))
	}
	return text
}

func costTotal(s *Subject) string {
	var parts []string
	if y := s.Sync; y != nil {
		parts = append(parts, fmt.Sprintf("syncs: %d full, %d partial, %d failed", y.Full, y.Partial, y.Failures))
		if y.CPUSecondsPerSync != nil {
			parts = append(parts, units.Seconds(*y.CPUSecondsPerSync)+" CPU each")
		}
	}
	if p := s.ProgrammingSeconds; p != nil {
		parts = append(parts, "programming p99 "+units.Seconds(p.P99))
	}
	if u := s.ProxierUsage; u != nil {
		parts = append(parts, "peak memory "+size.format(float64(u.MaxRSSBytes)))
	}
	return strings.Join(parts, ", ")
}
