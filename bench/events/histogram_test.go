package events

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHistogramRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := NewHistogram()
		merged := NewHistogram()
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			part := NewHistogram()
			for _, us := range rapid.SliceOf(rapid.Int64Range(-5, 100_000_000)).Draw(t, "microseconds") {
				Record(part, time.Duration(us)*time.Microsecond)
				Record(whole, time.Duration(us)*time.Microsecond)
			}
			back, err := Decode(Encode(part))
			if err != nil {
				t.Fatal(err)
			}
			if dropped := merged.Merge(back); dropped != 0 {
				t.Fatalf("dropped %d", dropped)
			}
		}
		if !merged.Equals(whole) {
			t.Fatal("parts that went through the log do not add up to the whole")
		}
	})
}

func TestHistogramNothingMeasured(t *testing.T) {
	if e := Encode(NewHistogram()); e != nil {
		t.Errorf("an empty histogram encodes as %v, want absent", e)
	}
	if e := Encode(nil); e != nil {
		t.Errorf("no histogram encodes as %v, want absent", e)
	}
	h, err := Decode(nil)
	if err != nil || h.TotalCount() != 0 {
		t.Errorf("absent decodes as %v, %v", h, err)
	}
}

func TestHistogramOutOfRange(t *testing.T) {
	h := NewHistogram()
	Record(h, -time.Second)
	Record(h, 0)
	Record(h, time.Hour)
	if h.TotalCount() != 3 {
		t.Errorf("%d values recorded, want 3", h.TotalCount())
	}
}

func TestDecodeGarbage(t *testing.T) {
	for _, s := range []string{"", "x", "not base64 !", strings.Repeat("A", 64), "HISTFAAAAAA="} {
		if _, err := Decode(&Histogram{HDR: s}); err == nil {
			t.Errorf("%q decodes", s)
		}
	}
}
