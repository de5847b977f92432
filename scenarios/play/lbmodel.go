package play

import (
	"strings"
	"time"

	"proxylab/bench/events"
	"proxylab/lab/lbaas/octavia"
	"proxylab/lab/lbaas/plane"
)

// balancerModel is what the events tell of the load balancers.
type balancerModel struct {
	since     map[string]time.Time // of the present state, by ID and field
	balancers map[string]string    // ID -> name
	pools     map[string]string    // ID -> balancer
	members   map[string]member
}

type member struct {
	pool      string // ID
	operating string
	ready     bool // its provisioning is done
}

// Octavia's names of the two states.
const (
	provisioning = "provisioning_status"
	operating    = "operating_status"
)

func newBalancerModel() balancerModel {
	return balancerModel{since: map[string]time.Time{}, balancers: map[string]string{}, pools: map[string]string{}, members: map[string]member{}}
}

// change notes a state, and is what is logged of it.
func (m *balancerModel) change(at time.Time, s *octavia.State) *events.LBState {
	e := &events.LBState{
		Kind: s.Kind, ID: s.ID, Name: s.Name, Balancer: s.Balancer, Address: s.Address,
		Status: strings.TrimSuffix(s.Field, "_status"), From: s.From, To: s.To,
	}
	key := s.ID + " " + s.Field
	if since, known := m.since[key]; known && s.From != "" {
		e.Seconds = at.Sub(since).Seconds()
	}
	m.since[key] = at
	gone := s.To == "DELETED"
	if gone {
		delete(m.since, s.ID+" "+provisioning)
		delete(m.since, s.ID+" "+operating)
	}
	switch s.Kind {
	case "loadbalancer":
		note := m.balancers
		if note[s.ID] = s.Name; gone {
			delete(note, s.ID)
		}
	case "pool":
		if m.pools[s.ID] = s.Balancer; gone {
			delete(m.pools, s.ID)
		}
	case "member":
		e.Pool = s.Parent
		m.member(s, gone)
	}
	return e
}

func (m *balancerModel) member(s *octavia.State, gone bool) {
	if gone {
		delete(m.members, s.ID)
		return
	}
	is := m.members[s.ID]
	is.pool = s.Parent
	switch s.Field {
	case operating:
		is.operating = s.To
	case provisioning:
		is.ready = s.To == "ACTIVE"
	}
	m.members[s.ID] = is
}

// fewest is the number of members that take traffic in that pool of a Service's balancer which has the fewest; false: the
// Service has no balancer with a pool.
func (m *balancerModel) fewest(namespace, service string) (members int, ok bool) {
	counts := map[string]int{}
	for pool, balancer := range m.pools {
		if strings.HasSuffix(m.balancers[balancer], "_"+namespace+"_"+service) {
			counts[pool] = 0
		}
	}
	for _, is := range m.members {
		if _, ours := counts[is.pool]; ours && is.ready && (is.operating == plane.Online || is.operating == plane.NoMonitor) {
			counts[is.pool]++
		}
	}
	for _, n := range counts {
		if !ok || n < members {
			members, ok = n, true
		}
	}
	return members, ok
}
