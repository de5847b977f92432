package kubeproxy

import (
	"sort"
	"strings"
	"time"

	"proxylab/proxiers/runner"
)

// reading is what kube-proxy's metrics say about one IP family at one moment. Counts and sums are since its start.
type reading struct {
	Syncs    uint64  // ended syncs, failed ones included
	Seconds  float64 // their summed duration
	Full     uint64  // those that wrote everything
	Failures float64 // batches of rules that the kernel or the tool refused
	Queued   float64 // Unix time when a sync was last asked for; 0: this family is not proxied (yet)
	LastOK   float64 // Unix time of the last sync that succeeded; 0: none
}

// observation is all of it, read at one moment.
type observation struct {
	At       time.Time
	CPU      float64 // of the process and its waited-for children since its start, seconds
	Families map[string]reading
	Objects  map[string]int
}

// familySync is one ended sync of one family, or Count equal ones that ended between two observations.
type familySync struct {
	family     string
	count      uint64
	start, end time.Time
	full       bool
	err        string
	cpu        float64 // process total when it was seen
	objects    map[string]int
}

// merger turns observations into reports that mean the same as those of the native proxiers.
//
// A native proxier writes both families in one sync. kube-proxy syncs each in a loop of its own, and one change of a
// Service sets off both. So syncs of the two families that overlap in time are one Report, whose Seconds are
// the time from the first start to the last end; syncs that do not overlap (a change that concerns one family, or two
// that were held apart by the minimum sync period) are one Report each. An ended sync is held back while the other
// family has one to do. Until every family has succeeded once, everything is one Report, so the first Report
// without an error means that the whole node is programmed.
type merger struct {
	before observation
	held   map[string]familySync
	ready  bool // every family has succeeded once
	// expected are families that kube-proxy is likely to serve. It does not say which until it comes to each, and the
	// first sync of one family keeps the other waiting.
	expected []string
	heldFrom time.Time // since when the first sync is held back
	cpu      float64   // process total at the last report
	backend  string
}

func newMerger(start time.Time, cpu float64, backend string, expected ...string) *merger {
	return &merger{before: observation{At: start}, held: map[string]familySync{}, cpu: cpu, backend: backend, expected: expected}
}

// observe takes what is true now and returns the reports that became due, in order of time.
func (m *merger) observe(now observation) []runner.Report {
	var due []runner.Report
	news := map[string]bool{}
	for family, r := range now.Families {
		s, ok := ended(m.before, now, family, r)
		if !ok {
			continue
		}
		if old, waiting := m.held[family]; waiting && m.ready {
			due = append(due, m.reports(old)...)
		} else if waiting {
			s = join(old, s)
		}
		m.held[family], news[family] = s, true
	}
	firstLook := m.before.Families == nil || len(proxied(m.before)) == 0
	m.before = now
	if len(m.held) == 0 || (!m.ready && firstLook) || m.othersPending(now) {
		return due
	}
	due = append(due, m.release(len(news) > 1)...)
	m.ready = m.ready || allSucceeded(now)
	return due
}

// flush returns what is held back; for the end.
func (m *merger) flush() []runner.Report {
	return m.release(false)
}

// ended compares two observations of a family.
func ended(before, now observation, family string, r reading) (familySync, bool) {
	was := before.Families[family]
	n := r.Syncs - was.Syncs
	if r.Syncs <= was.Syncs {
		return familySync{}, false
	}
	s := familySync{family: family, count: n, full: r.Full > was.Full, cpu: now.CPU, objects: now.Objects, end: now.At}
	seconds := time.Duration((r.Seconds - was.Seconds) / float64(n) * float64(time.Second))
	ok := unixTime(r.LastOK)
	switch {
	case r.Failures > was.Failures:
		s.err = family + ": writing the rules failed, see the log"
	case ok.Before(before.At.Add(-seconds)):
		// Even the earliest possible start of this sync is later than the last success.
		s.err = family + ": sync failed, see the log"
	case ok.Before(now.At):
		s.end = ok
	}
	s.start = s.end.Add(-seconds)
	return s, true
}

// comeLimit is how long a family that is expected may take to be asked for its first sync, after the other's; then it
// is taken not to be served.
const comeLimit = 5 * time.Second

// othersPending: a family that has nothing held here was asked for a sync that has not come to its end.
func (m *merger) othersPending(now observation) bool {
	if m.heldFrom.IsZero() {
		m.heldFrom = now.At
	}
	if !m.ready && now.At.Sub(m.heldFrom) < comeLimit {
		for _, family := range m.expected {
			if _, here := m.held[family]; !here && now.Families[family].Queued == 0 {
				return true
			}
		}
	}
	for family, r := range now.Families {
		if _, here := m.held[family]; !here && r.Queued > r.LastOK {
			return true
		}
	}
	return false
}

func (m *merger) release(together bool) []runner.Report {
	all := make([]familySync, 0, len(m.held))
	for _, s := range m.held {
		all = append(all, s)
	}
	clear(m.held)
	sort.Slice(all, func(i, j int) bool { return all[i].end.Before(all[j].end) })
	if len(all) == 2 && (together || !m.ready || !all[0].end.Before(all[1].start)) {
		all = []familySync{join(all[0], all[1])}
	}
	var due []runner.Report
	for _, s := range all {
		due = append(due, m.reports(s)...)
	}
	return due
}

// join makes one sync of two. Two that did not overlap took no time in between.
func join(a, b familySync) familySync {
	if b.end.Before(a.end) {
		a, b = b, a
	}
	start := b.start
	if a.start.Before(start) {
		start = a.start
	}
	if gap := b.start.Sub(a.end); gap > 0 {
		start = start.Add(gap)
	}
	j := familySync{family: a.family + "+" + b.family, count: max(a.count, b.count), start: start, end: b.end,
		full: a.full || b.full, cpu: max(a.cpu, b.cpu), objects: b.objects}
	switch {
	case a.family != b.family:
		j.err = strings.Trim(a.err+"; "+b.err, "; ")
	default: // a later try of the same family
		j.family, j.err = a.family, b.err
	}
	return j
}

// reports makes the lines of one familySync: as many as it stands for, CPU time shared equally.
func (m *merger) reports(s familySync) []runner.Report {
	cpu := max(0, s.cpu-m.cpu)
	m.cpu = max(m.cpu, s.cpu)
	lines := make([]runner.Report, s.count)
	for i := range lines {
		lines[i] = runner.Report{Time: s.end, Full: s.full, Seconds: s.end.Sub(s.start).Seconds(),
			CPUSeconds: cpu / float64(s.count), Error: s.err, Objects: s.objects, Backend: m.backend}
	}
	return lines
}

func proxied(o observation) []string {
	var names []string
	for family, r := range o.Families {
		if r.Queued > 0 {
			names = append(names, family)
		}
	}
	return names
}

func allSucceeded(o observation) bool {
	for _, family := range proxied(o) {
		if o.Families[family].LastOK == 0 {
			return false
		}
	}
	return len(proxied(o)) > 0
}

func unixTime(seconds float64) time.Time {
	return time.Unix(0, int64(seconds*1e9))
}
