package octavia

import (
	"context"
	"net/netip"
	"time"
)

// Clock is the time of a Service.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d. Stop forgets it, if it has not begun.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// RealClock is the machine's.
type RealClock struct{}

// Now is time.Now.
func (RealClock) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (RealClock) AfterFunc(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// Network gives and takes VIP ports. Its methods are called without any lock held, and side by side.
type Network interface {
	// Allocate makes the port of a VIP, or takes one that exists when PortID is set. An *Error is answered as it is.
	Allocate(context.Context, VIPRequest) (VIP, error)
	// Release ends what Allocate has made.
	Release(context.Context, VIP) error
}

// VIPRequest says what is known of a VIP before it has a port; at least one of the three IDs is there.
type VIPRequest struct {
	Balancer, Name, Project     string
	PortID, SubnetID, NetworkID string
	Address                     netip.Addr // zero: any
	Additional                  bool       // one of additional_vips
}

// VIP is an address with its port.
type VIP struct {
	Address   netip.Addr `json:"address"`
	PortID    string     `json:"port_id"`
	SubnetID  string     `json:"subnet_id,omitempty"`
	NetworkID string     `json:"network_id,omitempty"`
	// Adopted ports were there before the balancer.
	Adopted bool `json:"adopted,omitempty"`
}

// Operation is a write that is being provisioned.
type Operation struct {
	// Name is the API's, as OperationOf gives it: "loadbalancer.create", "member.batch_update", ...
	Name     string
	Balancer string // ID
	Resource string // ID of what was written; for a batch of members the pool's
	Project  string
}

// Fault decides what becomes of operations.
type Fault interface {
	// Provision is asked once when an operation's delay is over. It must not block.
	Provision(Operation) Outcome
}

// Outcome is what a Fault wants. The zero value lets the operation end as it should.
type Outcome struct {
	Hold    time.Duration // stays PENDING that much longer
	Forever bool          // stays PENDING until Settle
	Error   bool          // ends in ERROR, without the data plane having heard of it
}

// Event is one thing that happened: a call or a change of state; the other one is nil.
type Event struct {
	Time  time.Time `json:"time"`
	Call  *Call     `json:"call,omitempty"`
	State *State    `json:"state,omitempty"`
}

// Call is an answered request.
type Call struct {
	Operation string  `json:"operation"` // "" for a path that is none of the API's
	Method    string  `json:"method"`
	Path      string  `json:"path"`
	Status    int     `json:"status"`
	Seconds   float64 `json:"seconds"`
	Project   string  `json:"project,omitempty"`
}

// State is a change of a state.
type State struct {
	Kind     string `json:"kind"` // loadbalancer, listener, pool, member, healthmonitor, l7policy, rule
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Balancer string `json:"balancer"`
	Parent   string `json:"parent,omitempty"`  // of a member: its pool; of a listener or pool: its balancer
	Address  string `json:"address,omitempty"` // where it is found, as far as it is
	Field    string `json:"field"`             // provisioning_status or operating_status
	From     string `json:"from,omitempty"`
	To       string `json:"to"` // DELETED: it is gone
}
