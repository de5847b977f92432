// Package timeline turns the log of a run into what charts need: how each load fared over time, and every sync and
// every change that was followed. Like bench/report it is a pure function of the log.
//
// All times are seconds since the first step of the scenario began, so that proxiers that were played one after the
// other lie on top of each other. Repetitions of one proxier are put together.
package timeline

import (
	"iter"
	"slices"

	"proxylab/bench/events"
)

// Timeline is one group per proxier, in the order in which they were played.
type Timeline struct {
	Groups []*Group
	Steps  []Step // of the scenario, with when they began and ended: the median over all that were played
}

// Group is what was measured of one proxier, over all its repetitions.
type Group struct {
	Proxier     string
	Backend     string // rule back end, where there is a choice
	Seconds     float64
	Loads       []*Load // by name, without those that go straight to a pod
	Syncs       []Sync  // of the proxier itself, without those of another that took over in a live swap
	Programming []Programming
	Published   []Published
}

// Name is how people call it: "iptables (legacy)".
func (g *Group) Name() string {
	if g.Backend == "" {
		return g.Proxier
	}
	return g.Proxier + " (" + g.Backend + ")"
}

// Step is one step of the scenario.
type Step struct {
	Index    int // from 0
	Kind     string
	Text     string
	At       float64
	Ended    bool // in any subject
	End      float64
	Failed   bool
	begins   []float64
	finishes []float64
}

// Load is one load over time, in pieces of equal length.
type Load struct {
	Name, Kind string
	Width      float64 // seconds of a piece
	Points     []Point // in order; pieces in which nothing was measured are missing
}

// Point is one piece of a load's time.
type Point struct {
	At               float64 // the middle of the piece
	Seconds          float64 // measured in it, over all repetitions
	Requests, Errors int64
	Bytes            int64
	Open             float64  // connections open at the end of a tick, on average
	P50, P99         *float64 // seconds; nil: nothing succeeded
}

// Sync is one pass of the proxier.
type Sync struct {
	At, Seconds float64
	CPUSeconds  *float64
	Full        bool
	Failed      bool
}

// Programming is one change that was followed to the data path.
type Programming struct {
	At, Seconds float64
	Change      string // "added", "removed"
	Unobserved  bool   // Seconds is the time limit
}

// Published is one Service that was waited for at its VIP.
type Published struct {
	At, Seconds float64
	Unobserved  bool // Seconds is the time limit
}

// Fold is the timeline of a log's events.
func Fold(log iter.Seq[events.Event]) *Timeline {
	f := NewFolder()
	for e := range log {
		f.Add(e)
	}
	return f.Timeline()
}

// Load is the load of that name, nil if there is none.
func (g *Group) Load(name string) *Load {
	i := slices.IndexFunc(g.Loads, func(l *Load) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return g.Loads[i]
}
