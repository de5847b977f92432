package tui

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"proxylab/bench/events"
)

// Limits of what is kept one by one of a subject's load balancers: a run of hours has many.
const (
	maxPublished = 1000
	maxFailovers = 200
	maxFaults    = 200
)

// Balancers are what is known of a subject's load balancers.
type Balancers struct {
	Roots     []*Balanced // load balancers, in the order in which they came
	Calls     map[string]*Calls
	Published []Published // the latest
	Failovers []Failover
	Faults    []Fault

	byID map[string]*Balanced
	told bool // of anything
}

// Balanced is something that the LBaaS keeps: a load balancer with its listeners and pools, a pool with its members.
type Balanced struct {
	Kind, Name, Address     string
	Provisioning, Operating string // Octavia's words; empty: not told yet
	Under                   []*Balanced

	id   string
	over *Balanced
}

// Calls are those of one operation of the API.
type Calls struct {
	Count, Failed int // failed: answered 400 or above, or not at all
	seconds       *hdrhistogram.PackedHistogram
}

// Published is a Service that became of use, or did not in time.
type Published struct {
	At time.Time
	*events.LBPublished
}

// Failover is a VIP that moved.
type Failover struct {
	At time.Time
	*events.LBFailover
}

// Fault is what a fault did.
type Fault struct {
	At time.Time
	*events.LBFault
}

// add takes an event; those that are about other things are ignored.
func (b *Balancers) add(e events.Event) {
	switch {
	case e.LBState != nil:
		b.state(e.LBState)
	case e.LBCall != nil:
		b.call(e.LBCall)
	case e.LBPublished != nil:
		b.Published = latest(append(b.Published, Published{e.Time, e.LBPublished}), maxPublished)
	case e.LBFailover != nil:
		b.Failovers = latest(append(b.Failovers, Failover{e.Time, e.LBFailover}), maxFailovers)
	case e.LBFault != nil:
		b.Faults = latest(append(b.Faults, Fault{e.Time, e.LBFault}), maxFaults)
	default:
		return
	}
	b.told = true
}

// latest keeps the end of a list, and of a long one no more than the half that is newer.
func latest[T any](list []T, most int) []T {
	if len(list) <= most {
		return list
	}
	return slices.Clone(list[len(list)-most/2:])
}

func (b *Balancers) call(c *events.LBCall) {
	if b.Calls == nil {
		b.Calls = map[string]*Calls{}
	}
	of := b.Calls[c.Operation]
	if of == nil {
		of = &Calls{seconds: hdrhistogram.NewPacked(1, 60_000_000, 2)}
		b.Calls[c.Operation] = of
	}
	of.Count++
	if c.Code == 0 || c.Code >= 400 {
		of.Failed++
	}
	_ = of.seconds.RecordValue(min(max(int64(c.Seconds*1e6), 1), 60_000_000)) // in range, so it cannot fail
}

// quantile of the answers' time, in seconds.
func (c *Calls) quantile(percent float64) float64 {
	return float64(c.seconds.ValueAtPercentile(percent)) / 1e6
}

// operations are the names of those that were called, the most frequent first.
func (b *Balancers) operations() []string {
	return slices.SortedFunc(maps.Keys(b.Calls), func(x, y string) int {
		if by := b.Calls[y].Count - b.Calls[x].Count; by != 0 {
			return by
		}
		return strings.Compare(x, y)
	})
}

const gone = "DELETED"

// state takes a change of status. What something belongs to may be told of after it.
func (b *Balancers) state(s *events.LBState) {
	if s.To == gone {
		b.remove(s.ID)
		return
	}
	o := b.at(s.ID)
	o.Kind = s.Kind
	if s.Name != "" {
		o.Name = s.Name
	}
	if s.Address != "" {
		o.Address = s.Address
	}
	if s.Status == "operating" {
		o.Operating = s.To
	} else {
		o.Provisioning = s.To
	}
	if over := s.Pool; over != "" && over != s.ID {
		b.place(o, b.at(over))
	} else if over = s.Balancer; over != "" && over != s.ID {
		b.place(o, b.at(over))
	}
}

// at is what has an ID; it is made, as a root, where it was not told of yet.
func (b *Balancers) at(id string) *Balanced {
	if o := b.byID[id]; o != nil {
		return o
	}
	if b.byID == nil {
		b.byID = map[string]*Balanced{}
	}
	o := &Balanced{id: id}
	b.byID[id] = o
	b.Roots = append(b.Roots, o)
	return o
}

// place puts something below what it belongs to, behind what is of its kind there: listeners, pools, members, and the rest.
func (b *Balancers) place(o, over *Balanced) {
	if o.over == over {
		return
	}
	for up := over; up != nil; up = up.over {
		if up == o { // a log that says so is wrong: it would hang
			return
		}
	}
	b.unlink(o)
	o.over = over
	i := len(over.Under)
	for i > 0 && rankOf(over.Under[i-1]) > rankOf(o) {
		i--
	}
	over.Under = slices.Insert(over.Under, i, o)
}

func rankOf(o *Balanced) int {
	if i := slices.Index([]string{"listener", "pool", "member"}, o.Kind); i >= 0 {
		return i
	}
	return 3
}

func (b *Balancers) unlink(o *Balanced) {
	is := func(x *Balanced) bool { return x == o }
	if o.over != nil {
		o.over.Under = slices.DeleteFunc(o.over.Under, is)
	} else {
		b.Roots = slices.DeleteFunc(b.Roots, is)
	}
	o.over = nil
}

// remove takes something away, with all below it.
func (b *Balancers) remove(id string) {
	o := b.byID[id]
	if o == nil {
		return
	}
	b.unlink(o)
	b.forget(o)
}

func (b *Balancers) forget(o *Balanced) {
	delete(b.byID, o.id)
	for _, below := range o.Under {
		b.forget(below)
	}
}

// tally adds the operating states of the members below to states.
func (o *Balanced) tally(states map[string]int) {
	for _, below := range o.Under {
		if below.Kind == "member" {
			states[below.Operating]++
		}
		below.tally(states)
	}
}
