package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"proxylab/bench/units"
)

// dimension is what a figure is a number of.
type dimension int

const (
	count    dimension = iota // plain
	duration                  // seconds
	share                     // of 1
	size                      // bytes
	rate                      // per second
	flow                      // bytes per second
)

// example is a value that a person would write.
func (d dimension) example() string {
	return [...]string{
		count: "a plain number such as 100", duration: "a duration such as 50ms or 1s", share: "a share such as 3%",
		size: "a size such as 64MiB", rate: "a rate such as 200/s", flow: "a throughput such as 100MB/s",
	}[d]
}

// format is a figure for people, to three digits where it is not a plain number.
func (d dimension) format(v float64) string {
	switch d {
	case duration:
		return units.Seconds(v)
	case share:
		return units.Share(v)
	case size:
		return units.Bytes(v)
	case rate:
		return units.Rate(v)
	case flow:
		return units.Throughput(v)
	}
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return units.Number(v)
}

// parse reads a value as a person writes it in an expectation.
func (d dimension) parse(text string) (float64, error) {
	v, err := d.parseUnit(text)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Errorf("%q is not %s", text, d.example())
	}
	return v, nil
}

func (d dimension) parseUnit(text string) (float64, error) {
	switch d {
	case duration:
		t, err := time.ParseDuration(text)
		return t.Seconds(), err
	case share:
		return parseShare(text)
	case size:
		return parseSize(text)
	case rate:
		return parseNumber(strings.TrimSuffix(text, "/s"))
	case flow:
		return parseSize(strings.TrimSuffix(text, "/s"))
	}
	return parseNumber(text)
}

func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := parseNumber(strings.TrimSpace(number))
	if percent {
		v /= 100
	}
	if v > 1 {
		return 0, strconv.ErrRange
	}
	return v, err
}

// byteUnits, longest first.
var byteUnits = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1},
}

func parseSize(text string) (float64, error) {
	for _, u := range byteUnits {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			v, err := parseNumber(strings.TrimSpace(number))
			return v * u.bytes, err
		}
	}
	return parseNumber(text)
}

// parseNumber takes decimal numbers only: no hexadecimal, no underscores, no "inf".
func parseNumber(text string) (float64, error) {
	if text == "" || strings.Trim(text, "0123456789.eE+") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(text, 64)
}
