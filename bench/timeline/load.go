package timeline

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"proxylab/bench/events"
)

// A load is kept in pieces of a second at first, which is two ticks. When there are more pieces than a chart has
// room for, each two become one, so that hours of a log take no more memory than minutes.
const (
	firstWidth = 1.0
	maxPieces  = 240
)

type load struct {
	kind   string
	width  float64
	pieces []piece
}

// piece is one stretch of time. Its histogram is sparse, since a tick has few distinct values.
type piece struct {
	seconds                 float64
	requests, errors, bytes int64
	open, ticks             int
	latency                 *hdrhistogram.PackedHistogram // nil: nothing recorded
}

func newLoad() *load { return &load{width: firstWidth} }

func (l *load) add(e *events.LoadTick, at float64) {
	i := int(max(at, 0) / l.width)
	for i >= maxPieces {
		l.coarsen()
		i = int(max(at, 0) / l.width)
	}
	for len(l.pieces) <= i {
		l.pieces = append(l.pieces, piece{})
	}
	one := piece{seconds: e.Seconds, requests: e.Requests, errors: e.Errors, bytes: e.Bytes, open: e.Open, ticks: 1}
	// What cannot be read is noted in the result; a chart goes on without it.
	if h, err := e.Latency.Packed(); err == nil && h != nil && h.TotalCount() > 0 {
		one.latency = h
	}
	l.pieces[i].merge(one)
}

func (p *piece) merge(o piece) {
	p.seconds += o.seconds
	p.requests += o.requests
	p.errors += o.errors
	p.bytes += o.bytes
	p.open += o.open
	p.ticks += o.ticks
	switch {
	case o.latency == nil:
	case p.latency == nil:
		p.latency = o.latency.Clone() // others read it too
	default:
		_ = p.latency.Merge(o.latency) // what lies outside the range of all histograms of a log is not in a log
	}
}

func (l *load) coarsen() {
	half := make([]piece, (len(l.pieces)+1)/2)
	for i, p := range l.pieces {
		half[i/2].merge(p)
	}
	l.width, l.pieces = 2*l.width, half
}

func (l *load) result(name string) *Load {
	out := &Load{Name: name, Kind: l.kind, Width: l.width}
	for i, p := range l.pieces {
		if p.ticks == 0 {
			continue
		}
		point := Point{
			At: (float64(i) + 0.5) * l.width, Seconds: p.seconds, Requests: p.requests, Errors: p.errors, Bytes: p.bytes,
			Open: float64(p.open) / float64(p.ticks),
		}
		if p.latency != nil {
			v := p.latency.ValueAtPercentilesSlice([]float64{50, 99})
			p50, p99 := float64(v[0])/1e6, float64(v[1])/1e6
			point.P50, point.P99 = &p50, &p99
		}
		out.Points = append(out.Points, point)
	}
	return out
}
