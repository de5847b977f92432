package iptables

// Tables of the kernel.
const (
	tableNat    = "nat"
	tableFilter = "filter"
	tableMangle = "mangle"
)

// staticChain is a chain whose rules do not depend on Services.
type staticChain struct {
	table, name string
	rules       []string
}

// statics are the chains that are there whatever the Services are.
func (e env) statics() []staticChain {
	masq := "-j MASQUERADE"
	if e.randomFully {
		// Without it two connections that are translated at the same moment may be given the same source port, and
		// one of them loses its first packet.
		masq += " --random-fully"
	}
	return []staticChain{
		{tableFilter, chainForward, e.forwardRules()},
		{tableFilter, chainKubeletFirewall, e.localnetRules()},
		{tableFilter, chainCanary, nil},
		{tableNat, chainPostrouting, []string{
			"-m mark ! --mark " + masqMark + "/" + masqMark + " -j RETURN",
			"-j MARK --set-xmark " + masqMark + "/0x0",
			`-m comment --comment "kubernetes service traffic requiring SNAT" ` + masq,
		}},
		{tableNat, chainMarkMasq, []string{"-j MARK --set-xmark " + masqMark + "/" + masqMark}},
		{tableNat, chainCanary, nil},
	}
}

// forwardRules: a packet that conntrack finds INVALID is not translated back, and would make the other side reset a
// good connection.
func (e env) forwardRules() []string {
	var rules []string
	if !e.tcpLiberal {
		rules = append(rules, "-m conntrack --ctstate INVALID -j DROP")
	}
	return append(rules,
		`-m comment --comment "kubernetes forwarding rules" -m mark --mark `+masqMark+"/"+masqMark+" -j ACCEPT",
		`-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`)
}

// localnetRules close the hole that route_localnet opens: a neighbour could otherwise reach what listens on 127.0.0.1.
func (e env) localnetRules() []string {
	if e.v6 {
		return nil
	}
	return []string{`! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" ` +
		"-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"}
}

// nodePortsTail is the last rule of nat KUBE-SERVICES. Node ports are served on every local address, on loopback in
// IPv4 alone (there is no route_localnet in IPv6).
func (e env) nodePortsTail() string {
	rule := `-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" ` +
		"-m addrtype --dst-type LOCAL -j " + chainNodePorts
	if e.v6 {
		return "! -d ::1/128 " + rule
	}
	return rule
}

// jump is a rule in a chain of the kernel's that leads into one of ours.
type jump struct {
	table, from, to string
	args            []string // all but "-j to"
}

func (j jump) spec() []string { return append(append([]string{}, j.args...), "-j", j.to) }

// text is the rule as iptables-save prints it.
func (j jump) text() string {
	s := "-A " + j.from
	for i, a := range j.args {
		if i > 0 && j.args[i-1] == "--comment" {
			a = `"` + a + `"`
		}
		s += " " + a
	}
	return s + " -j " + j.to
}

// jumps are put before whatever else is in the chain, in this order, so the last comes to stand first.
func jumps() []jump {
	to := func(table, from, chain, comment string, match ...string) jump {
		return jump{table, from, chain, append(match, "-m", "comment", "--comment", comment)}
	}
	isNew := []string{"-m", "conntrack", "--ctstate", "NEW"}
	fw := func(from string) jump {
		return to(tableFilter, from, chainProxyFirewall, "kubernetes load balancer firewall", isNew...)
	}
	return []jump{
		to(tableFilter, "INPUT", chainExternalServices, "kubernetes externally-visible service portals", isNew...),
		to(tableFilter, "FORWARD", chainExternalServices, "kubernetes externally-visible service portals", isNew...),
		to(tableFilter, "INPUT", chainNodePorts, "kubernetes health check service ports"),
		to(tableFilter, "FORWARD", chainServices, "kubernetes service portals", isNew...),
		to(tableFilter, "OUTPUT", chainServices, "kubernetes service portals", isNew...),
		to(tableFilter, "FORWARD", chainForward, "kubernetes forwarding rules"),
		fw("INPUT"), fw("OUTPUT"), fw("FORWARD"),
		{tableFilter, "INPUT", chainKubeletFirewall, nil},
		{tableFilter, "OUTPUT", chainKubeletFirewall, nil},
		to(tableNat, "OUTPUT", chainServices, "kubernetes service portals"),
		to(tableNat, "PREROUTING", chainServices, "kubernetes service portals"),
		to(tableNat, "POSTROUTING", chainPostrouting, "kubernetes postrouting rules"),
	}
}
