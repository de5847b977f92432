package timeline

import (
	"maps"
	"slices"
	"strings"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/stats"
)

// Folder makes a timeline out of events as they come. It is not safe for concurrent use.
type Folder struct {
	groups []*group
	steps  map[int]*Step
	last   int // index of the scenario's last step; -1: it is not known
}

// group gathers one proxier.
type group struct {
	out   Group
	loads map[string]*load
	zero  map[int]time.Time // repetition -> when its first step began
	over  map[int]bool      // repetition -> its last step has ended: loads only wait for answers that are due
}

// NewFolder returns one that has seen nothing.
func NewFolder() *Folder { return &Folder{steps: map[int]*Step{}, last: -1} }

// Add takes the next event of the log.
func (f *Folder) Add(e events.Event) {
	if e.RunStarted != nil {
		f.last = len(e.RunStarted.Steps) - 1
	}
	if e.Subject == nil {
		return
	}
	g := f.group(*e.Subject)
	if e.StepStarted != nil {
		if _, begun := g.zero[e.Subject.Repetition]; !begun {
			g.zero[e.Subject.Repetition] = e.Time
		}
	}
	zero, begun := g.zero[e.Subject.Repetition]
	at := e.Time.Sub(zero).Seconds()
	if !begun {
		at = 0 // the first sync comes before the first step
	}
	g.out.Seconds = max(g.out.Seconds, at)
	f.add(g, e, at)
}

func (f *Folder) add(g *group, e events.Event, at float64) {
	switch {
	case e.StepStarted != nil:
		s := f.step(e.StepStarted.Index)
		s.Kind, s.Text = e.StepStarted.Kind, e.StepStarted.Text
		s.begins = append(s.begins, at)
	case e.StepEnded != nil:
		s := f.step(e.StepEnded.Index)
		s.finishes = append(s.finishes, at)
		s.Failed = s.Failed || e.StepEnded.Error != ""
		g.over[e.Subject.Repetition] = e.StepEnded.Index == f.last
	case e.LoadStarted != nil && !straight(e.LoadStarted.Name):
		g.load(e.LoadStarted.Name).kind = e.LoadStarted.Kind
	case e.LoadTick != nil && (straight(e.LoadTick.Name) || g.over[e.Subject.Repetition]):
	case e.LoadTick != nil:
		g.load(e.LoadTick.Name).add(e.LoadTick, at-e.LoadTick.Seconds/2)
	case e.Sync != nil && (e.Sync.Proxier == "" || e.Sync.Proxier == g.out.Proxier):
		g.out.Syncs = append(g.out.Syncs, Sync{
			At: at, Seconds: e.Sync.Seconds, CPUSeconds: e.Sync.CPUSeconds, Full: e.Sync.Full, Failed: e.Sync.Error != "",
		})
	case e.Programming != nil:
		g.out.Programming = append(g.out.Programming, Programming{
			At: at, Seconds: e.Programming.Seconds, Change: e.Programming.Change, Unobserved: e.Programming.Error != "",
		})
	case e.LBPublished != nil:
		g.out.Published = append(g.out.Published, Published{At: at, Seconds: e.LBPublished.Seconds, Unobserved: e.LBPublished.Error != ""})
	}
}

// straight says whether a load goes to a pod without any Service in between.
func straight(load string) bool { return strings.HasSuffix(load, "/direct") }

func (f *Folder) step(index int) *Step {
	s := f.steps[index]
	if s == nil {
		s = &Step{Index: index}
		f.steps[index] = s
	}
	return s
}

// group finds or makes what e belongs to. The rule back end may become known after the first events.
func (f *Folder) group(id events.Subject) *group {
	for _, g := range slices.Backward(f.groups) {
		if g.out.Proxier != id.Proxier {
			continue
		}
		if g.out.Backend == id.Backend || id.Backend == "" {
			return g
		}
		if g.out.Backend == "" {
			g.out.Backend = id.Backend
			return g
		}
	}
	g := &group{loads: map[string]*load{}, zero: map[int]time.Time{}, over: map[int]bool{}}
	g.out.Proxier, g.out.Backend = id.Proxier, id.Backend
	f.groups = append(f.groups, g)
	return g
}

func (g *group) load(name string) *load {
	l := g.loads[name]
	if l == nil {
		l = newLoad()
		g.loads[name] = l
	}
	return l
}

// Timeline is the timeline of the events so far. Later events do not change it.
func (f *Folder) Timeline() *Timeline {
	t := &Timeline{}
	for _, index := range slices.Sorted(maps.Keys(f.steps)) {
		s := *f.steps[index]
		if m, ok := stats.Median(s.begins); ok {
			s.At = m.Median
		}
		if m, ok := stats.Median(s.finishes); ok {
			s.End, s.Ended = m.Median, true
		}
		s.begins, s.finishes = nil, nil
		t.Steps = append(t.Steps, s)
	}
	for _, g := range f.groups {
		out := g.out
		out.Syncs, out.Programming, out.Published = slices.Clone(g.out.Syncs), slices.Clone(g.out.Programming), slices.Clone(g.out.Published)
		for _, name := range slices.Sorted(maps.Keys(g.loads)) {
			out.Loads = append(out.Loads, g.loads[name].result(name))
		}
		t.Groups = append(t.Groups, &out)
	}
	return t
}
