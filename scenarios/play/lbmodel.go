package play

import (
	"strings"
	"time"

	"proxylab/bench/events"
	"proxylab/lab/lbaas/octavia"
	"proxylab/lab/lbaas/plane"
)

// balancerModel is what the events tell of the load balancers. There may be a thousand pools with twenty members each, and
// several changes of each of them.
type balancerModel struct {
	since    map[string]time.Time // of the present state, by ID and field
	services map[string]string    // ID of a balancer -> namespace/name of its Service
	pools    map[string]*pool
	members  map[string]member
}

type pool struct {
	balancer  string // ID
	taking    int    // members that take traffic, by their operating state
	silent    int    // members that are provisioned, of whose operating state nothing was told
	monitored bool
}

// members is how many take traffic: where nobody asks them, all do.
func (p pool) members() int {
	if p.monitored {
		return p.taking
	}
	return p.taking + p.silent
}

type member struct {
	pool      string // ID
	operating string
	ready     bool // its provisioning is done
}

// counted is the counter of a pool that it counts in; nil: in none.
func (m member) counted(p *pool) *int {
	switch {
	case !m.ready:
	case m.operating == plane.Online, m.operating == plane.NoMonitor:
		return &p.taking
	case m.operating == "":
		return &p.silent
	}
	return nil
}

// Octavia's names of the two states.
const (
	provisioning = "provisioning_status"
	operating    = "operating_status"
)

func newBalancerModel() balancerModel {
	return balancerModel{since: map[string]time.Time{}, services: map[string]string{}, pools: map[string]*pool{}, members: map[string]member{}}
}

// serviceOf is the Service that a balancer of that name is for: kube_service_CLUSTER_NAMESPACE_SERVICE.
func serviceOf(balancer string) string {
	parts := strings.Split(balancer, "_")
	if len(parts) < 5 {
		return ""
	}
	return parts[len(parts)-2] + "/" + parts[len(parts)-1]
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
		if m.services[s.ID] = serviceOf(s.Name); gone {
			delete(m.services, s.ID)
		}
	case "pool":
		if m.pool(s.ID).balancer = s.Balancer; gone {
			delete(m.pools, s.ID)
		}
	case "healthmonitor":
		m.pool(s.Parent).monitored = !gone
	case "member":
		e.Pool = s.Parent
		m.member(s, gone)
	}
	return e
}

// pool finds or makes one: its members may be told of first.
func (m *balancerModel) pool(id string) *pool {
	if m.pools[id] == nil {
		m.pools[id] = &pool{}
	}
	return m.pools[id]
}

func (m *balancerModel) member(s *octavia.State, gone bool) {
	was := m.members[s.ID]
	is := was
	is.pool = s.Parent
	switch {
	case gone:
		is = member{}
	case s.Field == operating:
		is.operating = s.To
	case s.Field == provisioning:
		is.ready = s.To == "ACTIVE"
	}
	pool := m.pool(s.Parent)
	if n := was.counted(pool); n != nil {
		*n--
	}
	if n := is.counted(pool); n != nil {
		*n++
	}
	if m.members[s.ID] = is; gone {
		delete(m.members, s.ID)
	}
}

// fewest is, for each Service whose balancer has a pool, the number of members that take traffic in that pool of it which has
// the fewest.
func (m *balancerModel) fewest() map[string]int {
	counts := map[string]int{}
	for _, p := range m.pools {
		service, ok := m.services[p.balancer]
		if !ok {
			continue
		}
		if n, there := counts[service]; !there || p.members() < n {
			counts[service] = p.members()
		}
	}
	return counts
}
