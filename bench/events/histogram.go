package events

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of every histogram in a log, in microseconds, and its precision. It is one and the same everywhere, so
// that any two can be merged.
const (
	histogramMin    = 1
	histogramMax    = 60_000_000
	histogramDigits = 3
)

// NewHistogram returns an empty histogram of microseconds, from 1 µs to 60 s with three significant digits.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(histogramMin, histogramMax, histogramDigits)
}

// Record adds one duration to a histogram made by NewHistogram. What lies outside its range counts as the nearest
// value inside it, so that nothing that happened goes missing from a total.
func Record(h *hdrhistogram.Histogram, d time.Duration) {
	us := min(max(d.Microseconds(), histogramMin), histogramMax)
	// In range, so it cannot fail.
	_ = h.RecordValue(us)
}

// Encode returns a histogram as a log holds it. Nothing recorded is nothing measured: that gives nil.
func Encode(h *hdrhistogram.Histogram) *Histogram {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil { // it writes to memory alone, in a version it knows
		return nil
	}
	return &Histogram{HDR: string(b)}
}

// Decode returns what Encode was given; of nil, an empty histogram. It accepts histograms of other tools as long as
// their values fit the range of NewHistogram, and fails on what is not a histogram.
func Decode(e *Histogram) (*hdrhistogram.Histogram, error) {
	h := NewHistogram()
	if e == nil {
		return h, nil
	}
	from, err := hdrhistogram.Decode([]byte(e.HDR))
	if err != nil {
		return nil, fmt.Errorf("decode histogram %.40q: %w", e.HDR, err)
	}
	if dropped := h.Merge(from); dropped > 0 {
		return nil, fmt.Errorf("decode histogram %.40q: %d values lie outside 1 µs to 60 s", e.HDR, dropped)
	}
	return h, nil
}
