package octavia

import "proxylab/lab/lbaas/plane"

// Operating states.
const (
	online    = plane.Online
	offline   = plane.Offline
	degraded  = plane.Degraded
	draining  = plane.Draining
	noMonitor = plane.NoMonitor
)

// Observe takes what the data plane has seen: members' states and listeners' counters become those of the API.
// A balancer that a call does not mention keeps what was seen before.
func (s *Service) Observe(seen []plane.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range seen {
		if s.db.get(kindBalancer, one.ID) != nil && s.observeOne(one) {
			s.derive(one.ID)
		}
	}
}

// observeOne notes one balancer's, and says whether a state may follow from it.
func (s *Service) observeOne(one plane.Status) bool {
	changed := false
	for id, state := range one.Members {
		m := s.db.get(kindMember, id)
		if m != nil && m.Balancer == one.ID && s.seen[id] != state {
			s.seen[id] = state
			changed = true
		}
	}
	for _, l := range s.db.below(one.ID, kindListener) {
		if n, counted := one.Listeners[l.ID]; counted {
			s.counters[l.ID] = n
		}
		if why := one.Problems[l.ID]; why != s.problems[l.ID] {
			changed = true
			if why == "" {
				delete(s.problems, l.ID)
			} else {
				s.problems[l.ID] = why
			}
		}
	}
	return changed
}

// derive gives a balancer and what is below it their operating states, as Octavia's health manager does: a pool's from its
// members, the balancer's from its pools and listeners. A listener is not touched by its pool. It needs the lock.
func (s *Service) derive(id string) {
	lb := s.db.get(kindBalancer, id)
	if lb == nil || !s.running(id) {
		return
	}
	worst := online
	if !lb.flag("admin_state_up") {
		worst = offline
	}
	for _, p := range s.db.below(id, kindPool) {
		state := s.derivePool(p)
		if len(s.db.listenersOf(p)) > 0 { // what nobody sends to does not count
			worst = worse(worst, state)
		}
	}
	for _, l := range s.db.below(id, kindListener) {
		state := upOrOffline(l)
		if s.problems[l.ID] != "" && state == online {
			state = failed
		}
		s.setOper(l, state)
		worst = worse(worst, state)
		for _, o := range s.db.tree(l.ID)[1:] {
			s.setOper(o, upOrOffline(o))
		}
	}
	s.setOper(lb, worst)
}

// worse gives what a balancer becomes by a part of it; one that is switched off stays OFFLINE.
func worse(lb, part string) string {
	switch {
	case lb == offline || part != failed && part != degraded:
		return lb
	case part == degraded && lb == failed:
		return lb
	}
	return part
}

func upOrOffline(o *object) string {
	if o.flag("admin_state_up") {
		return online
	}
	return offline
}

func (s *Service) derivePool(p *object) string {
	monitor := s.db.monitorOf(p.ID)
	if monitor != nil {
		s.setOper(monitor, upOrOffline(monitor))
	}
	members, working, broken := 0, 0, 0
	for _, m := range s.db.below(p.ID, kindMember) {
		if !m.Ran {
			continue
		}
		members++
		state := s.memberState(m, monitor != nil)
		s.setOper(m, state)
		takes := m.flag("admin_state_up") && m.number("weight") > 0
		switch {
		case state == failed:
			broken++
		case takes && (state != offline || s.forced[m.ID] == "" && s.seen[m.ID] == ""): // not asked yet: taken to work
			working++
		}
	}
	state := upOrOffline(p)
	if state == online && members > 0 {
		switch {
		case working == 0:
			state = failed
		case broken > 0:
			state = degraded
		}
	}
	s.setOper(p, state)
	return state
}

// memberState is what is forced, else what follows from the configuration, else what the data plane has seen.
func (s *Service) memberState(m *object, monitored bool) string {
	if f := s.forced[m.ID]; f != "" {
		return f
	}
	seen := s.seen[m.ID]
	switch {
	case !m.flag("admin_state_up"):
		return offline
	case !monitored && seen == draining:
		return draining
	case !monitored:
		return noMonitor
	case seen != "" && seen != noMonitor:
		return seen
	case s.opts.Apply != nil:
		return offline // until it is asked
	case m.number("weight") == 0:
		return draining
	}
	return online
}

func (s *Service) setOper(o *object, state string) {
	o = s.db.get(o.Kind, o.ID)
	if !o.Ran || o.Oper == state {
		return
	}
	e := s.db.edit(o)
	e.Oper = state
	s.changed(e, "operating_status", o.Oper, state)
	s.dirty()
}

// setProv changes an object that edit has given.
func (s *Service) setProv(e *object, state string) {
	if e.Prov != state {
		s.changed(e, "provisioning_status", e.Prov, state)
		e.Prov = state
	}
}
