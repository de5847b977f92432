package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func followNFTables(t *trail) {
	for _, hook := range []string{"prerouting", "output", "input", "forward", "postrouting"} {
		type base struct {
			table nftTable
			name  string
		}
		var bases []base
		for _, table := range t.nft {
			for _, name := range table.order {
				if t.serves(table) && table.chains[name].hook == hook {
					bases = append(bases, base{table, name})
				}
			}
		}
		slices.SortStableFunc(bases, func(a, b base) int {
			return cmp.Compare(a.table.chains[a.name].rank(), b.table.chains[b.name].rank())
		})
		for _, b := range bases {
			t.hook(b.table, b.name)
		}
	}
}

// rank is the priority as a number: lower runs first.
func (c nftChain) rank() int {
	rank := 0
	sign := 1
	for _, w := range strings.Fields(c.priority) {
		n, named := map[string]int{"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100}[w]
		if !named {
			n, _ = strconv.Atoi(w) // "+" and "-" are none
		}
		rank += sign * n
		sign = 1
		if w == "-" {
			sign = -1
		}
	}
	return rank
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
	hops, ends := t.nftChain(table, name, 1, false)
	if chain.kind == "nat" && chain.hook == "prerouting" && ends {
		t.rewritten = true
	}
	if len(hops) > 0 {
		t.hop(0, table.name+" "+name, chain.kind+" hook "+chain.hook, entry[strings.ToUpper(chain.hook)])
		t.hops = append(t.hops, hops...)
	}
}

// nftChain lists the rules of a chain that lead to something about the packet's destination, or all that may match where the
// chain was come to by its destination (whole). It says whether no packet of this kind gets back out of the chain.
func (t *trail) nftChain(table nftTable, name string, depth int, whole bool) (hops []Hop, ends bool) {
	t.enter(table.name+name, func() { hops, ends = t.nftWalk(table, name, depth, whole || !t.general(table, name)) })
	return hops, ends
}

func (t *trail) nftWalk(table nftTable, name string, depth int, whole bool) (hops []Hop, ends bool) {
	some := false // some packets have left the chain on their way back
	for _, text := range table.chains[name].rules {
		r := t.read(table, text)
		if r.never {
			continue
		}
		below, out := t.verdicts(table, r, depth+1, whole)
		if len(below) > 0 || r.specific || whole {
			hops = append(hops, Hop{Depth: depth, Where: table.name + " " + name, Rule: text, Says: r.says()})
			for _, e := range r.elements {
				hops = append(hops, t.element(e, depth+1))
			}
			hops = append(hops, below...)
		}
		some = some || out.back
		if out.left && len(r.when) == 0 {
			return hops, !some
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

// outcome is what becomes of the packets that a rule matches.
type outcome struct {
	left bool // none of them sees the chain's next rule
	back bool // some of them go on where the chain was called from
}

// verdicts follows where a rule sends the packet.
func (t *trail) verdicts(table nftTable, r nftRule, depth int, whole bool) (hops []Hop, out outcome) {
	out.left = len(r.verdicts) > 0
	for _, v := range r.verdicts {
		verb, target, _ := strings.Cut(v, " ")
		switch verb {
		case "return":
			out.back = true
		case "goto", "jump":
			below, ends := t.nftChain(table, target, depth, whole || r.specific)
			hops = append(hops, below...)
			out.left = out.left && (verb == "goto" || ends)
			out.back = out.back || (verb == "goto" && !ends)
		}
	}
	return hops, out
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
