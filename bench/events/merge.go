package events

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// MergeInto adds a histogram of a log to one made by NewHistogram; nil adds nothing. It does not lay out the added
// one densely, as Decode does, which is what makes reading hours of ticks quick. After an error dst may hold a part.
func (e *Histogram) MergeInto(dst *hdrhistogram.Histogram) error {
	if e == nil {
		return nil
	}
	from, err := hdrhistogram.DecodePacked([]byte(e.HDR))
	if err != nil {
		return fmt.Errorf("decode histogram %.40q: %w", e.HDR, err)
	}
	if dropped := from.MergeInto(dst); dropped > 0 {
		return fmt.Errorf("decode histogram %.40q: %d values lie outside 1 µs to 60 s", e.HDR, dropped)
	}
	return nil
}
