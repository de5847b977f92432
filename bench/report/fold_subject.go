package report

import (
	"maps"
	"slices"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/stats"
)

// subject gathers what is measured of one proxier in one repetition.
type subject struct {
	id             events.Subject
	started, ended time.Time
	err            string
	steps          []Step
	loads          map[string]*load
	syncs          syncs
	usage          usage
	softirq        *float64
	programming    programming
	swaps          []Swap
	lbaas          lbaas
	guests         []string // other proxiers that ran for a while, after a swap
}

func newSubject(id events.Subject) *subject {
	return &subject{id: id, loads: map[string]*load{}}
}

// own: what a proxier costs that took over for a while in a live swap is not this subject's.
func (s *subject) own(proxier string) bool {
	if proxier == "" || proxier == s.id.Proxier {
		return true
	}
	if !slices.Contains(s.guests, proxier) {
		s.guests = append(s.guests, proxier)
	}
	return false
}

func (s *subject) add(e events.Event) {
	switch {
	case e.SubjectStarted != nil:
		s.started = e.Time
	case e.SubjectEnded != nil:
		s.ended, s.err = e.Time, e.SubjectEnded.Error
	case e.StepStarted != nil:
		s.steps = append(s.steps, Step{Index: e.StepStarted.Index, Kind: e.StepStarted.Kind, Text: e.StepStarted.Text})
	case e.StepEnded != nil:
		s.endStep(e.StepEnded)
	case e.LoadStarted != nil:
		s.load(e.LoadStarted.Name).start(e.LoadStarted)
	case e.LoadTick != nil:
		s.load(e.LoadTick.Name).tick(e.LoadTick)
	case e.LoadEnded != nil:
		if e.LoadEnded.Error != "" {
			s.load(e.LoadEnded.Name).result.Error = e.LoadEnded.Error
		}
	case e.Sync != nil && s.own(e.Sync.Proxier):
		s.syncs.add(e.Sync)
	case e.Usage != nil && s.own(e.Usage.Proxier):
		s.usage.add(e.Usage)
	case e.Softirq != nil:
		v := e.Softirq.Seconds
		s.softirq = &v
	case e.Programming != nil:
		s.programming.add(e.Programming)
	case e.Swap != nil:
		s.swaps = append(s.swaps, swapOf(e.Swap))
	default:
		s.lbaas.add(e)
	}
}

func swapOf(e *events.Swap) Swap {
	return Swap{
		From: e.From, To: e.To, Node: e.Node, Seconds: e.Seconds,
		ConnectionsOpen: e.ConnectionsOpen, ConnectionsBroken: e.ConnectionsBroken, BrokenByKind: e.BrokenByKind,
		RequestsFailed: e.RequestsFailed, FailedByKind: e.FailedByKind, Leftovers: e.Leftovers,
	}
}

// endStep completes the step that was started last under that index.
func (s *subject) endStep(e *events.StepEnded) {
	for i := len(s.steps) - 1; i >= 0; i-- {
		if s.steps[i].Index == e.Index {
			seconds := e.Seconds
			s.steps[i].Seconds, s.steps[i].Error = &seconds, e.Error
			return
		}
	}
}

func (s *subject) load(name string) *load {
	l := s.loads[name]
	if l == nil {
		l = newLoad()
		s.loads[name] = l
	}
	return l
}

// result is a copy that later events do not change.
func (s *subject) result() *Subject {
	r := &Subject{
		Proxier: s.id.Proxier, Backend: s.id.Backend, Repetition: s.id.Repetition,
		Started: moment(s.started), Ended: moment(s.ended), Error: s.err,
		Steps: slices.Clone(s.steps),
		Loads: map[string]*Load{},
		Sync:  s.syncs.result(), ProgrammingSeconds: s.programming.result(),
		Swap: slices.Clone(s.swaps), ProxierUsage: s.usage.result(),
		SoftirqSeconds: s.softirq, LBaaS: s.lbaas.result(),
	}
	for name, l := range s.loads {
		r.Loads[name] = l.measured()
	}
	return r
}

// syncs gathers the passes of all nodes.
type syncs struct {
	sum     Sync
	seconds []float64
	cpu     float64
	withCPU int
	objects map[string]map[string]int // node -> kind -> number, after its latest pass
}

func (s *syncs) add(e *events.Sync) {
	s.sum.Count++
	if e.Full {
		s.sum.Full++
	} else {
		s.sum.Partial++
	}
	if e.Error != "" {
		s.sum.Failures++
	} else {
		s.seconds = append(s.seconds, e.Seconds)
	}
	if e.CPUSeconds != nil {
		s.cpu += *e.CPUSeconds
		s.withCPU++
	}
	if e.Objects != nil {
		if s.objects == nil {
			s.objects = map[string]map[string]int{}
		}
		s.objects[e.Node] = e.Objects
	}
}

func (s *syncs) result() *Sync {
	if s.sum.Count == 0 {
		return nil
	}
	r := s.sum
	if d, ok := stats.OfSamples(s.seconds); ok {
		r.Seconds = &SyncSeconds{P50: d.P50, P99: d.P99, Max: d.Max}
	}
	if s.withCPU > 0 {
		total, each := s.cpu, s.cpu/float64(s.withCPU)
		r.CPUSeconds, r.CPUSecondsPerSync = &total, &each
	}
	for _, objects := range s.objects {
		if r.Objects == nil {
			r.Objects = map[string]int{}
		}
		for kind, n := range objects {
			r.Objects[kind] = max(r.Objects[kind], n)
		}
	}
	return &r
}

// usage gathers the cost of all processes of the proxier. Swaps end and start them, and each counts its processor time
// from its own start, so the last figure of each is summed up.
type usage struct {
	past   float64 // of processes whose number was used again
	cpu    map[process]float64
	maxRSS int64
}

type process struct {
	node, proxier string
	pid           int
}

func (u *usage) add(e *events.Usage) {
	if u.cpu == nil {
		u.cpu = map[process]float64{}
	}
	p := process{e.Node, e.Proxier, e.PID}
	if before := u.cpu[p]; e.CPUSeconds < before {
		u.past += before
	}
	u.cpu[p] = e.CPUSeconds
	u.maxRSS = max(u.maxRSS, e.MaxRSSBytes, e.RSSBytes)
}

func (u *usage) result() *Usage {
	if u.cpu == nil {
		return nil
	}
	r := &Usage{CPUSeconds: u.past, MaxRSSBytes: u.maxRSS}
	for _, cpu := range slices.Sorted(maps.Values(u.cpu)) { // sorted, so that the sum is the same each time
		r.CPUSeconds += cpu
	}
	return r
}

// programming gathers samples of programming latency.
type programming struct {
	all, added, removed []float64
	unobserved          int
	resolution          float64
}

func (p *programming) add(e *events.Programming) {
	p.all = append(p.all, e.Seconds)
	switch e.Change {
	case "added":
		p.added = append(p.added, e.Seconds)
	case "removed":
		p.removed = append(p.removed, e.Seconds)
	}
	if e.Error != "" {
		p.unobserved++
	}
	p.resolution = max(p.resolution, e.ResolutionSeconds)
}

func (p *programming) result() *Programming {
	all := distribution(p.all)
	if all == nil {
		return nil
	}
	return &Programming{
		ProgrammingSamples: *all,
		Unobserved:         p.unobserved, ResolutionSeconds: p.resolution,
		Added: distribution(p.added), Removed: distribution(p.removed),
	}
}

func distribution(samples []float64) *ProgrammingSamples {
	d, ok := stats.OfSamples(samples)
	if !ok {
		return nil
	}
	return &ProgrammingSamples{Samples: int(d.Count), P50: d.P50, P99: d.P99, Max: d.Max}
}
