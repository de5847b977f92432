package report

import (
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"proxylab/bench/events"
)

// Fold is the result of a log's events.
func Fold(log iter.Seq[events.Event]) *Result {
	f := NewFolder()
	for e := range log {
		f.Add(e)
	}
	return f.Result()
}

// ReadFile is the result of a recorded run; path is its directory or its log. With an error about a corrupt line
// comes the result of what was read before it.
func ReadFile(path string) (*Result, error) {
	file, err := events.Locate(path)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}
	defer in.Close()
	result, err := Read(in)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return result, err
}

// Read is the result of a log. With an error comes the result of what was read before it.
func Read(log io.Reader) (*Result, error) {
	f := NewFolder()
	for e, err := range events.ReadAhead(log) {
		if err != nil {
			return f.Result(), err
		}
		f.Add(e)
	}
	return f.Result(), nil
}

// Folder makes a result out of events as they come. It is not safe for concurrent use.
type Folder struct {
	started  *events.RunStarted
	ended    *events.RunEnded
	begin    time.Time
	end      time.Time
	last     time.Time
	subjects []*subject
	latest   *subject // the one that the last event belonged to: there may be hundreds
	notes    notes
	unknown  int // events of a newer version
	orphans  int // measurements without a subject
}

// NewFolder returns one that has seen nothing.
func NewFolder() *Folder { return &Folder{} }

// Add takes the next event of the log.
func (f *Folder) Add(e events.Event) {
	if e.Time.After(f.last) {
		f.last = e.Time
	}
	switch {
	case e.RunStarted != nil:
		f.started, f.begin = e.RunStarted, e.Time
	case e.RunEnded != nil:
		f.ended, f.end = e.RunEnded, e.Time
	case e.Note != nil:
		f.notes.add(e.Subject, e.Note.Text)
	case e.Kind() == "":
		f.unknown++
	case e.Subject == nil:
		f.orphans++
	default:
		f.latest = f.subject(*e.Subject, e.SubjectStarted != nil)
		f.latest.add(e)
	}
}

// subject finds or makes what e belongs to. The rule back end is part of a subject's identity, but may become known
// only when the proxier has started: events without one belong to the latest subject of that name, and a subject
// without one takes the first that is named.
func (f *Folder) subject(id events.Subject, starts bool) *subject {
	if id.Repetition == 0 {
		id.Repetition = 1
	}
	if f.latest != nil && f.latest.id == id {
		return f.latest
	}
	var open *subject // would do
	for _, s := range f.subjects {
		if s.id == id {
			return s
		}
		if s.id.Proxier == id.Proxier && s.id.Repetition == id.Repetition && (id.Backend == "" || s.id.Backend == "") {
			open = s
		}
	}
	if open != nil && !starts {
		if id.Backend != "" {
			open.id.Backend = id.Backend
		}
		return open
	}
	s := newSubject(id)
	f.subjects = append(f.subjects, s)
	return s
}

// Result is the result of the events so far.
func (f *Folder) Result() *Result {
	r := &Result{Run: f.run(), Subjects: []*Subject{}, Expectations: []Verdict{}, Notes: []string{}}
	for _, s := range f.subjects {
		r.Subjects = append(r.Subjects, s.result())
	}
	if f.started != nil {
		r.Expectations = evaluateTexts(r, f.started.Expect)
	}
	r.Notes = append(r.Notes, f.allNotes(r)...)
	return r
}

func (f *Folder) run() Run {
	run := Run{Outcome: CutOff, Proxiers: []string{}}
	if s := f.started; s != nil {
		run.ID, run.Scenario, run.Lab, run.Kernel, run.CPUs = s.ID, s.Scenario, s.Lab, s.Kernel, s.CPUs
		run.Version, run.Repeat, run.Environment = s.Version, s.Repeat, s.Environment
		run.Proxiers = append(run.Proxiers, s.Proxiers...)
		run.Started = moment(f.begin)
	}
	if f.ended != nil {
		run.Outcome, run.Error, run.Ended = f.ended.Outcome, f.ended.Error, moment(f.end)
	}
	return run
}

// moment is nil for a time that was not set.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
