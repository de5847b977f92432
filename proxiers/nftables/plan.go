package nftables

import (
	"cmp"
	"slices"

	"sigs.k8s.io/knftables"

	"proxylab/proxiers/services"
)

// plan collects the difference between what the table holds and what it shall hold.
type plan struct {
	m         *mirror
	old       map[*port][]element // of ports touched, as they are in the table
	del, add  []element
	groups    map[group]bool      // touched: was it there?
	shared    map[sharedElem]bool // touched: was it there?
	chains    []chain             // static ones whose rules are others now
	contested []destination
	wantEnv   env
}

func newPlan(m *mirror, want env) *plan {
	p := &plan{m: m, old: map[*port][]element{}, groups: map[group]bool{}, shared: map[sharedElem]bool{}, wantEnv: want}
	m.owners.touch = p.touch
	return p
}

// touch keeps a port's elements before anything about it changes.
func (p *plan) touch(t *port) {
	if _, done := p.old[t]; !done {
		p.old[t] = slices.Clone(p.m.elements(t, p.m.env))
	}
}

// change makes a port what it shall be; nil: gone.
func (p *plan) change(k services.Key, sp *services.ServicePort) {
	was := p.m.ports[k]
	t := was
	switch {
	case was == nil && sp == nil:
		return
	case was == nil:
		t = &port{}
		p.old[t] = nil
		p.m.ports[k] = t
	default:
		p.touch(t)
		for _, c := range claims(t.sp) {
			p.m.owners.remove(c.destination, t)
		}
	}
	if sp == nil {
		delete(p.m.ports, k)
		t.sp = nil
		return
	}
	t.set(sp)
	for _, c := range claims(sp) {
		if p.m.owners.add(c.destination, t) {
			p.contested = append(p.contested, c.destination)
		}
	}
}

// compare works out the difference, and makes the mirror what the table shall be.
func (p *plan) compare() {
	m := p.m
	if !p.wantEnv.equal(m.env) {
		for _, t := range m.ports {
			p.touch(t)
		}
		p.compareStatics()
	}
	index := map[string]element{}
	for t, old := range p.old {
		var now []element
		if t.sp != nil {
			now = m.elements(t, p.wantEnv)
		}
		p.comparePort(index, old, now)
	}
	m.env = p.wantEnv
	for s, was := range p.shared {
		e := element{in: s.in, key: s.key}
		if _, is := m.shared[s]; is && !was {
			p.add = append(p.add, e)
		} else if !is && was {
			p.del = append(p.del, e)
		}
	}
	for _, e := range p.add {
		m.counts[e.in]++
	}
	for _, e := range p.del {
		m.counts[e.in]--
	}
}

func (p *plan) compareStatics() {
	old := statics(p.m.env)
	for i, c := range statics(p.wantEnv) {
		if !c.equal(old[i]) {
			p.chains = append(p.chains, c)
		}
	}
}

// comparePort notes the difference of one port's elements. index is scratch.
func (p *plan) comparePort(index map[string]element, old, now []element) {
	clear(index)
	id := func(e element) string { return string(rune(e.in)) + e.key }
	for _, e := range old {
		if e.in.shared() {
			p.count(e, -1)
		} else {
			index[id(e)] = e
		}
	}
	for _, e := range now {
		if e.in.shared() {
			p.count(e, 1)
			continue
		}
		was, there := index[id(e)]
		delete(index, id(e))
		if there && was == e {
			continue
		}
		if there {
			p.remove(was)
		}
		p.add = append(p.add, e)
		p.refer(e.leads, 1)
	}
	for _, e := range index {
		p.remove(e)
	}
}

func (p *plan) remove(e element) {
	p.del = append(p.del, e)
	p.refer(e.leads, -1)
}

func (p *plan) count(e element, by int) {
	s := sharedElem{e.in, e.key}
	if _, noted := p.shared[s]; !noted {
		_, p.shared[s] = p.m.shared[s]
	}
	p.m.share(s, by)
}

func (p *plan) refer(g group, by int) {
	p.m.refer(g, by, func(g group) {
		if _, noted := p.groups[g]; !noted {
			p.groups[g] = by < 0
		}
	})
}

// created and deleted are the groups that come and go.
func (p *plan) created() []group { return p.touchedGroups(false) }
func (p *plan) deleted() []group { return p.touchedGroups(true) }

func (p *plan) touchedGroups(was bool) (out []group) {
	for g, before := range p.groups {
		if _, is := p.m.groups[g]; before == was && is != was {
			out = append(out, g)
		}
	}
	sortGroups(out)
	return out
}

// sortGroups puts those that others need before them.
func sortGroups(list []group) {
	slices.SortFunc(list, func(a, b group) int {
		return cmp.Or(-cmp.Compare(a.kind, b.kind), cmp.Compare(a.name(), b.name()))
	})
}

// transaction writes the difference. Deletions come first, as an element that changes its value, or its owner, is
// deleted and added; chains are there before anything leads to them, and go when nothing does.
func (p *plan) transaction(tx *knftables.Transaction) {
	for _, g := range p.created() {
		c := g.chain(p.wantEnv)
		tx.Add(c.object())
		addRules(tx, c)
	}
	for _, c := range p.chains {
		tx.Flush(&knftables.Chain{Name: c.name})
		addRules(tx, c)
	}
	for _, e := range p.del {
		tx.Delete(e.in.element(e.key, ""))
	}
	for _, e := range p.add {
		tx.Add(e.in.element(e.key, e.value))
	}
	gone := p.deleted()
	slices.Reverse(gone)
	for _, g := range gone {
		tx.Delete(&knftables.Chain{Name: g.name()})
	}
}

func addRules(tx *knftables.Transaction, c chain) {
	for _, r := range c.rules {
		rule := &knftables.Rule{Chain: c.name, Rule: r.text}
		if r.comment != "" {
			rule.Comment = &r.comment
		}
		tx.Add(rule)
	}
}

// rewrite writes everything that the mirror has. If the table is there, with the chains named in existing, it is
// emptied and filled, so that remembered clients stay; otherwise it is made anew. Both is one transaction.
func rewrite(tx *knftables.Transaction, m *mirror, anew bool, existing []string) {
	tx.Add(&knftables.Table{})
	if anew {
		tx.Delete(&knftables.Table{})
		tx.Add(&knftables.Table{})
	}
	for p := range protocols {
		tx.Add(affinityObject(m.env, uint8(p)))
	}
	for s := range numStores {
		tx.Add(s.object(m.env))
		if !anew {
			tx.Flush(s.object(m.env))
		}
	}
	chains := statics(m.env)
	groups := make([]group, 0, len(m.groups))
	for g := range m.groups {
		groups = append(groups, g)
	}
	sortGroups(groups)
	for _, g := range groups {
		chains = append(chains, g.chain(m.env))
	}
	current := map[string]struct{}{}
	for _, c := range chains {
		current[c.name] = struct{}{}
		tx.Add(c.object())
		if !anew {
			tx.Flush(c.object())
		}
	}
	if !anew {
		dropChains(tx, existing, current)
	}
	for _, c := range chains {
		addRules(tx, c)
	}
	var elements [numStores][]*knftables.Element
	for _, p := range m.ports {
		for _, e := range m.elements(p, m.env) {
			if !e.in.shared() {
				elements[e.in] = append(elements[e.in], e.in.element(e.key, e.value))
			}
		}
	}
	for s := range m.shared {
		elements[s.in] = append(elements[s.in], s.in.element(s.key, ""))
	}
	for _, list := range elements { // store by store, so that they can be grouped
		for _, e := range list {
			tx.Add(e)
		}
	}
}

// dropChains deletes chains that may be there, all of them emptied before the first goes, as some jump to others.
func dropChains(tx *knftables.Transaction, existing []string, keep map[string]struct{}) {
	var gone []*knftables.Chain
	for _, name := range existing {
		if _, kept := keep[name]; !kept {
			gone = append(gone, &knftables.Chain{Name: name})
		}
	}
	for _, c := range gone {
		tx.Add(c)
		tx.Flush(c)
	}
	for _, c := range gone {
		tx.Delete(c)
	}
}
