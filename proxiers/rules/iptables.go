package rules

import (
	"net/netip"
	"strings"
)

// terminal targets end a packet's way through a table, or at least through the chain.
var terminal = map[string]bool{"DNAT": true, "REDIRECT": true, "DROP": true, "REJECT": true, "ACCEPT": true, "RETURN": true, "MASQUERADE": true}

func (t *trail) tables() map[string]table {
	if t.way.to.Addr().Is6() {
		return t.v6
	}
	return t.v4
}

func followIPTables(t *trail) {
	if always := t.intoNAT(); !always {
		t.throughFilter()
	}
	t.outByNAT()
}

// intoNAT follows the packet from where it enters the node to where its destination is changed. That may be always: then
// the filter table does not see the Service's address.
func (t *trail) intoNAT() (always bool) {
	always = true
	for _, base := range []string{"PREROUTING", "OUTPUT"} {
		hops, ends := t.chain("nat", t.tables()["nat"], base, 0, false)
		t.hops = append(t.hops, hops...)
		always = always && ends
	}
	return always
}

// throughFilter shows what of the filter table is about this Service.
func (t *trail) throughFilter() {
	for _, base := range []string{"INPUT", "FORWARD", "OUTPUT"} {
		hops, _ := t.chain("filter", t.tables()["filter"], base, 0, false)
		t.hops = append(t.hops, hops...)
	}
}

// outByNAT shows where the source may be changed on the way out.
func (t *trail) outByNAT() {
	nat := t.tables()["nat"]
	for _, r := range nat["POSTROUTING"] {
		if !own(r.target) {
			continue
		}
		t.hop(0, "nat POSTROUTING", r.text, entry["POSTROUTING"])
		for _, inner := range nat[r.target] {
			if j := t.judge(inner); !j.never {
				t.hop(1, "nat "+r.target, inner.text, t.says(inner, j.when))
			}
		}
	}
}

// entry explains the chains that the kernel calls.
var entry = map[string]string{
	"PREROUTING":  "where packets from pods, other nodes and outside arrive, before the node decides where they go",
	"OUTPUT":      "where packets of the node's own processes start",
	"INPUT":       "packets for the node itself",
	"FORWARD":     "packets that the node passes on",
	"POSTROUTING": "every packet's last stop, where its source may become the node's",
}

// chain lists the rules of a chain that lead to something about the packet's destination, or all that may match where the
// chain was come to by its destination (whole). It says whether no packet of this kind gets past the chain.
func (t *trail) chain(name string, rules table, chain string, depth int, whole bool) (hops []Hop, ends bool) {
	t.enter(name+chain, func() { hops, ends = t.walk(name, rules, chain, depth, whole || ofService(chain)) })
	return hops, ends
}

func (t *trail) walk(name string, rules table, chain string, depth int, whole bool) (hops []Hop, ends bool) {
	some := false // some packets have left the chain on their way back
	for _, r := range rules[chain] {
		j := t.judge(r)
		if j.never {
			continue
		}
		some = some || r.target == "RETURN"
		says := t.says(r, j.when)
		if depth == 0 {
			says = entry[chain]
		}
		here := Hop{Depth: depth, Where: name + " " + chain, Rule: r.text, Says: says}
		if _, jumps := rules[r.target]; jumps && r.target != "KUBE-MARK-MASQ" { // its one rule is explained by the jump
			below, over := t.chain(name, rules, r.target, depth+1, j.specific)
			// A jump is of interest when it is about this destination, or leads to what is.
			if len(below) > 0 || j.specific || whole {
				hops = append(append(hops, here), below...)
			}
			if over && len(j.when) == 0 {
				return hops, !some
			}
			continue
		}
		if j.specific || whole {
			hops = append(hops, here)
			if terminal[r.target] && len(j.when) == 0 {
				return hops, !some
			}
		}
	}
	return hops, false
}

// ofService: the chain belongs to one Service port or endpoint, so each of its rules is about it.
func ofService(chain string) bool {
	for _, start := range []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"} {
		if strings.HasPrefix(chain, start) {
			return true
		}
	}
	return false
}

// own: the chain is a Service proxy's.
func own(chain string) bool {
	return strings.HasPrefix(chain, "KUBE-") || strings.HasPrefix(chain, "PROXYLAB-")
}

// says explains a rule: when it matches, and what it does.
func (t *trail) says(r rule, when []string) string {
	what := t.does(r)
	if len(when) == 0 {
		return what
	}
	return "when " + strings.Join(when, " and ") + ": " + what
}

// chains says what those of kube-proxy's names are for, by how they begin.
var chains = []struct{ start, says string }{
	{"KUBE-SERVICES", "look the destination up among the Services"},
	{"KUBE-EXTERNAL-SERVICES", "look the destination up among those reached from outside"},
	{"KUBE-NODEPORTS", "look the port up among the node ports"},
	{"KUBE-NODE-PORT", "look the port up among the node ports"},
	{"KUBE-SVC-", "go to this Service port's chain, which chooses one of all its endpoints"},
	{"KUBE-SVL-", "go to this Service port's local chain, which chooses one of its endpoints on this node"},
	{"KUBE-EXT-", "go to this Service port's chain for traffic from outside, where the traffic policy decides"},
	{"KUBE-FW-", "go to where the source ranges of the balancer are checked"},
	{"KUBE-SEP-", "go to the chain of one endpoint"},
	{"KUBE-MARK-MASQ", "mark it for masquerade: its source becomes the node's on the way out, so that answers come back here"},
	{"KUBE-PROXY-FIREWALL", "drop what the source ranges do not allow"},
	{"KUBE-SOURCE-RANGES-FIREWALL", "check the source against the balancer's source ranges"},
	{"KUBE-LOAD-BALANCER", "treat it as traffic that comes through a load balancer address"},
	{"KUBE-POSTROUTING", "see whether the source must be changed"},
	{"KUBE-IPVS-FILTER", "keep the node's own ports from being reached by Service addresses"},
	{"KUBE-PORTALS-", "look the destination up among the Service addresses"},
	{"KUBE-NODEPORT-NON-LOCAL", "let in what the process listens for"},
	{"KUBE-NODEPORT-", "look the port up among the node ports"},
}

func (t *trail) does(r rule) string {
	switch r.target {
	case "DNAT":
		return t.doesDNAT(r)
	case "REJECT":
		return "refuse it at once, so that the client need not wait"
	case "DROP":
		return "drop it without an answer"
	case "ACCEPT":
		return "let it pass"
	case "RETURN":
		return "done with this chain, go on where it was called"
	case "MASQUERADE":
		return "replace the source by the node's address, with a port chosen at random"
	case "MARK":
		if value, ok := r.option("--set-xmark"); ok && strings.HasSuffix(value, "/0x0") {
			return "take the mark off again, it has served"
		}
		return "set the mark"
	case "":
		return "only a remark"
	}
	for _, c := range chains {
		if strings.HasPrefix(r.target, c.start) {
			return c.says
		}
	}
	return "go on in " + r.target
}

// doesDNAT tells an endpoint from the port of a proxy process on the node.
func (t *trail) doesDNAT(r rule) string {
	to, _ := r.option("--to-destination")
	text := "the destination becomes " + t.whose(to)
	ap, err := netip.ParseAddrPort(to)
	if err == nil && !t.isEndpoint(ap.Addr()) && t.nodeAddress(ap.Addr().Is6()) == ap.Addr().String() {
		text = "send it to the proxy process on this node, which listens on " + to
	}
	if _, remembers := r.option("--name"); remembers {
		text += ", and the client is remembered for its affinity"
	}
	return text
}
