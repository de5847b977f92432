package plane

import (
	"net"
	"net/netip"

	"proxylab/lab/lbaas/plane/sched"
)

// Kinds of persistence, Octavia's names.
const (
	SourceIP   = "SOURCE_IP"
	HTTPCookie = "HTTP_COOKIE"
	AppCookie  = "APP_COOKIE"
)

func (p *pool) persistence() string {
	if p.spec.Persistence == nil {
		return ""
	}
	return p.spec.Persistence.Type
}

// choose finds a member for a client: the one it knows, else one by the algorithm. With avoid, the ID of a member that did
// not answer, another one is looked for.
func (p *pool) choose(client netip.AddrPort, avoid string) (choice, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if avoid == "" && p.persistence() == SourceIP {
		if id, ok := p.bySrc.Get(p.source(client)); ok {
			if c, ok := p.take(id); ok {
				return c, nil
			}
		}
	}
	return p.pick(client, avoid)
}

// chooseKnown takes a member by its ID, if it may carry anything.
func (p *pool) chooseKnown(id string) (choice, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.take(id)
}

// chooseByApp takes the member that an application's cookie belongs to.
func (p *pool) chooseByApp(cookie string) (choice, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	id, ok := p.byApp.Get(cookie)
	if !ok {
		return choice{}, false
	}
	return p.take(id)
}

func (p *pool) take(id string) (choice, bool) {
	m := p.members[id]
	if !p.usable(m) {
		return choice{}, false
	}
	p.picker.Take(id)
	return choice{m, p.picker, true}, true
}

func (p *pool) pick(client netip.AddrPort, avoid string) (choice, error) {
	id, ok := p.picker.Pick(client, avoid)
	if !ok {
		return choice{}, errNoMember
	}
	return choice{p.members[id], p.picker, false}, nil
}

// turning says how to go on after a member has refused: alone, that there is no choice; indifferent, that a client need
// not wait for this member, since neither persistence nor a hash has led to it.
func (p *pool) turning(c choice) (alone, indifferent bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	alone = p.active() <= 1
	hashed := p.spec.Algorithm == sched.SourceIP || p.spec.Algorithm == sched.SourceIPPort
	return alone, !alone && !c.direct && !hashed
}

// active counts the members that get new clients while any of them works.
func (p *pool) active() int {
	n := 0
	for _, m := range p.members {
		if p.usable(m) && m.spec.Weight > 0 && !m.spec.Backup {
			n++
		}
	}
	return n
}

// remember makes a client come back to a member.
func (p *pool) remember(client netip.AddrPort, id string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.persistence() != SourceIP {
		return
	}
	src := p.source(client)
	if p.bySrc.Put(src, id) {
		p.learned(learned{Pool: p.id, Client: netip.AddrPortFrom(src, 0), Member: id})
	}
}

// rememberApp is the same by a cookie that the application has set.
func (p *pool) rememberApp(cookie, id string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.byApp.Put(cookie, id) {
		p.learned(learned{Pool: p.id, Cookie: cookie, Member: id})
	}
}

// learn takes what another instance has decided.
func (p *pool) learn(l learned) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if l.Cookie != "" {
		p.byApp.Put(l.Cookie, l.Member)
	} else {
		p.bySrc.Put(l.Client.Addr(), l.Member)
	}
}

// known lists the decisions that last, for another instance.
func (p *pool) known() []learned {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var all []learned
	for a, id := range p.bySrc.All() {
		all = append(all, learned{Pool: p.id, Client: netip.AddrPortFrom(a, 0), Member: id})
	}
	for cookie, id := range p.byApp.All() {
		all = append(all, learned{Pool: p.id, Cookie: cookie, Member: id})
	}
	return all
}

// source is what clients of one persistence have in common: their address, or its network by the granularity.
func (p *pool) source(client netip.AddrPort) netip.Addr {
	a := client.Addr().Unmap().WithZone("")
	if p.spec.Persistence == nil || p.spec.Persistence.Granularity == "" {
		return a
	}
	mask, err := netip.ParseAddr(p.spec.Persistence.Granularity)
	if err != nil || mask.BitLen() != a.BitLen() {
		return a
	}
	ones, bits := net.IPMask(mask.AsSlice()).Size()
	if bits == 0 { // not a netmask
		return a
	}
	network, err := a.Prefix(ones)
	if err != nil {
		return a
	}
	return network.Addr()
}

// persists and appCookie are for those who do not hold the lock.
func (p *pool) persists() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.persistence()
}

func (p *pool) appCookie() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.spec.Persistence == nil {
		return ""
	}
	return p.spec.Persistence.CookieName
}

// works says whether a flow may go on at its member, which may have been removed or replaced.
func (p *pool) works(m *member) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.members[m.id] == m && p.usable(m)
}

func (p *pool) worksByID(id string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.usable(p.members[id])
}
