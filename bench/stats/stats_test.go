package stats

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxylab/bench/events"
)

func TestOfSamples(t *testing.T) {
	tenth := []float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	for name, c := range map[string]struct {
		in   []float64
		want Summary
	}{
		"one": {[]float64{7}, Summary{1, 7, 7, 7, 7, 7, 7, 7, 7}},
		"two": {[]float64{2, 1}, Summary{2, 1, 2, 1.5, 1, 1, 2, 2, 2}},
		"ten": {tenth, Summary{10, 1, 10, 5.5, 1, 5, 9, 10, 10}},
	} {
		got, ok := OfSamples(c.in)
		if !ok || got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if tenth[0] != 10 {
		t.Error("the samples were sorted in place")
	}
	if _, ok := OfSamples(nil); ok {
		t.Error("a summary of nothing")
	}
	if _, ok := OfHistogram(events.NewHistogram()); ok {
		t.Error("a summary of an empty histogram")
	}
}

func TestHistogramAndSamplesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := rapid.SliceOfN(rapid.Int64Range(1, 60_000_000), 1, 300).Draw(t, "µs")
		h := events.NewHistogram()
		var samples []float64
		for _, v := range us {
			events.Record(h, time.Duration(v)*time.Microsecond)
			samples = append(samples, float64(v)/1e6)
		}
		a, _ := OfHistogram(h)
		b, _ := OfSamples(samples)
		same := func(what string, x, y float64) {
			if math.Abs(x-y) > 0.0015*y {
				t.Fatalf("%s: %v of the histogram, %v of the samples", what, x, y)
			}
		}
		if a.Count != b.Count {
			t.Fatalf("count %d and %d", a.Count, b.Count)
		}
		same("min", a.Min, b.Min)
		same("max", a.Max, b.Max)
		same("mean", a.Mean, b.Mean)
		same("p01", a.P01, b.P01)
		same("p50", a.P50, b.P50)
		same("p90", a.P90, b.P90)
		same("p99", a.P99, b.P99)
		same("p999", a.P999, b.P999)
	})
}

func TestMedian(t *testing.T) {
	c, ok := Median([]float64{3, 1, 2})
	if !ok || c.Median != 2 || c.Min != 1 || c.Max != 3 || c.N != 3 || c.Bounded {
		t.Errorf("three: %+v", c)
	}
	c, _ = Median([]float64{1, 2, 3, 4, 5, 6})
	if c.Median != 3.5 || !c.Bounded || c.Lo != 1 || c.Hi != 6 {
		t.Errorf("six: %+v", c)
	}
	if _, ok := Median(nil); ok {
		t.Error("a median of nothing")
	}
}

func TestMedianLiesWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 40).Draw(t, "values")
		before := slices.Clone(v)
		c, _ := Median(v)
		if !slices.Equal(v, before) {
			t.Fatal("the values were changed")
		}
		if c.Median < c.Min || c.Median > c.Max || c.Lo > c.Median || c.Hi < c.Median {
			t.Fatalf("%+v", c)
		}
	})
}

func TestCompare(t *testing.T) {
	low, high := []float64{1, 2, 3, 4, 5, 6}, []float64{11, 12, 13, 14, 15, 16}
	d, ok := Compare(low, high)
	if !ok || !d.Significant || d.P > 0.003 || math.Abs(d.Change-10/3.5) > 1e-9 {
		t.Errorf("apart: %+v", d)
	}
	if d, _ := Compare(low, low); d.Significant || d.Change != 0 {
		t.Errorf("the same: %+v", d)
	}
	if d, _ := Compare(low[:2], high[:2]); d.Significant || len(d.Warnings) == 0 {
		t.Errorf("too few: %+v", d)
	}
	if d, _ := Compare([]float64{0, 0}, high); !math.IsNaN(d.Change) {
		t.Errorf("from nothing: %+v", d)
	}
	if d, _ := Compare([]float64{5, 5, 5, 5}, []float64{5, 5, 5, 5}); d.Significant || d.Change != 0 {
		t.Errorf("all equal: %+v", d)
	}
	if _, ok := Compare(nil, high); ok {
		t.Error("compared with nothing")
	}
}
