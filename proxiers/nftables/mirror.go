package nftables

import (
	"proxylab/proxiers/services"
)

// mirror is what the table is believed to hold. Elements are not kept: they are rendered again from the ports, which
// share their memory with the snapshots.
type mirror struct {
	env    env
	ports  map[services.Key]*port
	owners owners
	groups map[group]int      // how many elements or groups lead to it
	shared map[sharedElem]int // how many ports ask for it
	counts [numStores]int     // elements; shared ones once
	render renderer
}

type sharedElem struct {
	in  store
	key string
}

func newMirror(e env) *mirror {
	return &mirror{env: e, ports: map[services.Key]*port{}, groups: map[group]int{}, shared: map[sharedElem]int{},
		owners: newOwners(func(*port) {})}
}

func (m *mirror) elements(p *port, e env) []element {
	m.render.env = e
	return m.render.render(p, func(d destination) bool { return m.owners.of[d] == p })
}

// refer counts how many lead to a group, and to those that it needs.
func (m *mirror) refer(g group, by int, changed func(group)) {
	if g.kind == groupNone {
		return
	}
	was := m.groups[g]
	m.groups[g] = was + by
	if was != 0 && was+by != 0 {
		return
	}
	changed(g)
	for _, n := range g.needs() {
		m.refer(n, by, changed)
	}
	if was+by == 0 {
		delete(m.groups, g)
	}
}

// share counts how many ports ask for a shared element. It says whether that made it come or go.
func (m *mirror) share(s sharedElem, by int) (changed bool) {
	was := m.shared[s]
	if m.shared[s] = was + by; was+by == 0 {
		delete(m.shared, s)
	}
	return was == 0 || was+by == 0
}

// expected is the number of rules of each chain.
func (m *mirror) expected() map[string]int {
	want := map[string]int{}
	for _, c := range statics(m.env) {
		want[c.name] = len(c.rules)
	}
	for g := range m.groups {
		c := g.chain(m.env)
		want[c.name] = len(c.rules)
	}
	return want
}

// objects are the totals for the sync report.
func (m *mirror) objects(add map[string]int) {
	for _, n := range m.expected() {
		add["rules"] += n
		add["chains"]++
	}
	add["maps"] += numMaps
	add["sets"] += int(numStores) - numMaps + 1
	for _, n := range m.counts {
		add["elements"] += n
	}
	add["services"] += m.counts[serviceIPs] + m.counts[noEndpointServices]
	for s := tcpEndpoints; s <= localSCTPEndpoints; s++ {
		add["destinations"] += m.counts[s]
	}
}

// tally counts everything that the ports ask for, in a mirror that has counted nothing yet.
func (m *mirror) tally() {
	for _, p := range m.ports {
		for _, e := range m.elements(p, m.env) {
			if e.in.shared() {
				if s := (sharedElem{e.in, e.key}); m.share(s, 1) {
					m.counts[e.in]++
				}
				continue
			}
			m.counts[e.in]++
			m.refer(e.leads, 1, func(group) {})
		}
	}
}
