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
	latency, connect              *hdrhistogram.PackedHistogram // nil: nothing recorded
	openMax, openLast             int
	unreadable                    error // of a histogram
}

func newLoad() *load {
	return &load{errorsByKind: map[string]int64{}, endpoints: map[string]int64{}}
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
	l.merge(&l.latency, e.Latency)
	l.merge(&l.connect, e.Connect)
	l.openMax, l.openLast = max(l.openMax, e.Open), e.Open
}

// merge adds to a sum. Sums are sparse, since there are many: of each load, proxier and repetition.
func (l *load) merge(sum **hdrhistogram.PackedHistogram, e *events.Histogram) {
	if e == nil {
		return
	}
	if *sum == nil {
		*sum = events.NewPacked()
	}
	if err := e.MergeInto(*sum); err != nil && l.unreadable == nil {
		l.unreadable = err
	}
}

// measured is a copy with the figures that there are.
func (l *load) measured() *Load {
	r := l.result
	if l.ticks == 0 {
		return &r
	}
	r.Seconds = l.seconds
	r.Requests, r.Errors = number(l.requests), number(l.errors)
	r.ErrorsByKind, r.Endpoints = copied(l.errorsByKind), copied(l.endpoints)
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
	r.Latency, r.Connect = latency(l.latency), latency(l.connect)
	if r.Kind == "hold" || l.openMax > 0 {
		r.OpenMax, r.OpenLast = number(l.openMax), number(l.openLast)
	}
	return &r
}

func latency(h *hdrhistogram.PackedHistogram) *Latency {
	if h == nil {
		return nil
	}
	s, ok := stats.OfHistogram(h)
	if !ok {
		return nil
	}
	return &Latency{P50: s.P50, P90: s.P90, P99: s.P99, P999: s.P999, Max: s.Max, Mean: s.Mean, Samples: s.Count}
}

func number[N int | int64 | float64](n N) *N { return &n }

func copied(m map[string]int64) map[string]int64 {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
