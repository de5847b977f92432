package lbaas

import (
	"time"

	"proxylab/lab/lbaas/octavia"
	"proxylab/lab/lbaas/plane"
)

// Event is something that happened, as the admin endpoint's stream and Options.Events tell it. Exactly one of the others is set
// besides Time.
type Event struct {
	Time     time.Time       `json:"time"`
	Call     *Call           `json:"call,omitempty"`
	State    *octavia.State  `json:"state,omitempty"`
	Fault    *Fault          `json:"fault,omitempty"`
	Failover *plane.Failover `json:"failover,omitempty"`
	Problem  *Problem        `json:"problem,omitempty"`
	// Dropped is how many events a reader that was too slow has missed.
	Dropped int `json:"dropped,omitempty"`
}

// Call is an API request that was answered, or dropped.
type Call struct {
	Service   string  `json:"service"` // identity, load-balancer, network
	Operation string  `json:"operation,omitempty"`
	Method    string  `json:"method"`
	Path      string  `json:"path"`   // with its query, as it was asked for
	Status    int     `json:"status"` // 0: the connection was closed without an answer
	Seconds   float64 `json:"seconds"`
	Project   string  `json:"project,omitempty"` // id
	User      string  `json:"user,omitempty"`    // name
	Client    string  `json:"client,omitempty"`  // User-Agent
	Fault     string  `json:"fault,omitempty"`   // name of the fault that struck it
}

// Fault is a fault that was put on or off, or did something.
type Fault struct {
	Name   string `json:"name"`
	What   string `json:"what"` // on, off, strike, edit, delete, down, up, kill, settle, failed
	Target string `json:"target,omitempty"`
}

// Problem is a listener that does not carry traffic, though it should.
type Problem struct {
	LoadBalancer string `json:"loadbalancer"`
	Listener     string `json:"listener"`
	Text         string `json:"text,omitempty"` // "": it does again
}
