package chart

import (
	"fmt"
	"math"
	"slices"

	"proxylab/bench/units"

	"gonum.org/v1/plot"
)

// Unit is what the values of a chart are a number of.
type Unit int

// The units that charts know.
const (
	Count     Unit = iota
	Seconds        // durations
	PerSecond      // events
	Flow           // bytes per second
	Share          // of 1
	Bytes
)

// Format is a value for people.
func (u Unit) Format(v float64) string {
	switch u {
	case Seconds:
		return units.Seconds(v)
	case PerSecond:
		return units.Rate(v)
	case Flow:
		return units.Throughput(v)
	case Bytes:
		return units.Bytes(v)
	case Share:
		return units.Share(v)
	}
	return units.Number(v)
}

type axis struct {
	min, max float64
	ticks    ticks
}

// least is the smallest value that an axis is made for, and the share of the largest below which a logarithmic axis does not
// go: no figure of a log is smaller.
const least = 1e-9

// linearAxis is from 0 to a round number above high.
func linearAxis(low, high float64, u Unit) axis {
	if high < least {
		high = 1
	}
	step := roundStep(high / 4)
	if u == Count {
		step = max(step, 1)
	}
	a := axis{min: min(low, 0), max: math.Ceil(high/step-1e-9) * step}
	for i := 0; float64(i)*step <= a.max*1.0001; i++ {
		v := float64(i) * step
		a.ticks = append(a.ticks, plot.Tick{Value: v, Label: u.Format(v)})
	}
	return a
}

// roundStep is 1, 2 or 5 times a power of ten, not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v*0.9999 {
			return f * power
		}
	}
	return 10 * power
}

// logAxis is from below low to above high; within two decades the ticks are 1, 2, 5, beyond that the decades.
func logAxis(low, high float64, u Unit) axis {
	high = max(high, least)
	a := axis{min: max(low, high*least) * 0.9, max: high * 1.1}
	if a.max/a.min < 8 { // some room, so that noise does not look like a landslide
		middle := math.Sqrt(a.min * a.max)
		a.min, a.max = middle/math.Sqrt(8), middle*math.Sqrt(8)
	}
	factors := []float64{1, 2, 5}
	if a.max/a.min > 150 {
		factors = []float64{1}
	}
	for e := math.Floor(math.Log10(a.min)); e <= math.Ceil(math.Log10(a.max)); e++ {
		for _, f := range factors {
			if v := f * math.Pow(10, e); v >= a.min && v <= a.max {
				a.ticks = append(a.ticks, plot.Tick{Value: v, Label: u.Format(v)})
			}
		}
	}
	return a
}

// timeSteps are distances between ticks of a time axis, in seconds.
var timeSteps = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400}

func timeTicks(end float64, narrow bool) ticks {
	most := 8.0
	if narrow {
		most = 5
	}
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if end/s <= most {
			step = s
			break
		}
	}
	var t ticks
	for v := 0.0; v <= end && len(t) < 64; v += step {
		t = append(t, plot.Tick{Value: v, Label: clock(v, step)})
	}
	return t
}

// clock is a time on the axis: "20s", "3:30", "1:20h".
func clock(v, step float64) string {
	switch {
	case v < 120 && step < 60:
		return fmt.Sprintf("%.0fs", v)
	case step >= 3600 || v >= 3600:
		return fmt.Sprintf("%d:%02dh", int(v)/3600, int(v)/60%60)
	}
	return fmt.Sprintf("%d:%02d", int(v)/60, int(v)%60)
}

func sorted(list []float64) []float64 {
	slices.Sort(list)
	return list
}
