// Package report turns the log of a run into what people and programs read: the result, as JSON, as a table, as
// JUnit's XML and in Go's benchmark format.
//
// Everything here is a pure function of the log. Durations are seconds and sizes are bytes, and the names say so.
// What was not measured is absent from the result (nil here), never 0.
package report

import (
	"time"

	"proxylab/bench/events"
)

// Outcomes of a run. The first three are what the log says; a log that does not say was cut off.
const (
	Done        = "done"
	Interrupted = "interrupted"
	Failed      = "failed"
	CutOff      = "cut off"
)

// Result is what a run found: result.json.
type Result struct {
	Run          Run        `json:"run"`
	Subjects     []*Subject `json:"subjects"` // in the order in which they were played
	Expectations []Verdict  `json:"expectations"`
	Notes        []string   `json:"notes"` // what could not be measured, and why; what to know when reading the figures
}

// Run is what was played, where.
type Run struct {
	ID          string        `json:"id"`
	Scenario    string        `json:"scenario"`
	Lab         string        `json:"lab"`
	Kernel      events.Kernel `json:"kernel"`
	CPUs        int           `json:"cpus"`
	Started     *time.Time    `json:"started,omitempty"`
	Ended       *time.Time    `json:"ended,omitempty"` // absent: the log was cut off
	Version     string        `json:"version"`         // of proxylab
	Outcome     string        `json:"outcome"`         // "done", "interrupted", "failed", "cut off"
	Error       string        `json:"error,omitempty"`
	Proxiers    []string      `json:"proxiers"` // asked for, in the order of play
	Repeat      int           `json:"repeat,omitempty"`
	Environment []string      `json:"environment,omitempty"`
}

// Subject is what was measured of one proxier in one repetition.
type Subject struct {
	Proxier    string     `json:"proxier"`
	Backend    string     `json:"backend,omitempty"` // rule back end, where there is a choice: "legacy", "nft"
	Repetition int        `json:"repetition"`        // from 1
	Started    *time.Time `json:"started,omitempty"`
	Ended      *time.Time `json:"ended,omitempty"` // absent: not played to its end
	Error      string     `json:"error,omitempty"` // what kept it from being played to its end
	Steps      []Step     `json:"steps,omitempty"`

	Loads              map[string]*Load `json:"loads"` // "x/direct" is x without a proxier in the way
	Sync               *Sync            `json:"sync,omitempty"`
	ProgrammingSeconds *Programming     `json:"programmingSeconds,omitempty"`
	Swap               []Swap           `json:"swap,omitempty"`
	ProxierUsage       *Usage           `json:"proxierUsage,omitempty"`
	SoftirqSeconds     *float64         `json:"softirqSeconds,omitempty"` // the kernel's network time on the whole machine
	FirstPacketSeconds *FirstPacket     `json:"firstPacketSeconds,omitempty"`
	LBaaS              *LBaaS           `json:"lbaas,omitempty"`
}

// Step is how a step of the scenario went.
type Step struct {
	Index   int      `json:"index"` // from 0
	Kind    string   `json:"kind"`
	Text    string   `json:"text"`
	Seconds *float64 `json:"seconds,omitempty"` // absent: it did not end
	Error   string   `json:"error,omitempty"`
}

// Load is what one load met. Requests and what is counted beside them are absent when no tick of it was logged.
type Load struct {
	Kind        string  `json:"kind,omitempty"` // "http", "connect", "udp", "stream", "hold"
	Target      string  `json:"target,omitempty"`
	From        string  `json:"from,omitempty"`
	Connections string  `json:"connections,omitempty"`           // "new", "keepalive"
	Intended    float64 `json:"intendedRatePerSecond,omitempty"` // absent where the kind has no rate
	Count       int     `json:"count,omitempty"`                 // connections held, or parallel streams
	Seconds     float64 `json:"seconds,omitempty"`               // how long it was measured

	Requests     *int64           `json:"requests,omitempty"` // ended, errors included
	Errors       *int64           `json:"errors,omitempty"`
	ErrorsByKind map[string]int64 `json:"errorsByKind,omitempty"`
	Late         *int64           `json:"late,omitempty"` // sent over 10 ms after due because the generator was busy

	Rate          *float64         `json:"rate,omitempty"`           // requests per second, errors included
	ThroughputBps *float64         `json:"throughputBps,omitempty"`  // payload bytes per second
	Latency       *Latency         `json:"latencySeconds,omitempty"` // of requests that succeeded, from when they were due
	Connect       *Latency         `json:"connectSeconds,omitempty"` // to an established connection
	Endpoints     map[string]int64 `json:"endpoints,omitempty"`      // pod that answered -> requests
	Sources       map[string]int64 `json:"sources,omitempty"`        // connect: address that pods saw as the client's -> connections
	OpenMax       *int             `json:"openMax,omitempty"`        // hold: most connections open at once
	OpenLast      *int             `json:"openLast,omitempty"`       // hold: open at the end of its last tick
	Error         string           `json:"error,omitempty"`          // why the generator itself failed
}

// Latency is a distribution of seconds.
type Latency struct {
	P50     float64 `json:"p50"`
	P90     float64 `json:"p90"`
	P99     float64 `json:"p99"`
	P999    float64 `json:"p999"`
	Max     float64 `json:"max"`
	Mean    float64 `json:"mean"`
	Samples int64   `json:"samples"`
}

// Sync is the passes of the subject's proxier on all nodes, without those of another that took over in a live swap.
// Seconds are those of passes that succeeded.
type Sync struct {
	Count    int          `json:"count"`
	Full     int          `json:"full"`
	Partial  int          `json:"partial"`
	Failures int          `json:"failures"`
	Seconds  *SyncSeconds `json:"seconds,omitempty"`
	// CPUSeconds is the processor time that passes reported, user and system, of the proxier's process tree.
	CPUSecondsPerSync *float64 `json:"cpuSecondsPerSync,omitempty"`
	CPUSeconds        *float64 `json:"cpuSeconds,omitempty"`
	// Objects are what the kernel of a node held in the end; of several nodes, the most.
	Objects map[string]int `json:"objects,omitempty"`
}

// SyncSeconds is how long passes took.
type SyncSeconds struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Programming is the time from an API change to the data path obeying, in seconds: of all changes, and of those that
// added and removed an endpoint. A change that was not observed within the prober's time limit counts with that limit.
type Programming struct {
	ProgrammingSamples
	Unobserved        int                 `json:"unobserved,omitempty"`
	ResolutionSeconds float64             `json:"resolutionSeconds,omitempty"` // widest spacing of the probes
	Added             *ProgrammingSamples `json:"added,omitempty"`
	Removed           *ProgrammingSamples `json:"removed,omitempty"`
}

// ProgrammingSamples is a distribution of latencies, in seconds.
type ProgrammingSamples struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
}

// Swap is one live change of proxier.
type Swap struct {
	From              string           `json:"from"`
	To                string           `json:"to"`
	Node              string           `json:"node,omitempty"` // absent: all nodes
	Seconds           float64          `json:"seconds"`
	ConnectionsOpen   int              `json:"connectionsOpen"`
	ConnectionsBroken int              `json:"connectionsBroken"`
	BrokenByKind      map[string]int64 `json:"brokenByKind,omitempty"`
	RequestsFailed    int64            `json:"requestsFailed"`
	FailedByKind      map[string]int64 `json:"failedByKind,omitempty"`
	Leftovers         []string         `json:"leftovers,omitempty"`
}

// Usage is what the subject's proxier cost, on all nodes together, without what another cost that took over in a live
// swap: processor time is summed over all its processes, the memory is the most that one of them took.
type Usage struct {
	CPUSeconds  float64 `json:"cpuSeconds"`
	MaxRSSBytes int64   `json:"maxRssBytes"`
}

// FirstPacket is the time from a connection's SYN to its first reply as the kernel saw it, in seconds.
type FirstPacket struct {
	P01     float64 `json:"p01"`
	P50     float64 `json:"p50"`
	P90     float64 `json:"p90"`
	P99     float64 `json:"p99"`
	Samples int64   `json:"samples"`
}

// Verdict says whether an expectation held for a subject.
type Verdict struct {
	Name       string   `json:"name"` // as the scenario has it: "load.web.latency.p99 < 50ms"
	Proxier    string   `json:"proxier"`
	Backend    string   `json:"backend,omitempty"`
	Repetition int      `json:"repetition"`
	Holds      bool     `json:"holds"`
	Got        string   `json:"got"`             // "12.3ms", or why there is none: "no samples: ..."
	Want       string   `json:"want"`            // "< 50ms"
	Value      *float64 `json:"value,omitempty"` // what was got, in SI units
}
