// Package events defines the run log, the one record of what a run did and measured.
//
// A log is a file of JSON lines, each one Event. It is only ever appended to; every view (table, JSON,
// terminal, web, comparison) is a pure function of it. A log may end in the middle of a line, because
// whoever wrote it was killed: the reader then reports what came before.
//
// Durations are float64 seconds and sizes are bytes, and the field names say so.
package events

import (
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Subject is what a measurement belongs to: one proxier, in one repetition of the scenario.
type Subject struct {
	Proxier    string `json:"proxier"`              // as asked for: "iptables", "kube-proxy/nftables"
	Backend    string `json:"backend,omitempty"`    // rule back end, where the proxier has a choice: "legacy", "nft"
	Repetition int    `json:"repetition,omitempty"` // from 1
}

// Event is one line of a log: when, for which subject, and exactly one payload.
// Subject is nil for what concerns the run as a whole.
type Event struct {
	Time    time.Time `json:"time"`
	Subject *Subject  `json:"subject,omitempty"`

	RunStarted     *RunStarted     `json:"runStarted,omitempty"`
	RunEnded       *RunEnded       `json:"runEnded,omitempty"`
	SubjectStarted *SubjectStarted `json:"subjectStarted,omitempty"`
	SubjectEnded   *SubjectEnded   `json:"subjectEnded,omitempty"`
	StepStarted    *StepStarted    `json:"stepStarted,omitempty"`
	StepEnded      *StepEnded      `json:"stepEnded,omitempty"`
	LoadStarted    *LoadStarted    `json:"loadStarted,omitempty"`
	LoadTick       *LoadTick       `json:"loadTick,omitempty"`
	LoadEnded      *LoadEnded      `json:"loadEnded,omitempty"`
	Sync           *Sync           `json:"sync,omitempty"`
	Usage          *Usage          `json:"usage,omitempty"`
	Softirq        *Softirq        `json:"softirq,omitempty"`
	Programming    *Programming    `json:"programming,omitempty"`
	Awaited        *Awaited        `json:"awaited,omitempty"`
	Swap           *Swap           `json:"swap,omitempty"`
	Rules          *Rules          `json:"rules,omitempty"`
	Note           *Note           `json:"note,omitempty"`
	LBCall         *LBCall         `json:"lbCall,omitempty"`
	LBState        *LBState        `json:"lbState,omitempty"`
	LBPublished    *LBPublished    `json:"lbPublished,omitempty"`
	LBFailover     *LBFailover     `json:"lbFailover,omitempty"`
	LBFault        *LBFault        `json:"lbFault,omitempty"`
	PartUsage      *PartUsage      `json:"partUsage,omitempty"`
	NodeChange     *NodeChange     `json:"nodeChange,omitempty"`
}

// RunStarted opens a log.
type RunStarted struct {
	ID           string   `json:"id"`
	Scenario     string   `json:"scenario"`
	ScenarioYAML string   `json:"scenarioYaml"` // the whole file, so that a log explains itself
	Lab          string   `json:"lab"`          // "netns", "kind"
	Kernel       Kernel   `json:"kernel"`
	CPUs         int      `json:"cpus"`
	Version      string   `json:"version"`     // of proxylab
	Proxiers     []string `json:"proxiers"`    // in the order they are played
	Repeat       int      `json:"repeat"`      // repetitions of each
	Steps        []string `json:"steps"`       // one readable line per step
	Expect       []string `json:"expect"`      // the scenario's expectations, verbatim
	Environment  []string `json:"environment"` // facts worth knowing: tool versions, sync periods, conntrack settings
}

// Kernel says where the nodes lived.
type Kernel struct {
	Kind    string `json:"kind"` // "host", "uml"
	Release string `json:"release"`
}

// RunEnded closes a log. A log without it was cut off.
type RunEnded struct {
	Outcome string `json:"outcome"` // "done", "interrupted", "failed"
	Error   string `json:"error,omitempty"`
}

// SubjectStarted opens the measurements of Event.Subject.
type SubjectStarted struct{}

// SubjectEnded closes them. What Error says kept the subject from being played to its end.
type SubjectEnded struct {
	Error string `json:"error,omitempty"`
}

// StepStarted and StepEnded frame one scenario step. Index counts from 0.
type StepStarted struct {
	Index int    `json:"index"`
	Kind  string `json:"kind"` // "load", "scale", ...
	Text  string `json:"text"` // "scale web to 3"
}

// StepEnded: Error is empty when the step did what it says.
type StepEnded struct {
	Index   int     `json:"index"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// LoadStarted says what a load does. A load named "x/direct" is the same traffic straight to a pod, without
// any Service proxy in the way.
type LoadStarted struct {
	Name        string  `json:"name"`
	Kind        string  `json:"kind"` // "http", "connect", "udp", "stream", "hold"
	Target      string  `json:"target"`
	RatePerSec  float64 `json:"ratePerSecond,omitempty"` // intended; absent where the kind has no rate
	Connections string  `json:"connections,omitempty"`   // "new", "keepalive"
	Count       int     `json:"count,omitempty"`         // connections held open, or parallel streams
	From        string  `json:"from"`                    // "pod client on node1", "outside"
}

// LoadTick is what one load did since its previous tick. Ticks are mergeable.
//
// A request counts in the tick in which it ended. Its latency counts from the moment it was due (open loop), not
// from the moment it was sent, so that a stalled server cannot hide its own stall.
type LoadTick struct {
	Name         string           `json:"name"`
	Seconds      float64          `json:"seconds"`                // length of the tick
	Requests     int64            `json:"requests"`               // ended in this tick, errors included
	Errors       int64            `json:"errors"`                 //
	ErrorsByKind map[string]int64 `json:"errorsByKind,omitempty"` // "refused", "reset", "timeout", "no-route", "eof", "status-503", ...
	Late         int64            `json:"late,omitempty"`         // sent over 10 ms after due because the generator was busy
	Bytes        int64            `json:"bytes,omitempty"`        // payload received (stream: moved)
	Latency      *Histogram       `json:"latency,omitempty"`      // of requests that succeeded
	Connect      *Histogram       `json:"connect,omitempty"`      // time to an established connection, where one was made
	Endpoints    map[string]int64 `json:"endpoints,omitempty"`    // pod that answered -> requests
	Sources      map[string]int64 `json:"sources,omitempty"`      // connect: address that the pod saw as its client's -> connections
	Open         int              `json:"open,omitempty"`         // hold: connections open at the end of the tick
}

// Histogram is an HdrHistogram of microseconds in its V2 compressed, base64 encoding, which any HDR tool reads.
type Histogram struct {
	HDR string `json:"hdr"`

	packed atomic.Pointer[hdrhistogram.PackedHistogram] // the same, once somebody has taken it apart
}

// LoadEnded says that a load has stopped and no tick of it follows.
type LoadEnded struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"` // why the generator itself failed, if it did
}

// Sync is one pass of a proxier on a node.
type Sync struct {
	Node       string         `json:"node"`
	Proxier    string         `json:"proxier,omitempty"` // after a live swap it is not the subject's own
	Full       bool           `json:"full"`
	Seconds    float64        `json:"seconds"`
	CPUSeconds *float64       `json:"cpuSeconds,omitempty"` // of the proxier's process tree since the end of the previous sync
	Error      string         `json:"error,omitempty"`
	Objects    map[string]int `json:"objects,omitempty"` // what the kernel holds after it: "rules", "sets", "services", "destinations"
}

// Usage is the cost so far of the process tree of the proxier on a node (CPU counted from the start of that process).
type Usage struct {
	Node        string  `json:"node"`
	PID         int     `json:"pid"`
	Proxier     string  `json:"proxier"` // the one running: after a live swap it is not the subject's first
	CPUSeconds  float64 `json:"cpuSeconds"`
	RSSBytes    int64   `json:"rssBytes"`
	MaxRSSBytes int64   `json:"maxRssBytes"`
}

// Softirq is the kernel's own network time so far on the whole machine, which no process is charged for.
type Softirq struct {
	Seconds float64 `json:"seconds"` // counted from the start of the subject
}

// Programming is one sample of programming latency: an API change was committed, and Seconds later the data path
// behaved accordingly, as a prober saw it.
type Programming struct {
	Service           string  `json:"service"` // namespace/name
	Change            string  `json:"change"`  // "added": first answer from Endpoint; "removed": last answer from it
	Endpoint          string  `json:"endpoint"`
	Seconds           float64 `json:"seconds"`
	ResolutionSeconds float64 `json:"resolutionSeconds"` // spacing of the probes, so the error of Seconds
	Error             string  `json:"error,omitempty"`   // not observed within the time limit; Seconds is then that limit
	// FailedProbes are those that nobody answered between the change and what was observed. An endpoint that is gone
	// already cannot answer: where there are some, "removed" may have taken longer than Seconds.
	FailedProbes int64 `json:"failedProbes,omitempty"`
}

// Awaited is a prober's answer to the request to wait for a state of the data path.
type Awaited struct {
	Service string  `json:"service"`         // namespace/name
	ID      string  `json:"id,omitempty"`    // of the request
	What    string  `json:"what"`            // "any": it answers; "refused": it refuses
	Seconds float64 `json:"seconds"`         // from the request to the first such probe
	Error   string  `json:"error,omitempty"` // not observed within the time limit; Seconds is then that limit
}

// Swap is a live change of proxier.
type Swap struct {
	From              string           `json:"from"`
	To                string           `json:"to"`
	Node              string           `json:"node,omitempty"` // empty: all nodes
	Seconds           float64          `json:"seconds"`        // from the stop of the old to the first complete sync of the new on the last node
	ConnectionsOpen   int              `json:"connectionsOpen"`
	ConnectionsBroken int              `json:"connectionsBroken"`      // of those, gone within the settling time after the swap
	RequestsFailed    int64            `json:"requestsFailed"`         // new ones, in the same window
	BrokenByKind      map[string]int64 `json:"brokenByKind,omitempty"` // "reset", "eof", "timeout"
	FailedByKind      map[string]int64 `json:"failedByKind,omitempty"`
	Leftovers         []string         `json:"leftovers,omitempty"` // what the old mode left behind after its clean-up
}

// Rules is how packets to a Service travelled through the rules of a node at that moment, in the proxier's own notation.
type Rules struct {
	Service string   `json:"service"` // namespace/name
	Node    string   `json:"node"`
	Proxier string   `json:"proxier"` // the one whose rules they are
	Lines   []string `json:"lines"`   // as "proxylab rules" prints them: each hop, and below it what it does, after a "#"
}

// Note is a sentence for the reader of the result: typically what could not be measured, and why.
type Note struct {
	Text string `json:"text"`
}
