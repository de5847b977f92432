package report

import "strings"

// Figure is one number of a subject that two runs can be compared by.
type Figure struct {
	Path  string // as expectations name it: "load.web.latency.p99"
	Value float64
	// HigherIsBetter: of most figures, less is better.
	HigherIsBetter bool
	dim            dimension
}

// Text is the figure for people.
func (f Figure) Text() string { return f.dim.format(f.Value) }

// TextOf is another value of the same figure for people.
func (f Figure) TextOf(v float64) string { return f.dim.format(v) }

// compared are the figures that say whether something got better or worse: of a load, and of the subject as a whole.
var (
	comparedOfLoads   = []string{"error_rate", "rate", "throughput", "latency.p50", "latency.p99"}
	comparedOfSubject = []string{
		"programming.added.p50", "programming.added.p99", "programming.removed.p50", "programming.removed.p99",
		"sync.seconds.p50", "sync.seconds.p99", "sync.cpu_per_sync", "usage.cpu", "usage.max_rss",
		"swap.seconds", "swap.broken", "swap.failed",
		"lb.publish.p50", "lb.publish.p99", "lb.api.calls", "lb.api.member_writes", "lb.failover.max", "lb.failover.flows_lost",
	}
	higherIsBetter = map[string]bool{"rate": true, "throughput": true}
)

// Figures are the numbers of a subject that say whether something got better or worse, as far as they were measured.
// Traffic straight to a pod is not among them: no proxier is in its way.
func Figures(s *Subject) []Figure {
	var list []Figure
	metrics := map[string]metric[*Load]{}
	for _, m := range loadMetrics() {
		metrics[m.name] = m
	}
	for _, load := range sortedKeys(s.Loads) {
		if strings.HasSuffix(load, "/direct") {
			continue
		}
		for _, name := range comparedOfLoads {
			if (name == "throughput") != (s.Loads[load].Kind == "stream") && (name == "throughput" || name == "rate") {
				continue // requests per second are the throughput of all but streams
			}
			m := metrics[name]
			if v, _ := m.get(s.Loads[load]); v != nil {
				list = append(list, Figure{Path: "load." + load + "." + name, Value: *v, HigherIsBetter: higherIsBetter[name], dim: m.dim})
			}
		}
	}
	ofSubject := map[string]metric[*Subject]{}
	for _, m := range subjectMetrics() {
		ofSubject[m.name] = m
	}
	for _, name := range comparedOfSubject {
		m := ofSubject[name]
		if v, _ := m.get(s); v != nil {
			list = append(list, Figure{Path: name, Value: *v, dim: m.dim})
		}
	}
	return list
}
