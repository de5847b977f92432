package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/report"
	"proxylab/bench/units"
)

// maxLog is how many lines of the log are kept.
const maxLog = 500

// State is what is known of a run after some of its events.
type State struct {
	Started  *events.RunStarted
	Began    time.Time // of the run
	Now      time.Time // of the latest event
	Ended    *events.RunEnded
	Subjects []*Subject
	Log      []LogLine // the latest
	Rules    []RulesSeen

	version int              // changes with every event
	unread  [][]events.Event // not yet in the summary
	waiting int              // how many those are
	folder  *report.Folder   // of the summary
	result  *report.Result   // of folder; nil: to be made again
}

// LogLine is something worth saying, once.
type LogLine struct {
	At   time.Time
	Text string
	Bad  bool
}

// RulesSeen are the rules of a Service at a moment.
type RulesSeen struct {
	At      time.Time
	Subject string
	*events.Rules
}

// NewState is that of a run that has not begun.
func NewState() *State { return &State{folder: report.NewFolder()} }

// Current is the subject that is played, or was played last; nil before the first.
func (s *State) Current() *Subject {
	if len(s.Subjects) == 0 {
		return nil
	}
	return s.Subjects[len(s.Subjects)-1]
}

// Add takes the next events, and keeps the list itself until the summary has read it: it is not to be changed any more.
func (s *State) Add(list ...events.Event) {
	s.version += len(list)
	s.unread, s.waiting, s.result = append(s.unread, list), s.waiting+len(list), nil
	for _, e := range list {
		s.add(e)
	}
}

func (s *State) add(e events.Event) {
	if e.Time.After(s.Now) {
		s.Now = e.Time
	}
	switch {
	case e.RunStarted != nil:
		s.Started, s.Began = e.RunStarted, e.Time
	case e.RunEnded != nil:
		s.Ended = e.RunEnded
		s.say(e.Time, e.RunEnded.Error != "", "%s", strings.TrimSuffix("run "+e.RunEnded.Outcome+": "+oneLine(e.RunEnded.Error), ": "))
	case e.Note != nil:
		s.say(e.Time, false, "%snote: %s", who(e.Subject), oneLine(e.Note.Text))
	case e.Subject != nil:
		sub := s.subject(*e.Subject, e)
		s.tell(sub, e)
		sub.add(e)
		if e.Rules != nil {
			s.Rules = append(s.Rules, RulesSeen{e.Time, sub.Name(), e.Rules})
		}
	}
}

// Say adds a line that no event is about.
func (s *State) Say(line LogLine) {
	s.version++
	s.Log = append(s.Log, line)
	if len(s.Log) > maxLog {
		s.Log = slices.Clone(s.Log[len(s.Log)-maxLog/2:])
	}
}

func (s *State) say(at time.Time, isBad bool, format string, args ...any) {
	s.Say(LogLine{at, fmt.Sprintf(format, args...), isBad})
}

// subject finds what an event belongs to. Its rule back end may become known only when the proxier has started.
func (s *State) subject(id events.Subject, e events.Event) *Subject {
	id.Repetition = max(id.Repetition, 1)
	if e.SubjectStarted == nil {
		for _, sub := range slices.Backward(s.Subjects) {
			if sub.ID.Proxier == id.Proxier && sub.ID.Repetition == id.Repetition {
				if sub.ID.Backend == "" {
					sub.ID.Backend = id.Backend
				}
				return sub
			}
		}
	}
	sub := newSubject(id, len(s.Subjects), e.Time)
	if s.Started != nil {
		sub.plan = s.Started.Steps
	}
	s.Subjects = append(s.Subjects, sub)
	return sub
}

// tell says in the log what of a subject is worth a line.
func (s *State) tell(sub *Subject, e events.Event) {
	name := sub.Name()
	switch {
	case e.SubjectStarted != nil:
		s.say(e.Time, false, "%s: started (%d of %d)", name, len(s.Subjects), s.planned())
	case e.SubjectEnded != nil && e.SubjectEnded.Error != "":
		s.say(e.Time, true, "%s: %s", name, oneLine(e.SubjectEnded.Error))
	case e.SubjectEnded != nil:
		s.say(e.Time, false, "%s: done", name)
	case e.StepStarted != nil && e.StepStarted.Kind != "wait" && e.StepStarted.Kind != "load":
		s.say(e.Time, false, "%s: %s", name, oneLine(e.StepStarted.Text))
	case e.StepEnded != nil && e.StepEnded.Error != "":
		s.say(e.Time, true, "%s: step %d failed: %s", name, e.StepEnded.Index+1, oneLine(e.StepEnded.Error))
	case e.LoadEnded != nil && e.LoadEnded.Error != "":
		s.say(e.Time, true, "%s: load %s: %s", name, e.LoadEnded.Name, oneLine(e.LoadEnded.Error))
	case e.Sync != nil && e.Sync.Error != "":
		s.say(e.Time, true, "%s: sync on %s failed: %s", name, e.Sync.Node, oneLine(e.Sync.Error))
	case e.Swap != nil:
		w := e.Swap
		s.say(e.Time, w.ConnectionsBroken > 0 || w.RequestsFailed > 0, "swapped %s to %s in %s: %d of %d connections broken, %d requests failed",
			w.From, w.To, units.Seconds(w.Seconds), w.ConnectionsBroken, w.ConnectionsOpen, w.RequestsFailed)
	default:
		if line := report.LBaaSLine(e); line != "" {
			s.say(e.Time, troublesome(e), "%s", line)
		}
	}
}

// troublesome is an event about load balancers or nodes that somebody should look at.
func troublesome(e events.Event) bool {
	return e.LBPublished != nil && e.LBPublished.Error != "" || e.LBFailover != nil && e.LBFailover.To == ""
}

// planned is how many subjects will be played.
func (s *State) planned() int {
	if s.Started == nil {
		return len(s.Subjects)
	}
	return max(len(s.Started.Proxiers)*max(s.Started.Repeat, 1), len(s.Subjects))
}

// digest reads events for the summary for as long as until says, and returns whether all are read.
func (s *State) digest(until func() bool) bool {
	since := 0
	for i, list := range s.unread {
		if since >= 32 {
			if since = 0; until() {
				s.unread = s.unread[i:]
				return false
			}
		}
		for _, e := range list {
			s.folder.Add(e)
		}
		since, s.waiting = since+len(list), s.waiting-len(list)
	}
	clear(s.unread)
	s.unread = s.unread[:0]
	return true
}

// Result is the summary of the events so far; nil where until did not leave the time to read them all.
func (s *State) Result(until func() bool) *report.Result {
	if !s.digest(until) {
		return nil
	}
	if s.result == nil {
		s.result = s.folder.Result()
	}
	return s.result
}

func who(id *events.Subject) string {
	if id == nil {
		return ""
	}
	return report.SubjectName(*id) + ": "
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
