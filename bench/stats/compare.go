package stats

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// confidence of intervals, and the p-value below which a difference counts as one.
const (
	confidence = 0.95
	alpha      = 0.05
)

// Center is the middle of a figure over repetitions.
type Center struct {
	N        int
	Median   float64
	Min, Max float64
	// Lo and Hi bound the median with 95 % confidence, without assuming a distribution. With fewer than six
	// repetitions there is no such interval: Bounded is false and they are the infinities.
	Lo, Hi  float64
	Bounded bool
}

// Median is the middle of one figure measured in several repetitions. It is false when there are none.
func Median(values []float64) (Center, bool) {
	if len(values) == 0 {
		return Center{}, false
	}
	s := benchmath.AssumeNothing.Summary(sample(values), confidence)
	return Center{
		N: len(values), Median: s.Center, Min: slices.Min(values), Max: slices.Max(values),
		Lo: s.Lo, Hi: s.Hi, Bounded: !math.IsInf(s.Lo, 0) && !math.IsInf(s.Hi, 0),
	}, true
}

// Difference is how one figure differs between two sets of repetitions.
type Difference struct {
	Base, New Center
	// Change is the change of the median, as a share of the base (0.1 is 10 % more); NaN where the base is 0.
	Change float64
	// P is the p-value of a Mann-Whitney test: how likely so large a difference would be if there were none.
	P float64
	// Significant is P < 0.05. With fewer than four repetitions on each side it cannot be reached.
	Significant bool
	// Warnings say, for instance, that there are too few repetitions.
	Warnings []string
}

// Compare tests whether a figure differs between two sets of repetitions. It is false when either is empty.
func Compare(base, new []float64) (Difference, bool) {
	b, ok := Median(base)
	n, alsoOK := Median(new)
	if !ok || !alsoOK {
		return Difference{}, false
	}
	c := benchmath.AssumeNothing.Compare(sample(base), sample(new))
	d := Difference{Base: b, New: n, Change: math.NaN(), P: c.P, Significant: c.P < alpha}
	if b.Median != 0 {
		d.Change = (n.Median - b.Median) / math.Abs(b.Median)
	}
	for _, w := range c.Warnings {
		d.Warnings = append(d.Warnings, w.Error())
	}
	return d, true
}

// sample copies, because benchmath sorts what it is given.
func sample(values []float64) *benchmath.Sample {
	t := benchmath.DefaultThresholds
	t.CompareAlpha = alpha
	return benchmath.NewSample(slices.Clone(values), &t)
}
