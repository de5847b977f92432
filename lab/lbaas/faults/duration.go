package faults

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time span above zero, written as Go does: 500ms, 5s, 1m30s.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(strings.TrimSpace(string(text)))
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a duration; write for example 500ms, 5s or 1m30s", text)
	case v <= 0:
		return fmt.Errorf("%q is not above zero; write for example 5s", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes it as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Span is a duration that may be without end.
type Span struct {
	Duration time.Duration
	Forever  bool
}

// UnmarshalText reads a duration, or the word forever.
func (s *Span) UnmarshalText(text []byte) error {
	if strings.TrimSpace(string(text)) == "forever" {
		*s = Span{Forever: true}
		return nil
	}
	var d Duration
	if err := d.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, or forever", err)
	}
	*s = Span{Duration: time.Duration(d)}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (s Span) MarshalText() ([]byte, error) {
	if s.Forever {
		return []byte("forever"), nil
	}
	return []byte(s.Duration.String()), nil
}
