package report

import "strings"

// metric is a figure that an expectation can be about. Its get returns nil and the reason where there is none.
type metric[T any] struct {
	name string
	dim  dimension
	get  func(T) (*float64, string)
}

// loadMetrics are what may follow "load.<name>.". Errors by kind come on top: "errors.<kind>".
func loadMetrics() []metric[*Load] {
	m := []metric[*Load]{
		{"errors", count, func(l *Load) (*float64, string) { return ofRequests(l, float64(*orZero(l.Errors))) }},
		{"error_rate", share, func(l *Load) (*float64, string) {
			return ofRequests(l, float64(*orZero(l.Errors))/float64(max(*orZero(l.Requests), 1)))
		}},
		{"requests", count, func(l *Load) (*float64, string) { return converted(l.Requests), "it logged nothing" }},
		{"rate", rate, func(l *Load) (*float64, string) { return l.Rate, "it has no rate" }},
		{"throughput", flow, func(l *Load) (*float64, string) { return l.ThroughputBps, "it received nothing" }},
		{"late", count, func(l *Load) (*float64, string) { return converted(l.Late), "it sends nothing at set times" }},
		{"open", count, func(l *Load) (*float64, string) { return converted(l.OpenMax), "it holds no connections" }},
		{"sources", count, func(l *Load) (*float64, string) {
			if len(l.Sources) == 0 {
				return nil, "nobody said where its connections came from"
			}
			return number(float64(len(l.Sources))), ""
		}},
		{"endpoints", count, func(l *Load) (*float64, string) { return spread(l, func(n, _, _, _ float64) float64 { return n }) }},
		{"endpoints.min_share", share, func(l *Load) (*float64, string) {
			return spread(l, func(_, least, _, sum float64) float64 { return least / sum })
		}},
		{"endpoints.max_share", share, func(l *Load) (*float64, string) {
			return spread(l, func(_, _, most, sum float64) float64 { return most / sum })
		}},
	}
	for _, p := range []struct {
		name string
		get  func(*Latency) *float64
	}{
		{"p50", func(d *Latency) *float64 { return &d.P50 }},
		{"p90", func(d *Latency) *float64 { return &d.P90 }},
		{"p99", func(d *Latency) *float64 { return &d.P99 }},
		{"p999", func(d *Latency) *float64 { return &d.P999 }},
		{"max", func(d *Latency) *float64 { return &d.Max }},
		{"mean", func(d *Latency) *float64 { return &d.Mean }},
	} {
		m = append(m,
			metric[*Load]{"latency." + p.name, duration, func(l *Load) (*float64, string) {
				return maybe(l.Latency, p.get), "no request succeeded"
			}},
			metric[*Load]{"connect." + p.name, duration, func(l *Load) (*float64, string) {
				return maybe(l.Connect, p.get), "no connection was timed"
			}})
	}
	return m
}

// errorKinds are the kinds of errors that loads tell apart, beside "status-" and a number.
var errorKinds = []string{"refused", "reset", "timeout", "no-route", "unreachable", "eof", "no-port", "denied",
	"malformed", "unsent", "other"}

// knownErrorKind is what keeps a typing error from being an expectation that always holds.
func knownErrorKind(kind string) bool {
	if status, ok := strings.CutPrefix(kind, "status-"); ok {
		return len(status) == 3 && strings.Trim(status, "0123456789") == ""
	}
	for _, k := range errorKinds {
		if k == kind {
			return true
		}
	}
	return false
}

func errorsOfKind(kind string) metric[*Load] {
	return metric[*Load]{"errors." + kind, count, func(l *Load) (*float64, string) {
		return ofRequests(l, float64(l.ErrorsByKind[kind]))
	}}
}

// subjectMetrics are the paths that do not begin with "load.".
func subjectMetrics() []metric[*Subject] {
	var m []metric[*Subject]
	for _, part := range []struct {
		name string
		get  func(*Programming) *ProgrammingSamples
	}{
		{"programming.", func(p *Programming) *ProgrammingSamples { return &p.ProgrammingSamples }},
		{"programming.added.", func(p *Programming) *ProgrammingSamples { return p.Added }},
		{"programming.removed.", func(p *Programming) *ProgrammingSamples { return p.Removed }},
	} {
		add := func(name string, dim dimension, get func(*ProgrammingSamples) float64) {
			m = append(m, metric[*Subject]{part.name + name, dim, func(s *Subject) (*float64, string) {
				if s.ProgrammingSeconds != nil {
					if d := part.get(s.ProgrammingSeconds); d != nil {
						return number(get(d)), ""
					}
				}
				return nil, "no such change of an endpoint was followed"
			}})
		}
		add("p50", duration, func(d *ProgrammingSamples) float64 { return d.P50 })
		add("p99", duration, func(d *ProgrammingSamples) float64 { return d.P99 })
		add("max", duration, func(d *ProgrammingSamples) float64 { return d.Max })
		add("samples", count, func(d *ProgrammingSamples) float64 { return float64(d.Samples) })
	}
	m = append(m, metric[*Subject]{"programming.unobserved", count, func(s *Subject) (*float64, string) {
		if s.ProgrammingSeconds == nil {
			return nil, "no such change of an endpoint was followed"
		}
		return converted(&s.ProgrammingSeconds.Unobserved), ""
	}})
	m = append(m, syncMetrics()...)
	m = append(m, swapMetrics()...)
	m = append(m, lbaasMetrics()...)
	return append(m,
		metric[*Subject]{"usage.cpu", duration, func(s *Subject) (*float64, string) {
			return maybe(s.ProxierUsage, func(u *Usage) *float64 { return &u.CPUSeconds }), "its processor time was not read"
		}},
		metric[*Subject]{"usage.max_rss", size, func(s *Subject) (*float64, string) {
			return maybe(s.ProxierUsage, func(u *Usage) *float64 { return converted(&u.MaxRSSBytes) }), "its memory was not read"
		}},
		metric[*Subject]{"usage.softirq", duration, func(s *Subject) (*float64, string) {
			return s.SoftirqSeconds, "the kernel's time was not read"
		}})
}

func syncMetrics() []metric[*Subject] {
	var m []metric[*Subject]
	add := func(name string, dim dimension, get func(*Sync) *float64) {
		m = append(m, metric[*Subject]{"sync." + name, dim, func(s *Subject) (*float64, string) {
			return maybe(s.Sync, get), "no such sync was reported"
		}})
	}
	add("count", count, func(s *Sync) *float64 { return converted(&s.Count) })
	add("full", count, func(s *Sync) *float64 { return converted(&s.Full) })
	add("partial", count, func(s *Sync) *float64 { return converted(&s.Partial) })
	add("failures", count, func(s *Sync) *float64 { return converted(&s.Failures) })
	add("cpu", duration, func(s *Sync) *float64 { return s.CPUSeconds })
	add("cpu_per_sync", duration, func(s *Sync) *float64 { return s.CPUSecondsPerSync })
	add("seconds.p50", duration, func(s *Sync) *float64 {
		return maybe(s.Seconds, func(d *SyncSeconds) *float64 { return &d.P50 })
	})
	add("seconds.p99", duration, func(s *Sync) *float64 {
		return maybe(s.Seconds, func(d *SyncSeconds) *float64 { return &d.P99 })
	})
	add("seconds.max", duration, func(s *Sync) *float64 {
		return maybe(s.Seconds, func(d *SyncSeconds) *float64 { return &d.Max })
	})
	return m
}

// swapMetrics are over all swaps of a subject: the longest, and what broke and failed in all together.
func swapMetrics() []metric[*Subject] {
	var m []metric[*Subject]
	add := func(name string, dim dimension, next func(sum float64, w Swap) float64) {
		m = append(m, metric[*Subject]{"swap." + name, dim, func(s *Subject) (*float64, string) {
			if len(s.Swap) == 0 {
				return nil, "no proxier was swapped"
			}
			var v float64
			for _, w := range s.Swap {
				v = next(v, w)
			}
			return &v, ""
		}})
	}
	add("seconds", duration, func(v float64, w Swap) float64 { return max(v, w.Seconds) })
	add("broken", count, func(v float64, w Swap) float64 { return v + float64(w.ConnectionsBroken) })
	add("failed", count, func(v float64, w Swap) float64 { return v + float64(w.RequestsFailed) })
	return m
}

// maybe is get of v, nil where there is no v.
func maybe[T any](v *T, get func(*T) *float64) *float64 {
	if v == nil {
		return nil
	}
	return get(v)
}

func converted[N int | int64](n *N) *float64 {
	if n == nil {
		return nil
	}
	return number(float64(*n))
}

func orZero(n *int64) *int64 {
	if n == nil {
		return new(int64)
	}
	return n
}

// ofRequests is v, unless there was no request that could have given it.
func ofRequests(l *Load, v float64) (*float64, string) {
	if *orZero(l.Requests) == 0 {
		return nil, "it made no request"
	}
	return &v, ""
}

// spread computes a figure of how requests spread over the pods that answered.
func spread(l *Load, figure func(n, least, most, sum float64) float64) (*float64, string) {
	var n, least, most, sum float64
	for _, requests := range l.Endpoints {
		r := float64(requests)
		if n == 0 || r < least {
			least = r
		}
		n, most, sum = n+1, max(most, r), sum+r
	}
	if sum == 0 {
		return nil, "no pod that answered is known"
	}
	return number(figure(n, least, most, sum)), ""
}
