// Package dialer asks backends of package echo who they are, from wherever its process runs.
//
// "proxylab dial" is started once at each place of a lab (a pod, a node, the outside) and then takes requests as JSON
// lines on standard input and answers them, in the order in which they are done, as JSON lines on standard output:
// starting a process for every connection would cost more than all else that a behaviour does.
package dialer

import (
	"net/netip"
	"time"
)

// Verb is what a request asks for.
type Verb string

// The verbs.
const (
	// Dial makes Count new connections (or sends that many datagrams from new sockets), Parallel at a time, and closes
	// each once it knows who answered.
	Dial Verb = "dial"
	// Until dials one after the other until the pod Name answers, or Within is over; only the last attempt is told.
	Until Verb = "until"
	// Open opens the connection or flow called Flow and leaves it open. Of UDP nothing is sent yet.
	Open Verb = "open"
	// Say sends something through Flow and waits for it to come back.
	Say Verb = "say"
	// Steady dials every Every, under the name Flow, until Close; that one's answer is the tally.
	Steady Verb = "steady"
	// Close closes what is called Flow.
	Close Verb = "close"
	// Scan connects to each port from FromPort to LastPort of To's address and tells which accept.
	Scan Verb = "scan"
	// Serve listens at To, as a pod called Name would, until Flow is closed.
	Serve Verb = "serve"
	// Disturb waits for a TCP packet that this place sends from port To.Port() and sends it again, with a sequence number
	// far outside the window: what conntrack calls invalid.
	Disturb Verb = "disturb"
)

// Networks that requests name.
const (
	TCP  = "tcp"
	UDP  = "udp"
	SCTP = "sctp"
	HTTP = "http" // HTTP/1.1 with a connection of its own for each request, closed by the server first
)

// Request is one line of input.
type Request struct {
	ID      int64          `json:"id"`
	Do      Verb           `json:"do"`
	Network string         `json:"network,omitempty"`
	To      netip.AddrPort `json:"to,omitzero"`
	// From is the source address; zero: the kernel's choice. Source ports go from FromPort to LastPort, by turns; 0: any.
	From     netip.Addr `json:"from,omitzero"`
	FromPort uint16     `json:"fromPort,omitempty"`
	LastPort uint16     `json:"lastPort,omitempty"`

	Count    int `json:"count,omitempty"`    // 0: 1
	Parallel int `json:"parallel,omitempty"` // 0: 1
	// Dial makes no more attempts than Least when each of Names has answered; without Names always Count.
	Names []string `json:"names,omitempty"`
	Least int      `json:"least,omitempty"`

	Every   time.Duration `json:"every,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"` // of one attempt; 0: two seconds
	Within  time.Duration `json:"within,omitempty"`
	Flow    string        `json:"flow,omitempty"`
	Name    string        `json:"name,omitempty"`
	Path    string        `json:"path,omitempty"`  // of HTTP; empty: /
	Abort   bool          `json:"abort,omitempty"` // end TCP connections by a reset, which leaves nothing waiting
}

// Answer is one line of output.
type Answer struct {
	ID int64 `json:"id"`
	// Error is why the request could not be carried out at all: a mistake, or something that this machine lacks.
	Error string `json:"error,omitempty"`
	// Lacks: Error is about what the kernel lacks.
	Lacks bool `json:"lacks,omitempty"`
	Tally
	Open []uint16 `json:"open,omitempty"` // ports found by Scan
}

// Tally says what a number of attempts met.
type Tally struct {
	Pods     map[string]int `json:"pods,omitempty"`     // who answered
	Failures map[string]int `json:"failures,omitempty"` // how it failed: see Kind
	Seen     map[string]int `json:"seen,omitempty"`     // client addresses that backends saw
	Status   map[int]int    `json:"status,omitempty"`   // HTTP status codes
	Said     string         `json:"said,omitempty"`     // the text of one failure, or the body of one HTTP answer
	Seconds  []float64      `json:"seconds,omitempty"`  // from the start of each attempt to its connection or failure
	// Resent: attempts that the first SYN or datagram had not been enough for. Where all were refused, it is the number of
	// SYNs that this place sent again meanwhile, whoever did.
	Resent int `json:"resent,omitempty"`
}

// Total is the number of attempts.
func (t Tally) Total() int {
	n := 0
	for _, c := range t.Pods {
		n += c
	}
	for _, c := range t.Failures {
		n += c
	}
	return n
}

// Failed is the number of attempts that failed.
func (t Tally) Failed() int {
	n := 0
	for _, c := range t.Failures {
		n += c
	}
	return n
}

// add counts one attempt.
func (t *Tally) add(m met) {
	count := func(counts *map[string]int, key string) {
		if *counts == nil {
			*counts = map[string]int{}
		}
		(*counts)[key]++
	}
	t.Seconds = append(t.Seconds, m.took.Seconds())
	if m.resent {
		t.Resent++
	}
	if m.err != nil {
		count(&t.Failures, Kind(m.err))
		if t.Said == "" {
			t.Said = m.err.Error()
		}
		return
	}
	count(&t.Pods, m.pod)
	if m.client.IsValid() {
		count(&t.Seen, m.client.Addr().String())
	}
	if m.status != 0 {
		if t.Status == nil {
			t.Status = map[int]int{}
		}
		t.Status[m.status]++
	}
	if m.body != "" {
		t.Said = m.body
	}
}

// met is what one attempt met.
type met struct {
	pod    string
	client netip.AddrPort
	status int
	body   string
	took   time.Duration
	resent bool
	unsent bool // nothing was sent, since the answer was there
	err    error
}
