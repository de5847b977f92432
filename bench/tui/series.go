package tui

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"proxylab/bench/events"
)

// maxBuckets bounds a series: when a run goes on beyond it, two buckets become one.
const maxBuckets = 600

// bucket is what a load did in a stretch of time.
type bucket struct {
	seconds                 float64
	requests, errors, bytes int64
	open, ticks             int // connections open at the last tick of it
	latency                 *hdrhistogram.PackedHistogram
	todo                    []*events.Histogram // not yet in latency: it takes time to read them, and few are ever looked at
	p50, p99                float64             // of latency, in seconds, if known
	known                   bool
}

func (b *bucket) merge(o *bucket) {
	b.seconds += o.seconds
	b.requests += o.requests
	b.errors += o.errors
	b.bytes += o.bytes
	b.ticks += o.ticks
	if o.ticks > 0 {
		b.open = o.open
	}
	b.todo = append(b.todo, o.todo...)
	b.known = false
	if b.latency == nil {
		b.latency = o.latency
	} else if o.latency != nil {
		b.latency.Merge(o.latency)
	}
}

// quantiles are the p50 and p99 of the latencies, in seconds. ok is false where there are none.
func (b *bucket) quantiles() (p50, p99 float64, ok bool) {
	if b.known && len(b.todo) == 0 { // every frame asks
		return b.p50, b.p99, true
	}
	for _, h := range b.todo {
		if b.latency == nil {
			b.latency = hdrhistogram.NewPacked(1, 60_000_000, 2) // as precise as a chart can be drawn
		}
		if from, err := h.Packed(); err == nil {
			b.latency.Merge(from)
		} // the summary says which could not be read
	}
	b.todo = nil
	if b.latency == nil || b.latency.TotalCount() == 0 {
		return 0, 0, false
	}
	b.p50, b.p99, b.known = float64(b.latency.ValueAtPercentile(50))/1e6, float64(b.latency.ValueAtPercentile(99))/1e6, true
	return b.p50, b.p99, true
}

// series is buckets of equal width from a moment on.
type series struct {
	width   float64 // of a bucket, in seconds
	buckets []bucket
}

func newSeries() *series { return &series{width: 1} }

// at is the bucket of a time, in seconds from the begin of the series.
func (s *series) at(t float64) *bucket {
	i := int(max(t, 0) / s.width)
	for i >= maxBuckets {
		s.halve()
		i = int(max(t, 0) / s.width)
	}
	for i >= len(s.buckets) {
		s.buckets = append(s.buckets, bucket{})
	}
	return &s.buckets[i]
}

func (s *series) halve() {
	for i := range s.buckets {
		if i%2 == 1 {
			s.buckets[i/2].merge(&s.buckets[i])
		} else if i > 0 {
			s.buckets[i/2] = s.buckets[i]
		}
	}
	clear(s.buckets[(len(s.buckets)+1)/2:])
	s.buckets = s.buckets[:(len(s.buckets)+1)/2]
	s.width *= 2
}

func (s *series) add(t float64, e *events.LoadTick) {
	b := s.at(t)
	b.seconds += e.Seconds
	b.requests += e.Requests
	b.errors += e.Errors
	b.bytes += e.Bytes
	b.open = e.Open
	b.ticks++
	if e.Latency != nil {
		b.todo = append(b.todo, e.Latency)
	}
}

// gauge is the mean of a figure over stretches of time.
type gauge struct {
	width float64
	sums  []float64
	n     []int
}

func newGauge() *gauge { return &gauge{width: 0.5} }

func (g *gauge) add(t, v float64) {
	i := int(max(t, 0) / g.width)
	for i >= maxBuckets {
		for j := range g.sums {
			if j%2 == 1 {
				g.sums[j/2] += g.sums[j]
				g.n[j/2] += g.n[j]
			} else if j > 0 {
				g.sums[j/2], g.n[j/2] = g.sums[j], g.n[j]
			}
		}
		half := (len(g.sums) + 1) / 2
		clear(g.sums[half:])
		clear(g.n[half:])
		g.sums, g.n, g.width = g.sums[:half], g.n[:half], g.width*2
		i = int(max(t, 0) / g.width)
	}
	for i >= len(g.sums) {
		g.sums, g.n = append(g.sums, 0), append(g.n, 0)
	}
	g.sums[i] += v
	g.n[i]++
}

// last are the means of the latest stretches that have one, at most n.
func (g *gauge) last(n int) []float64 {
	var values []float64
	for i := range g.sums {
		if g.n[i] > 0 {
			values = append(values, g.sums[i]/float64(g.n[i]))
		}
	}
	return values[max(len(values)-n, 0):]
}
