package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"proxylab/bench/load"
)

// Defaults of a Spec.
const (
	DefaultIdleInterval = 50 * time.Millisecond
	DefaultBusyInterval = 4 * time.Millisecond
	DefaultLimit        = 15 * time.Second
	DefaultTimeout      = time.Second

	// MaxRate is the most probes per second: what measures must not become a load.
	MaxRate = 300
)

// minInterval keeps to MaxRate.
const minInterval = time.Second / MaxRate

// Spec says what to probe. In JSON, durations are strings as Go writes them ("50ms"), and unknown fields are mistakes.
type Spec struct {
	Service string `json:"service"` // namespace/name, for the record
	Target  string `json:"target"`  // "ip:port"
	Kind    string `json:"kind"`    // "http", "connect", "udp"
	// Spacing of the probes while nothing is awaited, and while something is. Shorter ones than 1/MaxRate are
	// lengthened to that.
	IdleInterval time.Duration `json:"-"`
	BusyInterval time.Duration `json:"-"`
	Limit        time.Duration `json:"-"` // how long a change may take to be seen
	Timeout      time.Duration `json:"-"` // of one probe
}

// Command is one line of a prober's input after the Spec: a change to look out for, something to wait for, or a
// warning that a change is about to come.
type Command struct {
	// At is when the change was committed. For Await it is what Seconds counts from; by default, when the command
	// is read.
	At time.Time `json:"at,omitzero"`
	// Added and Removed are names of pods that the change made endpoints, or made no endpoints any more. A pod that
	// is being looked out for already, the same way, is left as it is.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`

	Await string `json:"await,omitempty"` // "any": until it answers; "refused": until it refuses
	ID    string `json:"id,omitempty"`    // of the wait, to be found in its events.Awaited
	Limit string `json:"limit,omitempty"` // of the wait; by default the Spec's

	Alert string `json:"alert,omitempty"` // probe as if something were awaited, for this long

	// Forget drops the changes that are being looked out for: from now on they cannot be seen, as when session
	// affinity keeps the prober on one pod.
	Forget bool `json:"forget,omitempty"`
}

// Values of Command.Await.
const (
	AwaitAny     = "any"
	AwaitRefused = "refused"
)

type specFields Spec // without the methods

// specJSON is a Spec with its durations as text.
type specJSON struct {
	*specFields
	IdleInterval string `json:"idleInterval,omitempty"`
	BusyInterval string `json:"busyInterval,omitempty"`
	Limit        string `json:"limit,omitempty"`
	Timeout      string `json:"timeout,omitempty"`
}

// AtPace has it probe at a share of the usual rate, above 0 and up to 1.
func (s Spec) AtPace(share float64) Spec {
	s = s.withDefaults()
	s.IdleInterval = time.Duration(float64(s.IdleInterval) / share)
	s.BusyInterval = time.Duration(float64(s.BusyInterval) / share)
	return s
}

// MarshalJSON writes durations as text and leaves out what is not set.
func (s Spec) MarshalJSON() ([]byte, error) {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	f := specFields(s)
	return json.Marshal(specJSON{&f, text(s.IdleInterval), text(s.BusyInterval), text(s.Limit), text(s.Timeout)})
}

// UnmarshalJSON fails on unknown fields and on durations without a unit.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var f specFields
	j := specJSON{specFields: &f}
	if err := strict(data, &j); err != nil {
		return err
	}
	var errs []error
	parse := func(name, text string, to *time.Duration) {
		d, err := duration(name, text)
		*to = d
		errs = append(errs, err)
	}
	parse("idleInterval", j.IdleInterval, &f.IdleInterval)
	parse("busyInterval", j.BusyInterval, &f.BusyInterval)
	parse("limit", j.Limit, &f.Limit)
	parse("timeout", j.Timeout, &f.Timeout)
	*s = Spec(f)
	return errors.Join(errs...)
}

func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// duration reads one that is not negative; empty is 0.
func duration(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s: %q is not a duration such as 500ms or 2s", name, text)
	}
	return d, nil
}

// Validate returns all mistakes at once, one a line.
func (s Spec) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(s.Service != "", "service is missing")
	a, err := netip.ParseAddrPort(s.Target)
	check(err == nil && a.Port() != 0, "target %q: it must be ip:port, such as 10.96.0.10:80 or [fd00::1]:80", s.Target)
	check(s.Kind == load.HTTP || s.Kind == load.Connect || s.Kind == load.UDP,
		"kind is %q: it must be http, connect or udp", s.Kind)
	check(s.IdleInterval >= 0, "idleInterval is %v: it must not be negative", s.IdleInterval)
	check(s.BusyInterval >= 0, "busyInterval is %v: it must not be negative", s.BusyInterval)
	check(s.Limit >= 0, "limit is %v: it must not be negative", s.Limit)
	check(s.Timeout >= 0, "timeout is %v: it must not be negative", s.Timeout)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("probe %s: %w", s.Service, err)
	}
	return nil
}

// withDefaults fills in what a valid spec leaves open.
func (s Spec) withDefaults() Spec {
	or := func(d, otherwise time.Duration) time.Duration {
		if d == 0 {
			return otherwise
		}
		return d
	}
	s.IdleInterval = max(or(s.IdleInterval, DefaultIdleInterval), minInterval)
	s.BusyInterval = max(or(s.BusyInterval, DefaultBusyInterval), minInterval)
	s.Limit = or(s.Limit, DefaultLimit)
	s.Timeout = or(s.Timeout, DefaultTimeout)
	return s
}

// check returns all mistakes of a command, given when it was read.
func (c Command) check(now time.Time) error {
	var errs []error
	changes := len(c.Added)+len(c.Removed) > 0
	if changes && c.At.IsZero() {
		errs = append(errs, errors.New("at is missing: when was the change committed?"))
	}
	if ahead := c.At.Sub(now); ahead > clockSlack {
		errs = append(errs, fmt.Errorf("at is %v in the future: the clocks differ", ahead))
	}
	if !changes && c.Await == "" && c.Alert == "" && !c.Forget {
		errs = append(errs, errors.New("it has none of added, removed, await, alert and forget"))
	}
	if c.Await != "" && c.Await != AwaitAny && c.Await != AwaitRefused {
		errs = append(errs, fmt.Errorf("await is %q: it must be any or refused", c.Await))
	}
	for _, d := range []struct{ name, text string }{{"limit", c.Limit}, {"alert", c.Alert}} {
		if _, err := duration(d.name, d.text); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// clockSlack is how far two readings of one clock may seem to differ.
const clockSlack = time.Second
