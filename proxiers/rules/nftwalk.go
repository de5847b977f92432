package rules

import (
	"strings"
)

func followNFTables(t *trail) {
	for _, hook := range []string{"prerouting", "output", "input", "forward", "postrouting"} {
		for _, table := range t.nft {
			if !t.serves(table) {
				continue
			}
			for _, name := range table.order {
				if table.chains[name].hook == hook {
					t.hook(table, name)
				}
			}
		}
	}
}

// serves: the table is a Service proxy's, and sees packets of the family.
func (t *trail) serves(table nftTable) bool {
	family := "ip"
	if t.way.to.Addr().Is6() {
		family = "ip6"
	}
	return (table.family == family || table.family == "inet") &&
		(strings.HasPrefix(table.name, "kube-proxy") || strings.HasPrefix(table.name, "proxylab"))
}

// hook follows the packet through a base chain. Once nat chains give each packet another destination, the filter chains
// that come after them do not see the Service's address.
func (t *trail) hook(table nftTable, name string) {
	chain := table.chains[name]
	if t.rewritten && chain.kind == "filter" && (chain.priority == "filter" || chain.priority == "0") {
		return
	}
	hops, ends := t.nftChain(table, name, 1)
	if chain.kind == "nat" && chain.hook == "prerouting" && ends {
		t.rewritten = true
	}
	if len(hops) > 0 {
		t.hop(0, table.name+" "+name, chain.kind+" hook "+chain.hook, entry[strings.ToUpper(chain.hook)])
		t.hops = append(t.hops, hops...)
	}
}

func (t *trail) nftChain(table nftTable, name string, depth int) (hops []Hop, ends bool) {
	t.enter(table.name+name, func() { hops, ends = t.nftWalk(table, name, depth) })
	return hops, ends
}

func (t *trail) nftWalk(table nftTable, name string, depth int) (hops []Hop, ends bool) {
	whole := !t.general(table, name)
	for _, text := range table.chains[name].rules {
		r := t.read(table, text)
		if r.never {
			continue
		}
		below, over := t.verdicts(table, r, depth+1)
		if len(below) > 0 || r.specific || whole {
			hops = append(hops, Hop{Depth: depth, Where: table.name + " " + name, Rule: text, Says: r.says()})
			for _, e := range r.elements {
				hops = append(hops, t.element(e, depth+1))
			}
			hops = append(hops, below...)
		}
		if over && len(r.when) == 0 {
			return hops, true
		}
	}
	return hops, false
}

// general: the chain is about all Services, so that only those of its rules are of interest that lead to this one.
func (t *trail) general(table nftTable, name string) bool {
	if table.chains[name].hook != "" {
		return true
	}
	for _, text := range table.chains[name].rules {
		if strings.Contains(text, " daddr ") && strings.Contains(text, "@") && !strings.Contains(text, "masquerade") {
			return true
		}
	}
	return false
}

// verdicts follows where a rule sends the packet. It is over when no packet that matches comes back.
func (t *trail) verdicts(table nftTable, r nftRule, depth int) (hops []Hop, over bool) {
	over = len(r.verdicts) > 0
	for _, v := range r.verdicts {
		verb, target, _ := strings.Cut(v, " ")
		if verb != "goto" && verb != "jump" {
			continue
		}
		below, ends := t.nftChain(table, target, depth)
		hops = append(hops, below...)
		over = over && (verb == "goto" || ends)
	}
	return hops, over
}

func (t *trail) element(e nftElement, depth int) Hop {
	where := "map element"
	if e.set != "" {
		where = "element of " + e.set
	}
	says := "the packet's destination is here"
	if _, value, ok := strings.Cut(e.text, " : "); ok {
		says = "leads to " + value
		if to := endpointOf(value); to != "" {
			says = "endpoint " + t.whose(to)
		}
	}
	return Hop{Depth: depth, Where: where, Rule: e.text, Says: says}
}

// endpointOf reads "10.244.1.2 . 8080" as an address and port.
func endpointOf(value string) string {
	addr, port, ok := strings.Cut(value, " . ")
	if !ok {
		return ""
	}
	if strings.Contains(addr, ":") {
		addr = "[" + addr + "]"
	}
	return addr + ":" + port
}

// says puts a rule into words.
func (r nftRule) says() string {
	var what []string
	for _, d := range r.does {
		if d != "" {
			what = append(what, d)
		}
	}
	for _, v := range r.verdicts {
		if verb, target, _ := strings.Cut(v, " "); (verb == "goto" || verb == "jump") && len(r.verdicts) == 1 {
			what = append(what, "go on in "+target)
		}
	}
	if len(what) == 0 {
		what = []string{"the packet's destination is among these"}
	}
	text := strings.Join(what, ", ")
	if len(r.when) > 0 {
		text = "when " + strings.Join(r.when, " and ") + ": " + text
	}
	return text
}
