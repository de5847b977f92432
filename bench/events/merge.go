package events

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// NewPacked is NewHistogram in a form that takes no more room than the distinct values in it.
func NewPacked() *hdrhistogram.PackedHistogram {
	return hdrhistogram.NewPacked(histogramMin, histogramMax, histogramDigits)
}

// MergeInto adds a histogram of a log to one made by NewPacked; nil adds nothing. Neither is laid out densely, as Decode does,
// which is what makes reading hours of ticks quick. After an error dst may hold a part.
func (e *Histogram) MergeInto(dst *hdrhistogram.PackedHistogram) error {
	from, err := e.Packed()
	if from == nil || err != nil {
		return err
	}
	if dropped := dst.Merge(from); dropped > 0 {
		return fmt.Errorf("decode histogram %.40q: %d values lie outside 1 µs to 60 s", e.HDR, dropped)
	}
	return nil
}

// Packed is a histogram of a log in its sparse form, for those that keep many; of nil, nil. It is not to be changed: several
// may read it.
func (e *Histogram) Packed() (*hdrhistogram.PackedHistogram, error) {
	if e == nil {
		return nil, nil
	}
	if h := e.packed.Load(); h != nil {
		return h, nil
	}
	h, err := unpack(e.HDR)
	if err == nil { // a live run has several readers: the sums, the charts, and what is written of it
		e.packed.Store(h)
	}
	return h, err
}
