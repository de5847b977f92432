// Package stats condenses measurements: percentiles of one run's samples, and medians with their confidence over
// repetitions.
package stats

import (
	"math"
	"slices"
)

// Summary describes a set of samples, in the unit of the samples (seconds, if they came from a histogram of a log).
// A percentile is a sample that was seen: the smallest that at least that share of all samples does not exceed. Of
// few samples the high ones are therefore the maximum.
type Summary struct {
	Count                    int64
	Min, Max, Mean           float64
	P01, P50, P90, P99, P999 float64
}

// Histogram is what a summary needs of a histogram; those of hdrhistogram-go, dense and packed, have it.
type Histogram interface {
	TotalCount() int64
	Min() int64
	Max() int64
	Mean() float64
	ValueAtPercentilesSlice(percentiles []float64) []int64 // in ascending order
}

// OfHistogram describes a histogram of microseconds, as a log holds it, in seconds. The percentiles are exact to three
// digits. It is false when the histogram is empty.
func OfHistogram(h Histogram) (Summary, bool) {
	if h.TotalCount() == 0 {
		return Summary{}, false
	}
	// The library rounds the rank; asking for the share of a whole rank keeps to the definition above.
	n := h.TotalCount()
	at := make([]float64, len(quantiles))
	for i, q := range quantiles {
		at[i] = 100 * float64(rank(q, n)) / float64(n)
	}
	v := h.ValueAtPercentilesSlice(at)
	return Summary{
		Count: n,
		Min:   seconds(h.Min()), Max: seconds(h.Max()), Mean: h.Mean() / 1e6,
		P01: seconds(v[0]), P50: seconds(v[1]), P90: seconds(v[2]), P99: seconds(v[3]), P999: seconds(v[4]),
	}, true
}

var quantiles = [...]float64{0.01, 0.5, 0.9, 0.99, 0.999}

func seconds(us int64) float64 { return float64(us) / 1e6 }

// OfSamples describes samples one by one. It is false when there are none.
func OfSamples(samples []float64) (Summary, bool) {
	if len(samples) == 0 {
		return Summary{}, false
	}
	sorted := slices.Clone(samples)
	slices.Sort(sorted)
	var sum float64
	for _, v := range sorted {
		sum += v
	}
	var v [len(quantiles)]float64
	for i, q := range quantiles {
		v[i] = sorted[rank(q, int64(len(sorted)))-1]
	}
	return Summary{
		Count: int64(len(sorted)),
		Min:   sorted[0], Max: sorted[len(sorted)-1], Mean: sum / float64(len(sorted)),
		P01: v[0], P50: v[1], P90: v[2], P99: v[3], P999: v[4],
	}, true
}

// rank is the place, from 1, of a quantile among n sorted samples. The small allowance keeps 0.9 x 10 from being
// 9.000000000000002.
func rank(q float64, n int64) int64 {
	return min(max(int64(math.Ceil(q*float64(n)-1e-9)), 1), n)
}
