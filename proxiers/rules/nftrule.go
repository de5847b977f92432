package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// nftRule is what a rule of nftables means to the packet.
type nftRule struct {
	judgement
	does     []string
	elements []nftElement // of sets and maps that the packet meets
	verdicts []string     // "goto X", "jump X", "drop", ...: more than one where chance decides
}

// nftElement is an element of a named set or map.
type nftElement struct{ set, text string }

// reader goes through a rule's words.
type reader struct {
	*trail
	table nftTable
	words []string
	rule  nftRule
}

// read takes a rule apart.
func (t *trail) read(table nftTable, text string) nftRule {
	text, _, _ = strings.Cut(text, ` comment "`)
	r := reader{trail: t, table: table, words: words(text)}
	for len(r.words) > 0 && !r.rule.never {
		r.statement()
	}
	return r.rule
}

// words splits at spaces, keeping what is in braces together.
func words(text string) (list []string) {
	depth := 0
	for _, w := range strings.Fields(text) {
		if depth > 0 {
			list[len(list)-1] += " " + w
		} else {
			list = append(list, w)
		}
		depth += strings.Count(w, "{") - strings.Count(w, "}")
	}
	return list
}

func (r *reader) take(n int) []string {
	n = min(n, len(r.words))
	taken := r.words[:n]
	r.words = r.words[n:]
	return taken
}

func (r *reader) peek(i int) string {
	if i < len(r.words) {
		return r.words[i]
	}
	return ""
}

// says of the verdicts and statements that stand alone.
var nftDoes = map[string]string{
	"drop":       "drop it without an answer",
	"reject":     "refuse it at once, so that the client need not wait",
	"accept":     "let it pass this table",
	"return":     "done with this chain, go on where it was called",
	"masquerade": "replace the source by the node's address, with a port chosen at random",
	"counter":    "", "fully-random": "", "notrack": "do not track the connection",
}

// statement reads one statement or match.
func (r *reader) statement() {
	first := r.peek(0)
	switch {
	case first == "goto" || first == "jump":
		r.rule.verdicts = append(r.rule.verdicts, strings.Join(r.take(2), " "))
	case first == "dnat":
		r.dnat()
	case first == "reject":
		if with := strings.Join(r.take(len(r.words)), " "); strings.Contains(with, "tcp reset") && r.way.protocol != "tcp" {
			r.rule.never = true // nft does not print that it is for TCP alone
		}
		r.end("reject")
	case first == "update" || first == "add":
		r.take(3)
		r.rule.does = append(r.rule.does, "the client is remembered for its affinity")
	case first == "delete":
		r.take(3)
		r.rule.does = append(r.rule.does, "forget where the client went before, as that endpoint is gone")
	case first == "meta" && r.peek(1) == "mark" && r.peek(2) == "set":
		r.mark()
	case nftDoes[first] != "" || first == "counter" || first == "fully-random":
		r.take(1)
		if first == "drop" || first == "accept" || first == "return" || first == "masquerade" {
			r.end(first)
		}
	default:
		r.matchOrLookup()
	}
}

func (r *reader) end(verdict string) {
	r.rule.verdicts = append(r.rule.verdicts, verdict)
	r.rule.does = append(r.rule.does, nftDoes[verdict])
}

// mark reads "meta mark set ...": an or sets the mark, an xor or and takes it off.
func (r *reader) mark() {
	rest := strings.Join(r.words, " ")
	says := "mark it for masquerade: its source becomes the node's on the way out, so that answers come back here"
	if strings.Contains(rest, "^") || strings.Contains(rest, "& 0xffff") {
		says = "take the mark off again, it has served"
	}
	r.take(3)
	for len(r.words) > 0 && (r.words[0] == "meta" || r.words[0] == "mark" || r.words[0] == "|" || r.words[0] == "^" ||
		r.words[0] == "&" || r.words[0] == "or" || r.words[0] == "xor" || r.words[0] == "and" || strings.HasPrefix(r.words[0], "0x")) {
		r.take(1)
	}
	r.rule.does = append(r.rule.does, says)
}

// dnat reads "dnat [ip] to 10.0.0.1:80" and "dnat ip to KEY map MAP".
func (r *reader) dnat() {
	for w := r.take(1); len(w) > 0 && w[0] != "to"; w = r.take(1) {
	}
	r.rule.verdicts = append(r.rule.verdicts, "dnat")
	if to, err := netip.ParseAddrPort(r.peek(0)); err == nil {
		r.take(1)
		r.rule.does = append(r.rule.does, "the destination becomes "+r.whose(to.String()))
		return
	}
	key, chance := r.key()
	if len(key) == 0 || r.peek(0) != "map" {
		r.rule.does = append(r.rule.does, "the destination becomes "+strings.Join(r.take(len(r.words)), " "))
		return
	}
	operand := r.take(2)[1]
	r.rule.does = append(r.rule.does, "the destination becomes that of an endpoint"+chance)
	if name, named := strings.CutPrefix(operand, "@"); named {
		found := r.lookup(name, key)
		r.rule.never = len(found) == 0
		return
	}
	for _, e := range splitElements(strings.Trim(operand, "{} ")) {
		r.rule.elements = append(r.rule.elements, nftElement{"", e})
	}
}

// matchOrLookup reads a key and what it is compared with.
func (r *reader) matchOrLookup() {
	key, chance := r.key()
	if len(key) == 0 {
		r.take(1) // a word that says nothing to us
		return
	}
	not := r.peek(0) == "!="
	if not || r.peek(0) == "==" {
		r.take(1)
	}
	switch r.peek(0) {
	case "vmap":
		r.vmap(key, chance, r.take(2)[1])
	default:
		r.compare(key, not, strings.Join(r.take(1), ""))
	}
}

func (r *reader) vmap(key []part, chance, operand string) {
	if chance != "" {
		r.rule.does = append(r.rule.does, "choose an endpoint"+chance)
	}
	elements := splitElements(strings.Trim(operand, "{} "))
	name, named := strings.CutPrefix(operand, "@")
	if named {
		elements = r.lookup(name, key)
	}
	for _, e := range elements {
		if _, verdict, ok := strings.Cut(e, " : "); ok && (named || matches(e, key)) {
			r.rule.verdicts = append(r.rule.verdicts, verdict)
		}
	}
	r.rule.never = len(r.rule.verdicts) == 0
}

// compare matches a key with a set or a value.
func (r *reader) compare(key []part, not bool, operand string) {
	if name, named := strings.CutPrefix(operand, "@"); named {
		r.inSet(key, not, name)
		return
	}
	values := splitElements(strings.Trim(operand, "{} "))
	known := !slices.ContainsFunc(key, func(p part) bool { return p.value == "" })
	if !known {
		r.rule.when = append(r.rule.when, r.inWords(key[0], not, values))
		return
	}
	in := slices.ContainsFunc(values, func(v string) bool { return matches(v, key) })
	r.rule.never = in == not
	r.rule.specific = r.rule.specific || key[0].destination && in && !strings.Contains(operand, "/")
}

func (r *reader) inSet(key []part, not bool, name string) {
	known := !slices.ContainsFunc(key, func(p part) bool { return p.value == "" })
	found := r.find(name, key)
	switch {
	case !known && strings.Contains(name, "affinity"): // who is in there changes with each client
		r.rule.when = append(r.rule.when, whoIsIn(name))
	case known || len(key) > 1:
		r.rule.never = (len(found) > 0) == not
		if !not {
			r.meet(name, found)
		}
		if !known {
			r.rule.when = append(r.rule.when, "the source is in the set "+name)
		}
	case not:
		r.rule.when = append(r.rule.when, "the source is not in the set "+name)
	default:
		r.rule.when = append(r.rule.when, whoIsIn(name))
	}
}

// inWords puts a match on what is not known of the packet into words.
func (r *reader) inWords(p part, not bool, values []string) string {
	is := "is"
	if not {
		is = "is not"
	}
	text := strings.Join(values, ", ")
	switch {
	case p.name == "fib saddr type" && text == "local" && !not:
		return "it comes from the node itself"
	case strings.HasSuffix(p.name, "saddr"):
		var who []string
		for _, v := range values {
			who = append(who, strings.TrimPrefix(r.fromWhere(v, false), "it comes from "))
		}
		if not {
			return "it does not come from " + strings.Join(who, " or ")
		}
		return "it comes from " + strings.Join(who, " or ")
	case strings.HasPrefix(p.name, "meta mark"):
		return "it was marked for masquerade"
	}
	return fmt.Sprintf("its %s %s %s", p.name, is, text)
}

// lookup finds elements by key and notes that the packet meets them.
func (r *reader) lookup(name string, key []part) []string {
	found := r.find(name, key)
	r.meet(name, found)
	return found
}

func (r *reader) meet(name string, found []string) {
	r.rule.specific = r.rule.specific || len(found) > 0
	for _, e := range found {
		r.rule.elements = append(r.rule.elements, nftElement{name, e})
	}
}

func (r *reader) find(name string, key []part) (found []string) {
	for _, e := range r.table.sets[name] {
		if matches(e, key) {
			found = append(found, e)
		}
	}
	return found
}

// part is one component of a key; its value is empty where it is not known.
type part struct {
	name, value string
	destination bool
}

// key reads components joined by dots. Chance says in words what a random one means.
func (r *reader) key() (key []part, chance string) {
	for {
		p, n := r.component()
		if n == 0 {
			return key, chance
		}
		if p.name == "numgen" && r.peek(3) != "1" {
			chance = fmt.Sprintf(", one of %s by chance", r.words[3])
		}
		key = append(key, p)
		r.take(n)
		if r.peek(0) != "." {
			return key, chance
		}
		r.take(1)
	}
}

// component recognises what a key is made of.
func (r *reader) component() (p part, words int) {
	port, addr := strconv.Itoa(int(r.way.to.Port())), r.way.to.Addr().String()
	two := r.peek(0) + " " + r.peek(1)
	switch two {
	case "ip daddr", "ip6 daddr":
		if (r.peek(0) == "ip6") != r.way.to.Addr().Is6() {
			return part{two, "another family", true}, 2
		}
		if r.peek(2) == "&" { // with all bits masked, a key that is the same for every address of the node
			return part{two, r.peek(3), true}, 4
		}
		return part{two, addr, true}, 2
	case "meta l4proto", "ip protocol", "ip6 nexthdr":
		return part{two, r.way.protocol, false}, 2
	case "th dport":
		return part{two, port, true}, 2
	case "tcp dport", "udp dport", "sctp dport":
		if r.peek(0) != r.way.protocol {
			return part{two, "another protocol", true}, 2
		}
		return part{two, port, true}, 2
	case "ct state":
		return part{two, "new", false}, 2
	case "ip saddr", "ip6 saddr", "ct status":
		return part{two, "", false}, 2
	case "meta mark":
		if r.peek(2) == "&" {
			return part{two, "", false}, 4
		}
		return part{two, "", false}, 2
	case "meta nfproto":
		return part{two, map[bool]string{false: "ipv4", true: "ipv6"}[r.way.to.Addr().Is6()], false}, 2
	case "numgen inc": // modulo 1 it is a constant, which nft cannot write into a key otherwise
		if r.peek(4) == "offset" {
			return part{"constant", r.peek(5), false}, 6
		}
		return part{"constant", "0", false}, 4
	case "numgen random":
		return part{"numgen", "", false}, 4
	case "fib daddr":
		return part{"fib daddr type", map[bool]string{true: "local", false: "unicast"}[r.way.local], false}, 3
	case "fib saddr":
		return part{"fib saddr type", "", false}, 3
	}
	return part{}, 0
}

// matches compares an element's key with a packet's; what is not known of the packet matches.
func matches(element string, key []part) bool {
	text, _, _ := strings.Cut(element, " : ")
	for _, cut := range []string{` comment "`, " timeout ", " expires ", " counter "} {
		text, _, _ = strings.Cut(text, cut)
	}
	parts := strings.Split(text, " . ")
	if len(parts) != len(key) {
		return false
	}
	for i, p := range parts {
		if key[i].value != "" && !same(strings.TrimSpace(p), key[i].value) {
			return false
		}
	}
	return true
}

func same(element, value string) bool {
	if element == value || slices.Contains(strings.Split(element, ","), value) {
		return true
	}
	pfx, err := netip.ParsePrefix(element)
	addr, errA := netip.ParseAddr(value)
	return err == nil && errA == nil && pfx.Contains(addr)
}

// whoIsIn says what it means that a source is in a set.
func whoIsIn(set string) string {
	if strings.Contains(set, "affinity") {
		return "the client was sent there before (it is in " + set + ")"
	}
	return "the source is in the set " + set
}
