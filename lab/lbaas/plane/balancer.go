package plane

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
)

// balancer is a load balancer in an instance. The instance's goroutine owns it.
type balancer struct {
	spec      Balancer
	in        *instance
	pools     map[string]*pool
	listeners map[string]*listener
	retired   []*listener       // removed, with connections that go on
	broken    map[string]string // listener ID -> what is wrong with its description
	sent      Status            // as reported last
}

func newBalancer(in *instance) *balancer {
	return &balancer{in: in, pools: map[string]*pool{}, listeners: map[string]*listener{}, broken: map[string]string{}}
}

// update makes the balancer as spec says, by what is different.
func (b *balancer) update(spec Balancer) {
	b.spec = spec
	clear(b.broken)
	wanted := map[string]*pool{}
	for _, ps := range spec.Pools {
		p := b.pools[ps.ID]
		if p == nil {
			p = newPool(ps.ID, func() { b.in.news(spec.ID) }, b.in.learned)
		}
		if err := p.update(ps, spec.AdminUp); err != nil {
			b.breakPool(ps.ID, err)
			if b.pools[ps.ID] == nil {
				continue
			}
		}
		wanted[ps.ID] = p
	}
	old := b.pools
	b.pools = wanted
	b.updateListeners()
	for id, p := range old {
		if wanted[id] == nil {
			p.stop()
		}
	}
}

func (b *balancer) breakPool(id string, err error) {
	for _, ls := range b.spec.Listeners {
		if ls.DefaultPool == id {
			b.broken[ls.ID] = fmt.Sprintf("pool %s: %v", id, err)
		}
	}
}

func (b *balancer) updateListeners() {
	b.retired = slices.DeleteFunc(b.retired, func(l *listener) bool {
		over := !l.carrying()
		if over {
			l.cancel()
		}
		return over
	})
	wanted := map[string]bool{}
	for _, ls := range b.spec.Listeners {
		wanted[ls.ID] = true
	}
	for id, l := range b.listeners { // first those that go: others may want their ports
		if !wanted[id] {
			l.close(false)
			b.retired = append(b.retired, l)
			delete(b.listeners, id)
		}
	}
	for _, ls := range b.spec.Listeners {
		l := b.listeners[ls.ID]
		var old *frontend
		if l != nil {
			old = l.conf.Load()
		}
		f, err := newFrontend(ls, b.pools, old)
		if err != nil {
			b.broken[ls.ID] = err.Error() // what was there goes on, as when haproxy refuses a configuration
			continue
		}
		if l == nil {
			l = newListener(ls.ID, b.in.link != nil, b.in.learned)
			b.listeners[ls.ID] = l
		}
		l.update(f, b.vips(f))
	}
}

// vips are the addresses where a listener has to listen now.
func (b *balancer) vips(f *frontend) []netip.Addr {
	if b.in.role != Active || !b.spec.AdminUp || !f.spec.AdminUp {
		return nil
	}
	return b.spec.VIPs
}

// listen opens or closes sockets as the role says, and tries again what did not work.
func (b *balancer) listen() {
	for _, l := range b.listeners {
		f := l.conf.Load()
		l.update(f, b.vips(f))
	}
}

// drop ends what is being carried.
func (b *balancer) drop() {
	for _, l := range slices.Concat(b.retired, mapValues(b.listeners)) {
		l.drop()
	}
}

// close is the end of the balancer, and of all its connections.
func (b *balancer) close() {
	for _, l := range slices.Concat(b.retired, mapValues(b.listeners)) {
		l.close(true)
	}
	for _, p := range b.pools {
		p.stop()
	}
}

func mapValues(m map[string]*listener) []*listener {
	all := make([]*listener, 0, len(m))
	for _, l := range m {
		all = append(all, l)
	}
	return all
}

// hasProblems says whether a socket is missing.
func (b *balancer) hasProblems() bool {
	for _, l := range b.listeners {
		if l.problemText() != "" {
			return true
		}
	}
	return false
}

// flows counts what is being carried.
func (b *balancer) flows() (n beat) {
	for _, l := range slices.Concat(b.retired, mapValues(b.listeners)) {
		n.TCP += l.limit.count()
		n.UDP += l.udpFlows()
	}
	return n
}

// status is what the balancer is like now; changed says that it was reported differently last.
func (b *balancer) status() (s Status, changed bool) {
	s = Status{ID: b.spec.ID, Instance: b.in.o.Name}
	s.Members = map[string]string{}
	for _, p := range b.pools {
		p.states(s.Members, b.spec.AdminUp)
	}
	s.Listeners = map[string]Counters{}
	s.Problems = map[string]string{}
	for id, l := range b.listeners {
		s.Listeners[id] = l.counters()
		if text := l.problemText(); text != "" {
			s.Problems[id] = text
		} else if b.in.linkProblem != "" {
			s.Problems[id] = b.in.linkProblem
		}
	}
	for id, text := range b.broken {
		s.Problems[id] = text
	}
	changed = !reflect.DeepEqual(s, b.sent)
	b.sent = s
	return s, changed
}
