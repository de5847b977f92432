package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/report"
)

// maxSyncs is how many passes of a subject are kept one by one.
const maxSyncs = 1000

// Subject is what is known of one proxier in one repetition.
type Subject struct {
	ID           events.Subject
	Number       int // from 0, in the order of play
	Began, Ended time.Time
	Error        string
	Steps        map[int]*Step // by index
	Running      int           // index of the step that was started last; -1: none
	Loads        []*Load       // in the order in which they started
	Marks        []Mark
	Nodes        []*Node
	Syncs        []Sync // the latest
	Full, Part   int
	Failed       int
	CPU, Memory  *gauge // share of a core, and bytes, of the proxier on all nodes
	Programming  []Programming
	Balancers    Balancers
	plan         []string  // the scenario's steps
	origin       time.Time // where its charts begin: at its first step
}

// Step is how a step goes.
type Step struct {
	Text    string
	Kind    string
	Began   time.Time
	Seconds float64
	Done    bool
	Error   string
}

// Mark is a moment that charts show: a step that changes something has begun.
type Mark struct {
	At   float64 // seconds from where the charts begin
	Text string
}

// Node is the proxier on one node.
type Node struct {
	Name     string
	Last     *Sync
	Proxier  string // that runs now
	pid      int
	at       time.Time // of the usage below
	cpu      float64   // seconds so far
	share    float64   // of a core, lately
	rss      int64
	MaxRSS   int64
	hasShare bool
	total    float64 // CPU seconds of processes that are over
	hasUsage bool
}

// Sync is one pass.
type Sync struct {
	At time.Time
	*events.Sync
}

// Programming is one change and how long the data path took to obey.
type Programming struct {
	At time.Time
	*events.Programming
}

// Load is one load of a subject.
type Load struct {
	Name   string
	Info   *events.LoadStarted
	Ended  bool
	Error  string
	Series *series
	recent []events.LoadTick // of the last seconds
	lately *lately           // sum of recent; nil: to be made again
	Pods   map[string]int64  // that answered, over all
	Kinds  map[string]int64  // errors
	Total  int64
	Errors int64
	all    *bucket // sum of Series, of a load that has ended

	version int // changes with every event
}

// lately is what a load did in the last seconds.
type lately struct {
	bucket
	pods map[string]int64
}

// recently is how far back "now" reaches, in ticks of half a second.
const recently = 6

func newSubject(id events.Subject, number int, at time.Time) *Subject {
	return &Subject{ID: id, Number: number, Began: at, Running: -1, Steps: map[int]*Step{}, CPU: newGauge(), Memory: newGauge()}
}

// Name is the subject's proxier, with what tells it from others.
func (s *Subject) Name() string {
	name := report.SubjectName(s.ID)
	if s.ID.Repetition > 1 {
		name += fmt.Sprintf(" #%d", s.ID.Repetition)
	}
	return name
}

// Proxier is what runs at present, which after a live swap is another than the subject's own.
func (s *Subject) Proxier() string {
	for _, n := range s.Nodes {
		if n.Proxier != "" {
			return n.Proxier
		}
	}
	return s.ID.Proxier
}

// since is a moment on the subject's charts.
func (s *Subject) since(at time.Time) float64 {
	if s.origin.IsZero() {
		return 0
	}
	return at.Sub(s.origin).Seconds()
}

func (s *Subject) add(e events.Event) {
	switch {
	case e.SubjectEnded != nil:
		s.Ended, s.Error = e.Time, e.SubjectEnded.Error
	case e.StepStarted != nil:
		s.step(e)
	case e.StepEnded != nil:
		if step := s.Steps[e.StepEnded.Index]; step != nil {
			step.Done, step.Seconds, step.Error = true, e.StepEnded.Seconds, e.StepEnded.Error
		}
	case e.LoadStarted != nil:
		l := s.load(e.LoadStarted.Name)
		l.Info, l.Ended, l.all = e.LoadStarted, false, nil
		l.version++
	case e.LoadTick != nil:
		s.load(e.LoadTick.Name).tick(s.since(e.Time)-e.LoadTick.Seconds/2, e)
	case e.LoadEnded != nil:
		l := s.load(e.LoadEnded.Name)
		l.Ended, l.Error, l.recent, l.lately = true, e.LoadEnded.Error, nil, nil
		l.version++
	case e.Sync != nil:
		s.sync(e)
	case e.Usage != nil:
		s.use(e)
	case e.Programming != nil:
		s.Programming = append(s.Programming, Programming{e.Time, e.Programming})
	default:
		s.Balancers.add(e)
	}
}

func (s *Subject) step(e events.Event) {
	if s.origin.IsZero() {
		s.origin = e.Time
	}
	s.Running = e.StepStarted.Index
	s.Steps[s.Running] = &Step{Text: e.StepStarted.Text, Kind: e.StepStarted.Kind, Began: e.Time}
	if text := markText(e.StepStarted.Kind, e.StepStarted.Text); text != "" {
		s.Marks = append(s.Marks, Mark{s.since(e.Time), text})
	}
}

// markText is a step in a word or two; empty for one that changes nothing.
func markText(kind, text string) string {
	switch kind {
	case "wait", "load", "":
		return ""
	case "scale":
		if i := strings.LastIndex(text, " to "); i >= 0 {
			return "scale " + text[i+4:]
		}
	case "patch":
		if strings.Contains(text, "sessionAffinity") {
			if strings.Contains(text, "ClientIP") {
				return "affinity"
			}
			return "no affinity"
		}
	}
	return kind
}

func (s *Subject) load(name string) *Load {
	for _, l := range s.Loads {
		if l.Name == name {
			return l
		}
	}
	l := &Load{Name: name, Series: newSeries(), Pods: map[string]int64{}, Kinds: map[string]int64{}}
	s.Loads = append(s.Loads, l)
	slices.SortStableFunc(s.Loads, func(a, b *Load) int {
		return cmp.Or(cmp.Compare(s.rank(a), s.rank(b)), cmp.Compare(a.Name, b.Name))
	})
	return l
}

// rank orders loads as the scenario starts them; which of them reports first is chance. Those that no step names come last.
func (s *Subject) rank(l *Load) int {
	name := "load " + strings.TrimSuffix(l.Name, directSuffix) + ":"
	i := slices.IndexFunc(s.plan, func(step string) bool { return strings.HasPrefix(step, name) })
	if i < 0 {
		return len(s.plan)
	}
	return i
}

const directSuffix = "/direct"

// direct says that it goes straight to a pod, around the proxier.
func (l *Load) direct() bool { return strings.HasSuffix(l.Name, directSuffix) }

// kind is "http", "connect", "udp", "stream" or "hold"; empty where it is not known.
func (l *Load) kind() string {
	if l.Info == nil {
		return ""
	}
	return l.Info.Kind
}

func (l *Load) tick(at float64, e events.Event) {
	t := e.LoadTick
	l.Series.add(at, t)
	l.Total += t.Requests
	l.Errors += t.Errors
	for pod, n := range t.Endpoints {
		l.Pods[pod] += n
	}
	for kind, n := range t.ErrorsByKind {
		l.Kinds[kind] += n
	}
	l.version++
	l.lately = nil
	l.recent = append(l.recent, *t)
	if len(l.recent) > recently {
		l.recent = append(l.recent[:0], l.recent[len(l.recent)-recently:]...)
	}
}

// now is what the load did lately. It is not to be changed.
func (l *Load) now() (b bucket, pods map[string]int64) {
	if l.lately == nil {
		b, pods := l.sumRecent()
		b.quantiles() // so that they are in all copies
		l.lately = &lately{b, pods}
	}
	return l.lately.bucket, l.lately.pods
}

func (l *Load) sumRecent() (b bucket, pods map[string]int64) {
	pods = map[string]int64{}
	for _, t := range l.recent {
		one := bucket{seconds: t.Seconds, requests: t.Requests, errors: t.Errors, bytes: t.Bytes, open: t.Open, ticks: 1}
		if t.Latency != nil {
			one.todo = []*events.Histogram{t.Latency}
		}
		b.merge(&one)
		for pod, n := range t.Endpoints {
			pods[pod] += n
		}
	}
	return b, pods
}

// sum is what the load did from its start to its end. until bounds the time for it; ok is false where that did not do.
func (l *Load) sum(until func() bool) (b *bucket, ok bool) {
	if l.all != nil {
		return l.all, true
	}
	for i := range l.Series.buckets {
		if until() {
			return nil, false
		}
		l.Series.buckets[i].quantiles()
	}
	var all bucket
	for i := range l.Series.buckets {
		one := l.Series.buckets[i]
		if one.latency != nil { // not to be shared
			one.latency = one.latency.Clone()
		}
		all.merge(&one)
	}
	l.all = &all
	return l.all, true
}

func (s *Subject) node(name string) *Node {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n
		}
	}
	n := &Node{Name: name}
	at := len(s.Nodes)
	for at > 0 && s.Nodes[at-1].Name > name { // by name, so that they stay in place
		at--
	}
	s.Nodes = append(s.Nodes[:at], append([]*Node{n}, s.Nodes[at:]...)...)
	return n
}

func (s *Subject) sync(e events.Event) {
	sync := Sync{e.Time, e.Sync}
	n := s.node(e.Sync.Node)
	n.Last = &sync
	switch {
	case e.Sync.Error != "":
		s.Failed++
	case e.Sync.Full:
		s.Full++
	default:
		s.Part++
	}
	s.Syncs = append(s.Syncs, sync)
	if len(s.Syncs) > maxSyncs {
		s.Syncs = append(s.Syncs[:0], s.Syncs[len(s.Syncs)-maxSyncs/2:]...)
	}
}

// use takes the cost of the proxier on a node, which is counted from the start of its process.
func (s *Subject) use(e events.Event) {
	u, n := e.Usage, s.node(e.Usage.Node)
	n.Proxier = u.Proxier
	if n.hasUsage && n.pid == u.PID && u.CPUSeconds >= n.cpu {
		if passed := e.Time.Sub(n.at).Seconds(); passed > 0.05 {
			n.share, n.hasShare = (u.CPUSeconds-n.cpu)/passed, true
		}
	} else {
		n.total += n.cpu
		n.hasShare = false
	}
	n.pid, n.at, n.cpu, n.rss, n.hasUsage = u.PID, e.Time, u.CPUSeconds, u.RSSBytes, true
	n.MaxRSS = max(n.MaxRSS, u.RSSBytes, u.MaxRSSBytes)
	share, memory, known := 0.0, 0.0, true
	for _, o := range s.Nodes {
		share, memory, known = share+o.share, memory+float64(o.rss), known && o.hasShare
	}
	at := e.Time.Sub(s.Began).Seconds()
	if known {
		s.CPU.add(at, share)
	}
	s.Memory.add(at, memory)
}

// cpuSeconds is what the proxier's processes took so far, on all nodes.
func (s *Subject) cpuSeconds() (seconds float64, ok bool) {
	for _, n := range s.Nodes {
		seconds, ok = seconds+n.total+n.cpu, ok || n.hasUsage
	}
	return seconds, ok
}
