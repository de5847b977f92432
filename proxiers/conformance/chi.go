package conformance

import "math"

// Uneven is the probability that counts which are all expected to be equal are, by chance, at least as uneven as these:
// Pearson's chi-square test.
func Uneven(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	if len(counts) < 2 || total == 0 {
		return 1
	}
	expected, x := float64(total)/float64(len(counts)), 0.0
	for _, n := range counts {
		d := float64(n) - expected
		x += d * d / expected
	}
	return chiSquareTail(x, len(counts)-1)
}

// chiSquareTail is the probability that a chi-square variable exceeds x: the regularised upper gamma function of half the
// degrees of freedom and half of x, by its recurrence from one or two degrees of freedom.
func chiSquareTail(x float64, degrees int) float64 {
	half := x / 2
	a, q := 0.5, math.Erfc(math.Sqrt(half))
	if degrees%2 == 0 {
		a, q = 1, math.Exp(-half)
	}
	if half == 0 {
		return 1
	}
	for ; a < float64(degrees)/2; a++ {
		lg, _ := math.Lgamma(a + 1)
		q += math.Exp(a*math.Log(half) - half - lg)
	}
	return math.Min(q, 1)
}
