package nftables

import (
	"strconv"
)

type groupKind uint8

const (
	groupNone       groupKind = iota
	groupSpread               // choose among n endpoints
	groupAffinity             // choose among n endpoints unless one of up to m slots is the client's
	groupRemembered           // go to the client's slot, if it has one among m
	groupForget               // the client has none of m slots
	groupSlot                 // use slot n, and remember that for some seconds
)

// group is a chain that many Services share: it depends on numbers alone. It exists while something leads to it.
type group struct {
	kind            groupKind
	nodePort, local bool  // what it looks up, and in which maps
	protocol        uint8 // index in protocols
	n, m, seconds   int32
}

// name is, for example, tcp-endpoints-4, local-udp-endpoints-2, nodeport-tcp-affinity-3-4 or tcp-slot-2-10800s.
func (g group) name() string {
	var b []byte
	if g.nodePort {
		b = append(b, "nodeport-"...)
	}
	if g.local {
		b = append(b, "local-"...)
	}
	b = append(b, protocols[g.protocol]...)
	number := func(n int32) { b = strconv.AppendInt(append(b, '-'), int64(n), 10) }
	switch g.kind {
	case groupSpread:
		b = append(b, "-endpoints"...)
		number(g.n)
	case groupAffinity:
		b = append(b, "-affinity"...)
		number(g.n)
		number(g.m)
	case groupRemembered:
		b = append(b, "-remembered"...)
		number(g.m)
	case groupForget:
		b = append(b, "-forget"...)
		number(g.m)
	default:
		b = append(b, "-slot"...)
		number(g.n)
		number(g.seconds)
		b = append(b, 's')
	}
	return string(b)
}

// needs are the groups that this one jumps to.
func (g group) needs() []group {
	if g.kind != groupAffinity {
		return nil
	}
	r, f := g, g
	r.kind, r.n = groupRemembered, 0
	f.kind, f.n = groupForget, 0
	f.local = false // both have the same set of clients
	return []group{r, f}
}

// fixed is a number in the place of a random one: nft takes no constant there.
func fixed(n int) string { return " . numgen inc mod 1 offset " + strconv.Itoa(n) }

func (g group) chain(e env) chain {
	dest, port := e.destination(g.nodePort), e.address(g.nodePort)+" . "+protocols[g.protocol]+" dport"
	client, translate := e.ip()+" saddr . "+port, "dnat to "+port
	clients := affinityOf(g.protocol)
	from := " map @" + endpointsOf(g.protocol, g.local).name()
	c := chain{name: g.name()}
	add := func(text string) { c.rules = append(c.rules, rule{text: text}) }
	random := " . numgen random mod " + strconv.Itoa(int(g.n))
	switch g.kind {
	case groupSpread:
		add(translate + random + from)
	case groupAffinity:
		for _, to := range g.needs() {
			add("jump " + to.name())
		}
		add(dest + random + " vmap @" + affinityPicks.of(g.local).name())
	case groupRemembered:
		for i := range int(g.m) {
			add(client + fixed(i) + " @" + clients + " " + dest + fixed(i) + " vmap @" + affinitySlots.of(g.local).name())
		}
	case groupForget:
		for i := range int(g.m) {
			add("delete @" + clients + " { " + client + fixed(i) + " }")
		}
	default:
		// Two rules, as the first one fails where the set is full.
		add("update @" + clients + " { " + client + fixed(int(g.n)) + " timeout " + strconv.Itoa(int(g.seconds)) + "s }")
		add(translate + fixed(int(g.n)) + from)
	}
	return c
}

// minSlots is the least number of slots that chains for affinity look at; they double from there.
const minSlots = 4

func roundSlots(n int) int32 {
	m := minSlots
	for m < n {
		m *= 2
	}
	return int32(m)
}
