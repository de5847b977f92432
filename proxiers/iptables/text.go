package iptables

import (
	"cmp"
	"slices"
	"strings"
)

// nftChunk is how many chains of Service ports iptables-nft-restore is given per COMMIT: in version 1.8.9 each line is
// a search through the chains named since the last one.
const nftChunk = 500

// ownRules are chains of single Service ports with their rules.
type ownRules struct {
	chains []ownChain // spans of text
	text   []byte
}

func (o *ownRules) reset() { o.chains, o.text = o.chains[:0], o.text[:0] }

func (o *ownRules) add(name string, rules []byte) {
	start := len(o.text)
	o.text = append(o.text, rules...)
	o.chains = append(o.chains, ownChain{name: name, start: start, end: len(o.text)})
}

// text is the whole input; empty if there is nothing to do. It is valid until the next plan.
func (b *batch) text() []byte {
	b.input.Reset()
	b.writeTable(tableFilter, &b.filter, nil)
	if b.all && b.chunk > 0 {
		b.writeChunks()
	} else {
		b.writeTable(tableNat, &b.nat, &b.own)
	}
	return b.input.Bytes()
}

func (b *batch) writeTable(name string, s *section, own *ownRules) {
	declare := slices.Concat(s.fixed.declare, s.shared.declare, s.drop)
	var rules []byte
	if own != nil {
		rules = own.text
		for _, c := range own.chains {
			declare = append(declare, c.name)
		}
	}
	b.commit(name, declare, s.drop, s.fixed.rules.Bytes(), rules, s.shared.rules.Bytes())
}

// commit writes one table up to COMMIT, unless there is nothing to write. Declaring a chain makes or empties it; what is
// to be deleted has to be empty first. Names go down the alphabet because of what is said at nftChunk: that search goes up.
func (b *batch) commit(table string, declare, drop []string, rules ...[]byte) {
	size := len(declare) + len(drop)
	for _, r := range rules {
		size += len(r)
	}
	if size == 0 {
		return
	}
	line(&b.input, "*", table)
	slices.SortFunc(declare, func(x, y string) int { return strings.Compare(y, x) })
	for _, name := range declare {
		line(&b.input, ":", name, " - [0:0]")
	}
	for _, r := range rules {
		b.input.Write(r)
	}
	for _, name := range drop {
		line(&b.input, "-X ", name)
	}
	line(&b.input, "COMMIT")
}

// writeChunks commits the nat table piece by piece, so that no packet sees anything half done: first what others jump
// to, then the chains that jump there, then the shared chains at once, which lead to all of them, at last what is deleted.
func (b *batch) writeChunks() {
	b.commit(tableNat, b.nat.fixed.declare, nil, b.nat.fixed.rules.Bytes())
	slices.SortFunc(b.own.chains, func(x, y ownChain) int {
		return cmp.Or(cmp.Compare(depth(x.name), depth(y.name)), strings.Compare(y.name, x.name))
	})
	for chains := range slices.Chunk(b.own.chains, b.chunk) {
		var names []string
		var rules [][]byte
		for _, c := range chains {
			names = append(names, c.name)
			rules = append(rules, b.own.text[c.start:c.end])
		}
		b.commit(tableNat, names, nil, rules...)
	}
	b.commit(tableNat, b.nat.shared.declare, nil, b.nat.shared.rules.Bytes())
	slices.SortFunc(b.nat.drop, func(x, y string) int { return -cmp.Compare(depth(x), depth(y)) })
	for names := range slices.Chunk(b.nat.drop, b.chunk) {
		b.commit(tableNat, slices.Clone(names), names)
	}
}

// depth orders chains of Service ports: they jump only to chains of less depth.
func depth(name string) int {
	for i, prefix := range []string{prefixEndpoint, prefixCluster, prefixLocal, prefixExternal, prefixFirewall} {
		if strings.HasPrefix(name, prefix) {
			return i
		}
	}
	return -1
}
