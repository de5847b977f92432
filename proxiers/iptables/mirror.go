package iptables

import (
	"hash/maphash"
	"time"

	"proxylab/proxiers/services"
)

// mirror is what one family's tables are believed to hold of ours. It is only ever changed after a restore succeeded.
type mirror struct {
	valid     bool // false: nothing is known, the next pass writes everything
	env       env
	ports     map[services.Key]*portState
	endpoints int            // sum of the ports' counts
	shared    [numShared]int // rules of Service ports in the shared chains
	chains    int            // chains of single ports
	rules     int            // rules in these
	whole     time.Time      // when everything was written last
}

// portState is what one Service port has in the tables. Texts of its own chains are kept as hashes: they are compared
// and counted, never printed again.
type portState struct {
	shared    []sharedRule
	chains    []chainState
	endpoints int
}

type chainState struct {
	name  string
	hash  uint64
	rules int
}

var hashSeed = maphash.MakeSeed()

// state copies what the renderer holds.
func (r *renderer) state() *portState {
	s := &portState{
		shared:    append(make([]sharedRule, 0, len(r.shared)), r.shared...),
		chains:    make([]chainState, len(r.chains)),
		endpoints: endpointCount(r.sp),
	}
	for i, c := range r.chains {
		s.chains[i] = chainState{c.name, maphash.Bytes(hashSeed, r.text[c.start:c.end]), c.n}
	}
	return s
}

// chain finds a chain by name; ports have few of them.
func (s *portState) chain(name string) (chainState, bool) {
	if s != nil {
		for _, c := range s.chains {
			if c.name == name {
				return c, true
			}
		}
	}
	return chainState{}, false
}

// set replaces the state of a port; nil: it is gone.
func (m *mirror) set(k services.Key, s *portState) {
	m.count(m.ports[k], -1)
	m.count(s, 1)
	if s == nil {
		delete(m.ports, k)
	} else {
		m.ports[k] = s
	}
}

func (m *mirror) count(s *portState, sign int) {
	if s == nil {
		return
	}
	m.endpoints += sign * s.endpoints
	m.chains += sign * len(s.chains)
	for _, c := range s.chains {
		m.rules += sign * c.rules
	}
	for _, r := range s.shared {
		m.shared[r.chain] += sign
	}
}

// expected is the number of rules of each of our chains in a table.
func (m *mirror) expected(table string) map[string]int {
	want := map[string]int{}
	for _, c := range m.env.statics() {
		if c.table == table {
			want[c.name] = len(c.rules)
		}
	}
	for c, n := range m.shared {
		if sharedChain(c).inNat() == (table == tableNat) {
			want[sharedNames[c]] = n
		}
	}
	if table == tableNat {
		want[chainServices]++ // the tail
		for _, s := range m.ports {
			for _, c := range s.chains {
				want[c.name] = c.rules
			}
		}
	}
	return want
}

// objects are the totals for the sync report.
func (m *mirror) objects() (rules, chains int) {
	if !m.valid {
		return 0, 0
	}
	rules, chains = m.rules+1, m.chains+int(numShared) // the tail
	for _, n := range m.shared {
		rules += n
	}
	for _, c := range m.env.statics() {
		chains++
		rules += len(c.rules)
	}
	return rules, chains
}
