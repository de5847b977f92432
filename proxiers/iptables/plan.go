package iptables

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"proxylab/proxiers/services"
)

// maxDeletes is how many rules are deleted from a shared chain one by one, each a search through the chain, before the
// chain is written anew instead.
const maxDeletes = 16

// batch is the input of one iptables-restore and what the mirror becomes once it succeeded. Its buffers are used again.
type batch struct {
	render  renderer
	old     *mirror
	all     bool // write everything, whatever the mirror says
	chunk   int  // chains of Service ports per COMMIT when everything is written; 0: all in one
	own     ownRules
	nat     section
	filter  section
	input   bytes.Buffer
	pending map[services.Key]*portState // nil: gone
	inserts [numShared][]string
	deletes [numShared][]string
}

// section is one table's part, apart from the chains of single Service ports.
type section struct {
	fixed, shared part
	drop          []string // chains to delete
}

// part is chains declared, which empties them, and rules.
type part struct {
	declare []string
	rules   bytes.Buffer
}

func (p *part) reset() {
	p.declare = p.declare[:0]
	p.rules.Reset()
}

func (s *section) reset() {
	s.fixed.reset()
	s.shared.reset()
	s.drop = s.drop[:0]
}

func line(b *bytes.Buffer, parts ...string) {
	for _, p := range parts {
		b.WriteString(p)
	}
	b.WriteByte('\n')
}

func (b *batch) section(c sharedChain) *section {
	if c.inNat() {
		return &b.nat
	}
	return &b.filter
}

func (b *batch) reset(old *mirror, e env, all bool) {
	b.render.env, b.old, b.all = e, old, all
	b.own.reset()
	b.nat.reset()
	b.filter.reset()
	if b.pending == nil {
		b.pending = map[services.Key]*portState{}
	}
	clear(b.pending)
	for c := range b.inserts {
		b.inserts[c], b.deletes[c] = b.inserts[c][:0], b.deletes[c][:0]
	}
}

// whole plans to write everything, and to delete the stale chains of Service ports among existing.
func (b *batch) whole(e env, ports []*services.ServicePort, existing map[string]int) []byte {
	b.reset(&mirror{}, e, true)
	for c := range numShared {
		b.declareShared(c)
	}
	b.writeStatics()
	keep := map[string]struct{}{}
	for _, sp := range ports {
		s := b.stage(sp)
		for _, c := range s.chains {
			keep[c.name] = struct{}{}
		}
		for _, r := range s.shared {
			line(&b.section(r.chain).shared.rules, "-A ", sharedNames[r.chain], " ", r.rule)
		}
	}
	b.writeTail()
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		if _, ok := keep[name]; !ok && isPortChain(name) {
			b.nat.drop = append(b.nat.drop, name)
		}
	}
	return b.text()
}

// diff plans to bring ports, and those gone, up to date; whatever else there is stays as the mirror says.
func (b *batch) diff(old *mirror, e env, ports []*services.ServicePort, gone []services.Key) []byte {
	b.reset(old, e, false)
	if !e.equal(old.env) {
		b.writeStatics()
	}
	for _, sp := range ports {
		was := old.ports[sp.Key]
		b.compareShared(was, b.stage(sp))
	}
	for _, k := range gone {
		if was := old.ports[k]; was != nil {
			b.pending[k] = nil
			b.compareShared(was, &portState{})
			for _, c := range was.chains {
				b.nat.drop = append(b.nat.drop, c.name)
			}
		}
	}
	b.writeShared()
	return b.text()
}

// stage renders a port and writes those of its own chains that are not as they should be.
func (b *batch) stage(sp *services.ServicePort) *portState {
	r := &b.render
	r.render(sp)
	s, was := r.state(), b.old.ports[sp.Key]
	for i, c := range s.chains {
		if w, ok := was.chain(c.name); b.all || !ok || w != c {
			b.own.add(c.name, r.text[r.chains[i].start:r.chains[i].end])
		}
	}
	if was != nil {
		for _, c := range was.chains {
			if _, ok := s.chain(c.name); !ok {
				b.nat.drop = append(b.nat.drop, c.name)
			}
		}
	}
	b.pending[sp.Key] = s
	return s
}

func (b *batch) declareShared(c sharedChain) {
	p := &b.section(c).shared
	p.declare = append(p.declare, sharedNames[c])
}

func (b *batch) writeStatics() {
	for _, c := range b.render.env.statics() {
		s := &b.filter
		if c.table == tableNat {
			s = &b.nat
		}
		s.fixed.declare = append(s.fixed.declare, c.name)
		for _, rule := range c.rules {
			line(&s.fixed.rules, "-A ", c.name, " ", rule)
		}
	}
}

func (b *batch) writeTail() {
	line(&b.nat.shared.rules, "-A ", chainServices, " ", b.render.env.nodePortsTail())
}

// compareShared notes which rules in shared chains a port gains and loses.
func (b *batch) compareShared(was, is *portState) {
	if was == nil {
		was = &portState{}
	}
	lacks := func(s *portState, r sharedRule) bool { return !slices.Contains(s.shared, r) }
	for _, r := range is.shared {
		if lacks(was, r) {
			b.inserts[r.chain] = append(b.inserts[r.chain], r.rule)
		}
	}
	for _, r := range was.shared {
		if lacks(is, r) {
			b.deletes[r.chain] = append(b.deletes[r.chain], r.rule)
		}
	}
}

// writeShared edits the shared chains, or writes them anew where that is less work.
func (b *batch) writeShared() {
	for c := range numShared {
		ins, del := b.inserts[c], b.deletes[c]
		if len(del) > maxDeletes || len(ins)+len(del) > maxDeletes+b.old.shared[c] {
			b.rewriteShared(c)
			continue
		}
		s := b.section(c)
		for _, rule := range del {
			line(&s.shared.rules, "-D ", sharedNames[c], " ", rule)
		}
		for _, rule := range ins {
			// In front, because the last rule of KUBE-SERVICES has to stay the last.
			line(&s.shared.rules, "-I ", sharedNames[c], " ", rule)
		}
	}
}

func (b *batch) rewriteShared(c sharedChain) {
	s := b.section(c)
	b.declareShared(c)
	write := func(p *portState) {
		for _, r := range p.shared {
			if r.chain == c {
				line(&s.shared.rules, "-A ", sharedNames[c], " ", r.rule)
			}
		}
	}
	for k, p := range b.old.ports {
		if _, changed := b.pending[k]; !changed {
			write(p)
		}
	}
	for _, p := range b.pending {
		if p != nil {
			write(p)
		}
	}
	if c == natServices {
		b.writeTail()
	}
}

func compareKeys(a, b services.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service),
		cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Family, b.Family))
}
