package plane

import (
	"fmt"
	"slices"
	"time"
)

const (
	watchEvery = 50 * time.Millisecond
	// graceOfClose is how long an instance may take to end in good order.
	graceOfClose = 2 * time.Second
	maxBackoff   = 5 * time.Second
)

// state is what a Set knows; its one goroutine owns it.
type state struct {
	set     *Set
	want    map[string]Balancer // by ID; nil until the first apply
	order   []string            // IDs as they came
	version int64               // of want
	peers   map[string]*peer    // the running ones, by name
	retries map[string]int      // starts in a row that did not last
	waiters []waiter
	active  *peer // has or is getting the role
	failing *failing
	totals  totals
	ticked  time.Time
	closing bool
	begun   bool // an instance has had the role
}

// waiter is a call of Apply.
type waiter struct {
	version int64
	result  chan<- error
}

// failing is a failover that has begun.
type failing struct {
	event Failover
	since time.Time
	flows beat // of the dead one
}

func newState(s *Set) *state {
	return &state{set: s, peers: map[string]*peer{}, retries: map[string]int{}, totals: newTotals()}
}

func (st *state) activeName() string {
	if st.active == nil || st.active.role != Active {
		return ""
	}
	return st.active.name
}

// flows is what the active instance carried at its last sign of life.
func (st *state) flows() beat {
	if st.active == nil {
		return beat{}
	}
	return st.active.beat
}

func (st *state) standbyName() string {
	for _, name := range st.set.o.Names {
		if p := st.peers[name]; p != nil && p != st.active && p.heard && p.cause == "" && p.version == st.version {
			return name
		}
	}
	return ""
}

// apply takes the new desired state and sends the instances what is different.
func (st *state) apply(balancers []Balancer, result chan<- error) {
	old := st.want
	want, order := make(map[string]Balancer, len(balancers)), make([]string, 0, len(balancers))
	var p patch
	for _, b := range balancers {
		if _, twice := want[b.ID]; twice {
			result <- fmt.Errorf("apply balancers: %s is there twice", b.ID)
			return
		}
		was, known := old[b.ID]
		if !known || !was.equal(b) {
			was = b.clone()
			p.Set = append(p.Set, was)
		}
		want[b.ID] = was
		order = append(order, b.ID)
	}
	st.want, st.order = want, order
	for id := range old {
		if _, still := st.want[id]; !still {
			p.Delete = append(p.Delete, id)
			st.totals.forget(id)
		}
	}
	slices.Sort(p.Delete)
	if old != nil && len(p.Set)+len(p.Delete) == 0 && len(st.waiters) == 0 && st.activeName() != "" && st.active.version == st.version {
		result <- nil
		return
	}
	st.version++
	for _, peer := range st.peers {
		if peer.appliesSent() == 0 {
			st.sendWhole(peer)
		} else {
			peer.sendApply(message{Patch: &p}, st.version)
		}
	}
	st.waiters = append(st.waiters, waiter{st.version, result})
	st.choose()
}

func (st *state) sendWhole(p *peer) {
	whole := make([]Balancer, 0, len(st.order))
	for _, id := range st.order {
		whole = append(whole, st.want[id])
	}
	p.sendApply(message{Apply: &whole}, st.version)
}

// choose gives the role to an instance if none has it: at the beginning to the first of them, later to the first that is
// there.
func (st *state) choose() {
	if st.active != nil || st.closing {
		return
	}
	for _, name := range st.set.o.Names {
		p := st.peers[name]
		if p != nil && p.heard && p.cause == "" {
			st.active, st.begun = p, true
			p.send(message{Role: Active})
			return
		}
		if p != nil && !st.begun {
			return // it is starting
		}
	}
}

// settle answers the calls of Apply that the active instance has caught up with.
func (st *state) settle() {
	if st.activeName() == "" {
		return
	}
	st.waiters = slices.DeleteFunc(st.waiters, func(w waiter) bool {
		reached := st.active.version >= w.version
		if reached {
			w.result <- nil
		}
		return reached
	})
}

// heard takes a line of an instance.
func (st *state) heard(p *peer, r report) {
	if st.peers[p.name] != p {
		return // a line that its end overtook
	}
	p.lastSeen = time.Now()
	if !p.heard {
		p.heard = true
		st.choose()
		if st.active != p && st.activeName() != "" {
			st.active.send(message{Tell: true})
		}
	}
	if r.Beat != nil {
		p.beat = *r.Beat
	}
	if r.Applied > 0 {
		p.reached(r.Applied)
	}
	if r.Role != "" {
		p.role = r.Role
		if p == st.active && r.Role == Active {
			st.established(r.Kept)
		}
	}
	if p == st.active {
		st.publish(p, r.Status)
		st.teach(p, r.Learned)
	}
	st.settle()
}

func (st *state) publish(p *peer, statuses []Status) {
	for _, status := range statuses {
		if _, wanted := st.want[status.ID]; !wanted {
			continue
		}
		status.Instance = p.name
		st.set.statuses.put(st.totals.add(status))
	}
}

// teach passes on what the active instance has decided.
func (st *state) teach(from *peer, decisions []learned) {
	if len(decisions) == 0 {
		return
	}
	for _, p := range st.peers {
		if p != from {
			p.send(message{Learn: decisions})
		}
	}
}

// established ends a failover.
func (st *state) established(kept int64) {
	st.set.o.Log.Info("load balancer instance is active", "instance", st.active.name)
	if st.failing == nil {
		return
	}
	e := st.failing.event
	e.To = st.active.name
	e.Seconds = time.Since(st.failing.since).Seconds()
	e.FlowsKept = min(kept, st.failing.flows.UDP)
	e.FlowsLost = st.failing.flows.TCP + st.failing.flows.UDP - e.FlowsKept
	st.failing = nil
	st.set.events.put(e)
}
