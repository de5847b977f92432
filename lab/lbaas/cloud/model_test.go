package cloud

import (
	"encoding/json"
	"fmt"
	"slices"
)

// model makes steps on plain data, as Octavia would.
type model struct {
	have
	next int
}

func (m *model) id(kind string) string {
	m.next++
	return fmt.Sprintf("%s%d", kind, m.next)
}

// madeFrom is what there is after a balancer was made as wanted.
func madeFrom(w want) *model {
	m := &model{have: have{Balancer: haveBalancer{ID: "lb", Name: w.Balancer.Name, Status: "ACTIVE", AdminUp: true, Tags: slices.Clone(w.Balancer.Tags)}}}
	for _, l := range w.Listeners {
		m.listener(l)
	}
	return m
}

func (m *model) listener(l wantListener) *haveListener {
	h := haveListener{ID: m.id("l"), AdminUp: true, wantListener: l}
	h.DefaultPoolID = m.pool(*l.Pool)
	h.Pool = nil
	m.Listeners = append(m.Listeners, h)
	return &m.Listeners[len(m.Listeners)-1]
}

func (m *model) pool(p wantPool) string {
	h := havePool{ID: m.id("p"), AdminUp: true, wantPool: p}
	for _, w := range p.Members {
		h.Members = append(h.Members, haveMember{ID: m.id("m"), AdminUp: true, wantMember: w})
	}
	if p.Monitor != nil {
		h.Monitor = &haveMonitor{ID: m.id("hm"), AdminUp: true, wantMonitor: *p.Monitor}
	}
	m.Pools = append(m.Pools, h)
	return h.ID
}

func at[T any](all []T, id string, of func(T) string) *T {
	i := slices.IndexFunc(all, func(x T) bool { return of(x) == id })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (m *model) listenerAt(id string) *haveListener {
	return at(m.Listeners, id, func(l haveListener) string { return l.ID })
}

func (m *model) poolAt(id string) *havePool {
	return at(m.Pools, id, func(p havePool) string { return p.ID })
}

// set puts fields into an object by their names.
func set(object any, p patch) {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(b, object); err != nil {
		panic(err)
	}
}

func (m *model) do(s step) error {
	switch s.Kind {
	case updateBalancer:
		set(&m.Balancer, s.Patch)
	case createListener:
		for _, l := range m.Listeners {
			if socket(l.Protocol, l.Port) == socket(s.Listener.Protocol, s.Listener.Port) {
				return fmt.Errorf("%s: the port is taken", s)
			}
		}
		m.listener(*s.Listener)
	case updateListener:
		l := m.listenerAt(s.ID)
		if _, ok := s.Patch["allowed_cidrs"]; ok {
			l.AllowedCIDRs = nil
		}
		if _, ok := s.Patch["insert_headers"]; ok {
			l.InsertHeaders = nil
		}
		set(l, s.Patch)
	case deleteListener:
		m.Listeners = slices.DeleteFunc(m.Listeners, func(l haveListener) bool { return l.ID == s.ID })
	case createPool:
		if p := m.listenerAt(s.ID).DefaultPoolID; p != "" && m.poolAt(p) != nil {
			return fmt.Errorf("%s: the listener has one", s)
		}
		m.listenerAt(s.ID).DefaultPoolID = m.pool(*s.Pool)
	case replacePool:
		m.listenerAt(s.ID).DefaultPoolID = m.pool(*s.Pool)
	case updatePool:
		p := m.poolAt(s.ID)
		if _, ok := s.Patch["session_persistence"]; ok {
			p.Persistence = nil
		}
		set(p, s.Patch)
	case deletePool:
		m.Pools = slices.DeleteFunc(m.Pools, func(p havePool) bool { return p.ID == s.ID })
	case setMembers:
		m.setMembers(m.poolAt(s.ID), *s.Members)
	case createMonitor:
		p := m.poolAt(s.ID)
		if p.Monitor != nil {
			return fmt.Errorf("%s: the pool has one", s)
		}
		p.Monitor = &haveMonitor{ID: m.id("hm"), AdminUp: true, wantMonitor: *s.Monitor}
	case updateMonitor:
		for i := range m.Pools {
			if h := m.Pools[i].Monitor; h != nil && h.ID == s.ID {
				set(h, s.Patch)
			}
		}
	case deleteMonitor:
		for i := range m.Pools {
			if h := m.Pools[i].Monitor; h != nil && h.ID == s.ID {
				m.Pools[i].Monitor = nil
			}
		}
	}
	return nil
}

// setMembers is a batch: who is known by address and port keeps what the batch does not mention.
func (m *model) setMembers(p *havePool, c memberChange) {
	var now []haveMember
	for _, b := range c.All {
		h := haveMember{ID: m.id("m"), AdminUp: true}
		key := fmt.Sprintf("%v %v", b["address"], b["protocol_port"])
		if old := at(p.Members, key, haveMember.socketOf); old != nil {
			h = *old
		}
		if _, ok := b["monitor_port"]; ok {
			h.MonitorPort = 0
		}
		set(&h, patch(b))
		now = append(now, h)
	}
	p.Members = now
}

func (m haveMember) socketOf() string { return m.socket() }

// converge makes the steps and shows that nothing is left to do.
func converge(t interface{ Fatalf(string, ...any) }, w want, m *model) []step {
	steps, err := diff(w, m.have)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, s := range steps {
		if err := m.do(s); err != nil {
			t.Fatalf("%v", err)
		}
	}
	left, err := diff(w, m.have)
	if err != nil || len(left) > 0 {
		t.Fatalf("after %v there is left: %v, %v", steps, left, err)
	}
	return steps
}
