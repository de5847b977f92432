package html

import (
	"time"

	"proxylab/bench/report"
)

// StepView is a step of the scenario as it went.
type StepView struct {
	Number int
	Text   string
	State  string // "to come", "running", "done", "failed"
	At     string // when it began, seconds after the first; empty: it has not begun
}

// stepViews are the scenario's steps. While a run goes on, they are those of the proxier that is being played.
func stepViews(announced []string, v *View) []StepView {
	out := make([]StepView, len(announced))
	for i, text := range announced {
		out[i] = StepView{Number: i + 1, Text: text, State: "to come"}
	}
	for _, s := range v.Timeline.Steps {
		for len(out) <= s.Index { // a log without its beginning
			out = append(out, StepView{Number: len(out) + 1, State: "to come"})
		}
		o := &out[s.Index]
		o.Text, o.At = s.Text, offset(s.At)
		switch {
		case s.Failed:
			o.State = "failed"
		case s.Ended:
			o.State = "done"
		}
	}
	if now := v.Playing(); now != nil {
		for i := range out {
			out[i].State = "to come"
		}
		for _, s := range now.Steps {
			if s.Index >= len(out) {
				continue
			}
			switch {
			case s.Error != "":
				out[s.Index].State = "failed"
			case s.Seconds != nil:
				out[s.Index].State = "done"
			default:
				out[s.Index].State = "running"
			}
		}
	}
	return out
}

func offset(seconds float64) string {
	return "+" + (time.Duration(seconds*10) * time.Second / 10).String()
}

// Playing is the subject that is being played, nil if none is.
func (v *View) Playing() *report.Subject {
	if v.Result.Run.Outcome != report.CutOff || len(v.Result.Subjects) == 0 {
		return nil
	}
	last := v.Result.Subjects[len(v.Result.Subjects)-1]
	if last.Ended != nil {
		return nil
	}
	return last
}

// Length is how long the run took, in seconds; 0: it is not known.
func (v *View) Length() float64 {
	r := v.Result.Run
	if r.Started == nil || r.Ended == nil {
		return 0
	}
	return r.Ended.Sub(*r.Started).Seconds()
}

// Name is how a subject is called, for templates.
func (v *View) Name(s *report.Subject) string { return report.Name(s) }
