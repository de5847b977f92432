package report

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"
)

// better says which direction of each unit is an improvement, as benchstat reads it.
var better = []struct{ unit, direction string }{
	{"p50-sec", "lower"}, {"p90-sec", "lower"}, {"p99-sec", "lower"}, {"p999-sec", "lower"}, {"max-sec", "lower"},
	{"sec", "lower"}, {"errors", "lower"}, {"req/s", "higher"}, {"B/s", "higher"},
	{"cpu-sec/sync", "lower"}, {"cpu-sec", "lower"}, {"max-rss-B", "lower"}, {"softirq-sec", "lower"},
	{"broken", "lower"}, {"failed", "lower"}, {"failures", "lower"},
}

// Bench is the result in Go's benchmark format (golang.org/design/14313-benchmark-format): a line per subject and
// subject of measurement, so that benchstat can compare repetitions, runs and, with -col proxier, proxiers.
func Bench(r *Result) ([]byte, error) {
	var out bytes.Buffer
	w := benchfmt.NewWriter(&out)
	for _, b := range better {
		fmt.Fprintf(&out, "Unit %s better=%s\n", b.unit, b.direction)
	}
	// Not in the configuration, by which benchstat tells apart what it does not compare.
	fmt.Fprintf(&out, "# run %s, proxylab %s, outcome: %s\n", oneLine(r.Run.ID), oneLine(r.Run.Version), oneLine(r.Run.Outcome))
	for _, s := range r.Subjects {
		b := &benchWriter{w: w, config: benchConfig(r, s)}
		for _, name := range sortedKeys(s.Loads) {
			b.load(name, s.Loads[name])
		}
		b.sync(s.Sync)
		b.programming("added", s.ProgrammingSeconds)
		b.programming("removed", s.ProgrammingSeconds)
		for i, swap := range s.Swap {
			b.swap(i, swap)
		}
		b.usage(s)
		if b.err != nil {
			return nil, fmt.Errorf("write the result as benchmarks: %w", b.err)
		}
	}
	return out.Bytes(), nil
}

// benchConfig is what belongs to all lines of a subject. Its values are free text, unlike parts of a name.
func benchConfig(r *Result, s *Subject) []benchfmt.Config {
	var config []benchfmt.Config
	for _, kv := range [][2]string{
		{"scenario", r.Run.Scenario}, {"lab", r.Run.Lab},
		{"kernel", strings.TrimSpace(r.Run.Kernel.Kind + " " + r.Run.Kernel.Release)},
		{"cpus", strconv.Itoa(r.Run.CPUs)}, {"proxier", nameOf(s.Proxier, s.Backend)},
	} {
		if v := oneLine(kv[1]); v != "" {
			config = append(config, benchfmt.Config{Key: kv[0], Value: []byte(v), File: true})
		}
	}
	return config
}

type benchWriter struct {
	w      *benchfmt.Writer
	config []benchfmt.Config
	err    error // the first
}

// write makes a line unless it would hold no figure.
func (b *benchWriter) write(name string, iterations int64, values []benchfmt.Value) {
	if len(values) == 0 || b.err != nil {
		return
	}
	b.err = b.w.Write(&benchfmt.Result{
		Config: b.config, Name: benchfmt.Name(name), Values: values,
		Iters: int(min(max(iterations, 1), math.MaxInt32)),
	})
}

// benchKey makes text a part of a benchmark's name, which holds neither blanks nor slashes.
func benchKey(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' {
			return '_'
		}
		return r
	}, text)
}

// add appends a figure if there is one.
func add(values []benchfmt.Value, unit string, v *float64) []benchfmt.Value {
	if v == nil {
		return values
	}
	return append(values, benchfmt.Value{Value: *v, Unit: unit})
}

func (b *benchWriter) load(name string, l *Load) {
	var v []benchfmt.Value
	if d := l.Latency; d != nil {
		v = add(v, "p50-sec", &d.P50)
		v = add(v, "p90-sec", &d.P90)
		v = add(v, "p99-sec", &d.P99)
		v = add(v, "p999-sec", &d.P999)
		v = add(v, "max-sec", &d.Max)
	}
	v = add(v, "req/s", l.Rate)
	v = add(v, "B/s", l.ThroughputBps)
	v = add(v, "errors", converted(l.Errors))
	b.write("Load/name="+benchKey(name)+"/kind="+benchKey(l.Kind), *orZero(l.Requests), v)
}

func (b *benchWriter) sync(s *Sync) {
	if s == nil {
		return
	}
	var v []benchfmt.Value
	if s.Seconds != nil {
		v = add(v, "p50-sec", &s.Seconds.P50)
		v = add(v, "p99-sec", &s.Seconds.P99)
		v = add(v, "max-sec", &s.Seconds.Max)
	}
	v = add(v, "cpu-sec/sync", s.CPUSecondsPerSync)
	v = add(v, "failures", converted(&s.Failures))
	for _, kind := range sortedKeys(s.Objects) {
		v = add(v, benchKey(kind), number(float64(s.Objects[kind])))
	}
	b.write("Sync", int64(s.Count), v)
}

func (b *benchWriter) programming(change string, p *Programming) {
	if p == nil {
		return
	}
	d := p.Added
	if change == "removed" {
		d = p.Removed
	}
	if d == nil {
		return
	}
	v := add(nil, "p50-sec", &d.P50)
	v = add(v, "p99-sec", &d.P99)
	v = add(v, "max-sec", &d.Max)
	b.write("Programming/change="+change, int64(d.Samples), v)
}

func (b *benchWriter) swap(i int, s Swap) {
	v := add(nil, "sec", &s.Seconds)
	v = add(v, "broken", converted(&s.ConnectionsBroken))
	v = add(v, "failed", converted(&s.RequestsFailed))
	b.write(fmt.Sprintf("Swap/n=%d/from=%s/to=%s", i+1, benchKey(s.From), benchKey(s.To)), 1, v)
}

func (b *benchWriter) usage(s *Subject) {
	var v []benchfmt.Value
	if u := s.ProxierUsage; u != nil {
		v = add(v, "cpu-sec", &u.CPUSeconds)
		v = add(v, "max-rss-B", converted(&u.MaxRSSBytes))
	}
	v = add(v, "softirq-sec", s.SoftirqSeconds)
	b.write("Usage", 1, v)
}
