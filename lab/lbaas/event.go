package lbaas

import "time"

// Event is something that happened, as the admin endpoint's stream and Options.Events tell it. Exactly one of the pointers is set.
type Event struct {
	Time     time.Time      `json:"time"`
	Call     *CallEvent     `json:"call,omitempty"`
	State    *StateEvent    `json:"state,omitempty"`
	Fault    *FaultEvent    `json:"fault,omitempty"`
	Failover *FailoverEvent `json:"failover,omitempty"`
}

// CallEvent is an API request that was answered, or dropped.
type CallEvent struct {
	Service   string  `json:"service"`   // identity, load-balancer, network
	Operation string  `json:"operation"` // such as loadbalancer.create
	Method    string  `json:"method"`
	Path      string  `json:"path"`   // with its query
	Status    int     `json:"status"` // 0: the connection was dropped
	Seconds   float64 `json:"seconds"`
	Project   string  `json:"project,omitempty"`
	User      string  `json:"user,omitempty"`
	Client    string  `json:"client,omitempty"` // User-Agent
	Fault     string  `json:"fault,omitempty"`  // name of the fault that struck it
}

// StateEvent is a resource of Octavia whose status changed.
type StateEvent struct {
	Kind         string `json:"kind"` // loadbalancer, listener, ...
	ID           string `json:"id"`
	Name         string `json:"name,omitempty"`
	LoadBalancer string `json:"loadbalancer,omitempty"` // ID of the one it belongs to
	Provisioning string `json:"provisioning"`           // DELETED: it is gone
	Operating    string `json:"operating"`
}

// FaultEvent is a fault that was put on or off, or did something by itself.
type FaultEvent struct {
	Name   string `json:"name"`
	What   string `json:"what"` // on, off, strike, edit, delete, down, up, kill
	Target string `json:"target,omitempty"`
}

// FailoverEvent is VIPs that moved from an instance to another.
type FailoverEvent struct {
	From      string  `json:"from"`
	To        string  `json:"to,omitempty"`
	Seconds   float64 `json:"seconds"`
	FlowsLost int     `json:"flowsLost"`
	FlowsKept int     `json:"flowsKept"`
}
