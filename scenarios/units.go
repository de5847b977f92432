package scenarios

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is how often something happens. It is written with its unit: 200/s, 12/m, 5/h.
type Rate struct {
	perSecond float64
	text      string
}

var rateUnits = map[string]float64{"s": 1, "m": 60, "h": 3600}

// ParseRate reads a rate. It must be finite and above zero.
func ParseRate(text string) (Rate, error) {
	number, unit, found := strings.Cut(strings.TrimSpace(text), "/")
	number, unit = strings.TrimSpace(number), strings.TrimSpace(unit)
	value, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || math.IsNaN(value) || math.IsInf(value, 0):
		return Rate{}, fmt.Errorf("%q is not a rate; write for example 200/s", text)
	case !found:
		return Rate{}, fmt.Errorf("%q has no unit; write for example %s/s", text, number)
	case rateUnits[unit] == 0:
		return Rate{}, fmt.Errorf("%q has a unit that is not known, %q; write for example %s/s, or /m, or /h", text, unit, number)
	case value <= 0:
		return Rate{}, fmt.Errorf("%q is not above zero; write for example 200/s, or leave the step out", text)
	}
	return Rate{perSecond: value / rateUnits[unit], text: number + "/" + unit}, nil
}

// PerSecond is the rate in events per second.
func (r Rate) PerSecond() float64 { return r.perSecond }

// String is the rate as it was written.
func (r Rate) String() string { return r.text }

// UnmarshalText is ParseRate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// MarshalText is the rate as it was written.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// Duration is a time span above zero, written as Go does: 500ms, 5s, 1m30s.
type Duration time.Duration

// ParseDuration reads a duration. It must be above zero.
func ParseDuration(text string) (Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		if number := strings.TrimSpace(text); isNumber(number) {
			return 0, fmt.Errorf("%q has no unit; write for example %ss", text, number)
		}
		return 0, fmt.Errorf("%q is not a duration; write for example 500ms, 5s or 1m30s", text)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%q is not above zero; write for example 5s", text)
	}
	return Duration(d), nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// Duration is the same as a time.Duration.
func (d Duration) Duration() time.Duration { return time.Duration(d) }

// String is as time.Duration writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// UnmarshalText is ParseDuration.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDuration(string(text))
	return err
}

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Port is the name or the number of a Service's port. Empty means the one that suits the load best.
type Port string

// UnmarshalText takes any text; whether the Service has such a port is checked where the Service is known.
func (p *Port) UnmarshalText(text []byte) error {
	*p = Port(text)
	return nil
}
