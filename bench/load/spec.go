package load

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Kinds of load.
const (
	HTTP    = "http"    // requests to the HTTP port
	Connect = "connect" // connections to the TCP port, up to the line that names the pod
	UDP     = "udp"     // a datagram to the UDP port and its answer
	Stream  = "stream"  // bytes from the STREAM port, as fast as they come
	Hold    = "hold"    // connections to the TCP port that stay open, each with a message now and then
)

// Values of Spec.Connections.
const (
	New       = "new"       // a connection, or a UDP socket, for each request: one balancing decision each
	KeepAlive = "keepalive" // used again: one balancing decision per connection, or per UDP flow
)

// Defaults of a Spec, and its bounds.
const (
	DefaultTimeout = 5 * time.Second
	DefaultTick    = 500 * time.Millisecond

	maxRate  = 100_000
	maxCount = 20_000
)

// Spec says what a load does. In JSON, durations are strings as Go writes them ("500ms"), and unknown fields are
// mistakes.
type Spec struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // "http", "connect", "udp", "stream", "hold"
	// Targets are "ip:port"; with several, requests (flows, streams, held connections) take turns.
	Targets []string `json:"targets"`
	URLPath string   `json:"urlPath,omitempty"` // http; "/" by default

	// Rate is per second: of requests (http, connect, udp), or at which hold opens its connections (0: all within
	// a second). A stream has none.
	Rate        float64 `json:"rate,omitempty"`
	Connections string  `json:"connections,omitempty"` // http and udp: "new" (default), "keepalive"

	// Count is the number of connections held, of parallel streams, of UDP flows or of HTTP clients with keepalive
	// (each with connections of its own), and, with SourcePort, of source ports. 1 by default.
	Count int `json:"count,omitempty"`

	// Timeout is how long after it was due a request may take; for a stream and a held connection, how long it may
	// stay without a byte that is awaited. It bounds what a stop waits for.
	Timeout  time.Duration `json:"-"`
	Duration time.Duration `json:"-"` // 0: until told
	Tick     time.Duration `json:"-"` // length of a LoadTick

	// SourcePort (connect, udp) is where requests come from, or the first of Count such ports. A port serves one
	// request at a time unless it is a UDP flow (keepalive). 0: any.
	SourcePort int `json:"sourcePort,omitempty"`
	// Reopen makes hold replace connections that broke.
	Reopen bool `json:"reopen,omitempty"`
	// Pace is the share of the usual at which held connections are used, and broken ones made anew. 0: 1.
	Pace float64 `json:"pace,omitempty"`
	From string  `json:"from,omitempty"` // where this runs, for the record: "pod client on node1"
}

// specJSON is a Spec with its durations as text.
type specJSON struct {
	*specFields
	Timeout  string `json:"timeout,omitempty"`
	Duration string `json:"duration,omitempty"`
	Tick     string `json:"tick,omitempty"`
}

type specFields Spec // without the methods

// MarshalJSON writes durations as text and leaves out what is not set.
func (s Spec) MarshalJSON() ([]byte, error) {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	f := specFields(s)
	return json.Marshal(specJSON{&f, text(s.Timeout), text(s.Duration), text(s.Tick)})
}

// UnmarshalJSON fails on unknown fields and on durations without a unit.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var f specFields
	j := specJSON{specFields: &f}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return err
	}
	var mistakes []error
	parse := func(name, text string, to *time.Duration) {
		if text == "" {
			return
		}
		v, err := time.ParseDuration(text)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %q is not a duration such as 500ms or 2s", name, text))
		}
		*to = v
	}
	parse("timeout", j.Timeout, &f.Timeout)
	parse("duration", j.Duration, &f.Duration)
	parse("tick", j.Tick, &f.Tick)
	*s = Spec(f)
	return errors.Join(mistakes...)
}

// Validate returns all mistakes at once, one a line.
func (s Spec) Validate() error {
	var m mistakes
	m.check(s.Name != "", "name is missing")
	switch s.Kind {
	case HTTP, Connect, UDP:
		m.check(s.Rate > 0 && s.Rate <= maxRate, "rate is %v: a %s load needs one above 0 and at most %d per second",
			s.Rate, s.Kind, maxRate)
	case Hold:
		m.check(s.Rate >= 0 && s.Rate <= maxRate, "rate is %v: it must be from 0 to %d per second", s.Rate, maxRate)
		m.check(s.Count > 0, "count is %d: a hold load needs the number of connections", s.Count)
	case Stream:
		m.check(s.Rate == 0, "rate is %v: a stream load has none, it takes what comes", s.Rate)
	default:
		m.add("kind is %q: it must be http, connect, udp, stream or hold", s.Kind)
	}
	m.check(s.Pace >= 0 && s.Pace <= 1, "pace is %v: it must be from 0 to 1", s.Pace)
	m.check(len(s.Targets) > 0, "targets are missing")
	for _, t := range s.Targets {
		a, err := netip.ParseAddrPort(t)
		m.check(err == nil && a.Port() != 0, "target %q: it must be ip:port, such as 10.96.0.10:80 or [fd00::1]:80", t)
	}
	s.checkConnections(&m)
	m.check(s.Count >= 0 && s.Count <= maxCount, "count is %d: it must be from 0 to %d", s.Count, maxCount)
	m.check(s.Timeout >= 0, "timeout is %v: it must not be negative", s.Timeout)
	m.check(s.Duration >= 0, "duration is %v: it must not be negative", s.Duration)
	m.check(s.Tick == 0 || s.Tick >= time.Millisecond, "tick is %v: it must be at least 1ms", s.Tick)
	return m.err("load " + s.Name)
}

func (s Spec) checkConnections(m *mistakes) {
	switch s.Connections {
	case "", New:
	case KeepAlive:
		m.check(s.Kind != Connect, "connections is keepalive: a connect load makes new ones by its nature")
	default:
		m.add("connections is %q: it must be new or keepalive", s.Connections)
	}
	if s.URLPath != "" {
		m.check(s.Kind == HTTP, "urlPath is for http, not for %s", s.Kind)
		_, err := url.ParseRequestURI(s.URLPath)
		m.check(err == nil && strings.HasPrefix(s.URLPath, "/"), "urlPath %q: it must be a path that begins with /", s.URLPath)
	}
	if s.SourcePort != 0 {
		m.check(s.Kind == Connect || s.Kind == UDP, "sourcePort is for connect and udp, not for %s", s.Kind)
		last := s.SourcePort + max(s.Count, 1) - 1
		m.check(s.SourcePort > 0 && last <= math.MaxUint16, "sourcePort: ports %d to %d are not all between 1 and 65535",
			s.SourcePort, last)
	}
	m.check(!s.Reopen || s.Kind == Hold, "reopen is for hold, not for %s", s.Kind)
}

// withDefaults fills in what a valid spec leaves open.
func (s Spec) withDefaults() Spec {
	s.Pace = cmp.Or(s.Pace, 1)
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.Tick == 0 {
		s.Tick = DefaultTick
	}
	if s.Connections == "" && (s.Kind == HTTP || s.Kind == UDP || s.Kind == Connect) {
		s.Connections = New
	}
	if s.URLPath == "" {
		s.URLPath = "/"
	}
	s.Count = max(s.Count, 1)
	return s
}

// mistakes collects what is wrong with a spec.
type mistakes []error

func (m *mistakes) add(format string, args ...any) { *m = append(*m, fmt.Errorf(format, args...)) }

func (m *mistakes) check(ok bool, format string, args ...any) {
	if !ok {
		m.add(format, args...)
	}
}

func (m mistakes) err(what string) error {
	if len(m) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(what), errors.Join(m...))
}

// readSpec reads the spec that a load process gets as the first line of its input.
func readSpec(line []byte) (Spec, error) {
	var s Spec
	if len(bytes.TrimSpace(line)) == 0 {
		return s, fmt.Errorf("read the load's specification: %w", io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return s, fmt.Errorf("read the load's specification: %w", err)
	}
	return s, s.Validate()
}
