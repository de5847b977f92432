package report

import (
	"maps"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"proxylab/bench/events"
	"proxylab/bench/stats"
)

// load gathers the ticks of one load. Its sums are kept so that it makes no difference how the time was cut into
// ticks.
type load struct {
	result                        Load // what its start says; the figures are filled in by measured
	ticks                         int
	seconds                       float64
	requests, errors, late, bytes int64
	errorsByKind, endpoints       map[string]int64
	sources                       map[string]int64
	latency, connect              sum
	openMax, openLast             int
	unreadable                    error // of a histogram
}

func newLoad() *load {
	return &load{errorsByKind: map[string]int64{}, endpoints: map[string]int64{}, sources: map[string]int64{}}
}

func (l *load) start(e *events.LoadStarted) {
	l.result.Kind, l.result.Target, l.result.From = e.Kind, e.Target, e.From
	l.result.Connections, l.result.Intended, l.result.Count = e.Connections, e.RatePerSec, e.Count
}

func (l *load) tick(e *events.LoadTick) {
	l.ticks++
	l.seconds += e.Seconds
	l.requests += e.Requests
	l.errors += e.Errors
	l.late += e.Late
	l.bytes += e.Bytes
	for kind, n := range e.ErrorsByKind {
		l.errorsByKind[kind] += n
	}
	for pod, n := range e.Endpoints {
		l.endpoints[pod] += n
	}
	for source, n := range e.Sources {
		l.sources[source] += n
	}
	l.merge(&l.latency, e.Latency)
	l.merge(&l.connect, e.Connect)
	l.openMax, l.openLast = max(l.openMax, e.Open), e.Open
}

func (l *load) merge(s *sum, e *events.Histogram) {
	if e == nil {
		return
	}
	if err := s.add(e); err != nil && l.unreadable == nil {
		l.unreadable = err
	}
}

// sum adds up the histograms of a load. It is sparse, since there are many: of each load, proxier and repetition. What it
// takes to add one grows with the sum, therefore some are put together first.
type sum struct {
	all, latest *hdrhistogram.PackedHistogram // nil: nothing recorded
	n           int                           // histograms in latest
}

const addedAtOnce = 32

func (s *sum) add(e *events.Histogram) error {
	if s.all == nil {
		s.all, s.latest = events.NewPacked(), events.NewPacked()
	}
	if s.n++; s.n == addedAtOnce {
		s.settle()
	}
	return e.MergeInto(s.latest)
}

func (s *sum) settle() {
	_ = s.all.Merge(s.latest) // of the same range: there is nothing that it could not hold
	s.latest.Reset()
	s.n = 0
}

// latency is nil where nothing was recorded.
func (s *sum) latency() *Latency {
	if s.all == nil {
		return nil
	}
	s.settle()
	v, ok := stats.OfHistogram(s.all)
	if !ok {
		return nil
	}
	return &Latency{P50: v.P50, P90: v.P90, P99: v.P99, P999: v.P999, Max: v.Max, Mean: v.Mean, Samples: v.Count}
}

// measured is a copy with the figures that there are.
func (l *load) measured() *Load {
	r := l.result
	if l.ticks == 0 {
		return &r
	}
	r.Seconds = l.seconds
	r.Requests, r.Errors = number(l.requests), number(l.errors)
	r.ErrorsByKind, r.Endpoints, r.Sources = copied(l.errorsByKind), copied(l.endpoints), copied(l.sources)
	if r.Intended > 0 || l.late > 0 {
		r.Late = number(l.late)
	}
	if l.seconds > 0 {
		if r.Kind != "stream" && r.Kind != "hold" {
			rate := float64(l.requests) / l.seconds
			r.Rate = &rate
		}
		if l.bytes > 0 || r.Kind == "stream" {
			throughput := float64(l.bytes) / l.seconds
			r.ThroughputBps = &throughput
		}
	}
	r.Latency, r.Connect = l.latency.latency(), l.connect.latency()
	if r.Kind == "hold" || l.openMax > 0 {
		r.OpenMax, r.OpenLast = number(l.openMax), number(l.openLast)
	}
	return &r
}

func number[N int | int64 | float64](n N) *N { return &n }

func copied(m map[string]int64) map[string]int64 {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
