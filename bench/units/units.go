// Package units writes figures for people: to three digits, in the unit that leaves a number which can be read.
package units

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration: "0s", "12µs", "1.23ms", "45.6s", "2m3s".
func Seconds(s float64) string {
	if s < 0 {
		return "-" + Seconds(-s)
	}
	switch {
	case s == 0:
		return "0s"
	case s < 0.9995e-3:
		return Number(s*1e6) + "µs"
	case s < 0.9995:
		return Number(s*1e3) + "ms"
	case s < 99.95:
		return Number(s) + "s"
	case s > float64(math.MaxInt64)/1e9:
		return Number(s) + "s"
	}
	return time.Duration(math.Round(s) * 1e9).String()
}

// Bytes is a size, in decimal multiples: "104MB".
func Bytes(v float64) string { return scaled(v) + "B" }

// Throughput is bytes per second: "1.2GB/s".
func Throughput(v float64) string { return scaled(v) + "B/s" }

// Rate is something a second: "150/s".
func Rate(v float64) string { return Number(v) + "/s" }

// Share is a share of 1: "33.3%".
func Share(v float64) string { return Number(100*v) + "%" }

// Number is v to three digits, without an exponent and without zeros after the point that say nothing.
func Number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	text := strconv.FormatFloat(v, 'f', min(max(decimals, 0), 6), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// scaled is v in the largest decimal multiple that leaves at least 1.
func scaled(v float64) string {
	prefixes := []string{"", "k", "M", "G", "T"}
	i := 0
	for math.Abs(v) >= 999.5 && i < len(prefixes)-1 {
		v /= 1000
		i++
	}
	return Number(v) + prefixes[i]
}
