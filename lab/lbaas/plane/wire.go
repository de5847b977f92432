package plane

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"sync"
)

// Roles of an instance.
const (
	Active  = "active"  // owns the VIPs and carries traffic
	Standby = "standby" // knows the balancers and asks their members, and waits
)

// message is one line that an instance reads. Exactly one field is set.
type message struct {
	Apply *[]Balancer `json:"apply,omitempty"` // the whole desired state
	Patch *patch      `json:"patch,omitempty"` // what is different from the state before; counts as an apply
	Role  string      `json:"role,omitempty"`
	Learn []learned   `json:"learn,omitempty"` // what the other instance has decided
	Tell  bool        `json:"tell,omitempty"`  // report all such decisions: there is an instance that knows none
}

// patch changes the desired state.
type patch struct {
	Set    []Balancer `json:"set,omitempty"`
	Delete []string   `json:"delete,omitempty"` // IDs
}

// report is one line that an instance writes.
type report struct {
	Status  []Status  `json:"status,omitempty"`  // of the balancers that changed; each is whole
	Applied int64     `json:"applied,omitempty"` // the N-th apply or patch is in effect
	Role    string    `json:"role,omitempty"`    // is in effect: for active, its sockets listen
	Kept    int64     `json:"kept,omitempty"`    // with role active: UDP flows that go on at their members
	Beat    *beat     `json:"beat,omitempty"`    // a sign of life, ten times a second
	Learned []learned `json:"learned,omitempty"` // decisions that the other instance should know
}

// beat is what an instance carries at the moment.
type beat struct {
	TCP int64 `json:"tcp"` // established connections
	UDP int64 `json:"udp"` // flows
}

// learned is a decision that lasts: where a client goes. Exactly one of Pool and Listener is set: a pool's persistence,
// or a UDP flow of a listener.
type learned struct {
	Pool     string         `json:"pool,omitempty"`
	Listener string         `json:"listener,omitempty"`
	VIP      netip.Addr     `json:"vip,omitzero"`    // of a flow
	Client   netip.AddrPort `json:"client,omitzero"` // of persistence by source: port 0
	Cookie   string         `json:"cookie,omitempty"`
	Member   string         `json:"member,omitempty"` // ID; "": the decision has lapsed
}

// lineWriter writes JSON lines, one at a time.
type lineWriter struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func newLineWriter(w io.Writer) *lineWriter { return &lineWriter{enc: json.NewEncoder(w)} }

func (w *lineWriter) write(v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.enc.Encode(v); err != nil {
		return fmt.Errorf("write to the orchestrator: %w", err)
	}
	return nil
}
