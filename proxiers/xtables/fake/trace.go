package fake

import (
	"net/netip"
	"slices"
)

// Packet is the first of a connection.
type Packet struct {
	Src, Dst netip.AddrPort
	Proto    string          // tcp, udp, sctp
	FromNode bool            // made by the node itself
	Local    []netip.Addr    // the node's addresses
	Seen     map[string]bool // recent lists that have the source
}

// Outcome is what became of a packet.
type Outcome struct {
	Verdict string         // accepted, dropped, refused
	To      netip.AddrPort // its destination in the end
	Masq    bool           // its source was replaced
	Record  string         // recent list that the source was put on
}

type state struct {
	Packet
	dst     netip.AddrPort
	mark    uint32
	dnat    bool
	masq    bool
	record  string
	verdict string // set once a terminating target was met
}

func (s *state) isLocal(a netip.Addr) bool { return a.IsLoopback() || slices.Contains(s.Local, a) }

// here is an address of the node in the packet's family.
func (s *state) here() netip.Addr {
	for _, a := range s.Local {
		if a.Is4() == s.dst.Addr().Is4() && !s.FromNode {
			return a
		}
	}
	if s.dst.Addr().Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

func (s *state) inState(states []string) bool {
	return slices.Contains(states, "NEW") || s.dnat && slices.Contains(states, "DNAT")
}

// Trace walks a packet through nat and filter as the kernel would and returns all that can become of it, with its
// probability.
func (t *Tables) Trace(p Packet) map[Outcome]float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[Outcome]float64{}
	enter := "PREROUTING"
	if p.FromNode {
		enter = "OUTPUT"
	}
	w := walker{tables: t.tables}
	w.hook("nat", enter, state{Packet: p, dst: p.Dst}, 1, func(s state, chance float64) {
		filter := "FORWARD"
		if p.FromNode {
			filter = "OUTPUT"
		} else if s.isLocal(s.dst.Addr()) {
			filter = "INPUT"
		}
		w.hook("filter", filter, s, chance, func(s state, chance float64) {
			if s.verdict != "dropped" && s.verdict != "refused" && filter != "INPUT" {
				w.hook("nat", "POSTROUTING", s, chance, func(s state, chance float64) { out[s.outcome()] += chance })
				return
			}
			out[s.outcome()] += chance
		})
	})
	return out
}

func (s state) outcome() Outcome {
	v := s.verdict
	if v != "dropped" && v != "refused" {
		v = "accepted"
	}
	return Outcome{v, s.dst, s.masq, s.record}
}

type walker struct{ tables map[string]table }

// hook runs a kernel's chain to its end and calls next for each way it can end.
func (w walker) hook(table, chain string, s state, chance float64, next func(state, float64)) {
	s.verdict = ""
	w.chain(w.tables[table], chain, 0, s, chance, next)
}

// chain goes on with rule i; after the last one, and after RETURN, next goes on where the chain was jumped to from.
func (w walker) chain(t table, name string, i int, s state, chance float64, next func(state, float64)) {
	c := t[name]
	if s.verdict != "" || c == nil || i == len(c.rules) {
		next(s, chance)
		return
	}
	r, err := parse(c.rules[i])
	skip := func(chance float64) { w.chain(t, name, i+1, s, chance, next) }
	if err != nil || !r.matches(&s) {
		skip(chance)
		return
	}
	if r.chance > 0 && r.chance < 1 {
		skip(chance * (1 - r.chance))
		chance *= r.chance
	}
	if r.target == "RETURN" {
		next(s, chance)
		return
	}
	after := func(s state, chance float64) { w.chain(t, name, i+1, s, chance, next) }
	if t[r.target] != nil {
		w.chain(t, r.target, 0, s, chance, after)
		return
	}
	r.act(&s)
	after(s, chance)
}

func (r rule) matches(s *state) bool {
	for _, c := range r.conditions {
		if !c(s) {
			return false
		}
	}
	return true
}

func (r rule) act(s *state) {
	if r.records != "" {
		s.record = r.records
	}
	switch r.target {
	case "MARK":
		s.mark = s.mark&^r.mask ^ r.set
	case "DNAT":
		s.dst, s.dnat, s.verdict = r.to, true, "translated"
	case "REDIRECT":
		s.dst, s.dnat, s.verdict = netip.AddrPortFrom(s.here(), r.toPort), true, "translated"
	case "MASQUERADE":
		s.masq, s.verdict = true, "translated"
	case "ACCEPT":
		s.verdict = "accepted"
	case "DROP":
		s.verdict = "dropped"
	case "REJECT":
		s.verdict = "refused"
	}
}
