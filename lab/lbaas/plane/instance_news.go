package plane

// news marks a balancer whose members' states have changed.
func (in *instance) news(balancer string) {
	in.mu.Lock()
	in.dirty[balancer] = true
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// changed are the balancers with news since the last call.
func (in *instance) changed() []*balancer {
	in.mu.Lock()
	defer in.mu.Unlock()
	var all []*balancer
	for id := range in.dirty {
		if b := in.balancers[id]; b != nil {
			all = append(all, b)
		}
	}
	clear(in.dirty)
	return all
}

func (in *instance) all() []*balancer {
	all := make([]*balancer, 0, len(in.balancers))
	for _, b := range in.balancers {
		all = append(all, b)
	}
	return all
}

// report writes the statuses that are different from what was written last. A standby has nothing to say.
func (in *instance) report(balancers []*balancer) error {
	if in.role != Active {
		return nil
	}
	var statuses []Status
	for _, b := range balancers {
		if s, changed := b.status(); changed {
			statuses = append(statuses, s)
		}
	}
	if len(statuses) == 0 {
		return nil
	}
	return in.out.write(report{Status: statuses})
}

// learned notes a decision that the other instance should know.
func (in *instance) learned(l learned) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.untold) < maxUntold {
		in.untold = append(in.untold, l)
	}
}

// learn takes what the other instance has decided.
func (in *instance) learn(decisions []learned) {
	for _, d := range decisions {
		for _, b := range in.balancers {
			if p := b.pools[d.Pool]; p != nil {
				p.learn(d)
			}
			if l := b.listeners[d.Listener]; l != nil {
				l.flows.learn(d)
			}
		}
	}
}

// known are all decisions that last.
func (in *instance) known() []learned {
	var all []learned
	for _, b := range in.balancers {
		for _, p := range b.pools {
			all = append(all, p.known()...)
		}
		for _, l := range b.listeners {
			all = append(all, l.known()...)
		}
	}
	return all
}

// kept counts the UDP flows that go on at their members though another instance has them now.
func (b *balancer) kept() int64 {
	n := int64(0)
	for _, l := range b.listeners {
		n += l.flows.kept(l.conf.Load().pool)
	}
	return n
}

// known lists the listener's UDP flows.
func (l *listener) known() []learned {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []learned
	for _, s := range l.sockets {
		if u, ok := s.(*udpSocket); ok {
			all = append(all, u.known()...)
		}
	}
	return all
}

func (s *udpSocket) known() []learned {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]learned, 0, len(s.flows))
	for _, f := range s.flows {
		all = append(all, s.learnedOf(f, f.choice.id))
	}
	return all
}
