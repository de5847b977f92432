package ipvs

import (
	"fmt"

	"proxylab/proxiers/services"
)

const (
	tableNat    = "nat"
	tableFilter = "filter"
	tableMangle = "mangle"

	// masqMark is the packet mark for masquerading: kube-proxy's default bit 14.
	masqMark = "0x4000/0x4000"
)

var tables = []string{tableMangle, tableNat, tableFilter}

// ruleEnv is what a family's rules depend on; not on Services, whose number they do not grow with.
type ruleEnv struct {
	family      services.Family
	podCIDR     string // empty: unknown, then nothing counts as a pod of this node
	randomFully bool
	tcpLiberal  bool // conntrack calls fewer packets INVALID, and they are let pass
}

// chain is a chain with its rules, without "-A name".
type chain struct {
	table, name string
	rules       []string
}

func (e ruleEnv) set(id setID, match string) string {
	return "-m set --match-set " + setName(e.family, id) + " " + match
}

const (
	isNew       = "-m conntrack --ctstate NEW "
	notFromNode = " -m addrtype ! --src-type LOCAL"
	dst         = "dst,dst"
)

// chains are all of this mode's, whole.
func (e ruleEnv) chains() []chain {
	masq := "-j MASQUERADE"
	if e.randomFully {
		// Or two connections that are translated at the same moment may be given the same source port.
		masq += " --random-fully"
	}
	return []chain{
		{tableMangle, chainCanary, nil},
		{tableMangle, chainIPVSOut, []string{
			isNew + e.set(setNoLocal, dst) + " -j DROP",
			isNew + e.set(setLoadBalancerFW, dst) + " -m set ! --match-set " + setName(e.family, setSourceCIDR) + " dst,dst,src" +
				" -m set ! --match-set " + setName(e.family, setSourceIP) + " dst,dst,src -j DROP",
		}},
		{tableNat, chainCanary, nil},
		{tableNat, chainServices, e.services()},
		{tableNat, chainLoadBalancer, []string{
			e.set(setLoadBalancerLocal, dst) + notFromNode + " -j RETURN",
			"-j " + chainMarkMasq,
		}},
		{tableNat, chainNodePort, e.nodePort()},
		{tableNat, chainMarkMasq, []string{"-j MARK --set-xmark " + masqMark}},
		{tableNat, chainPostrouting, []string{
			`-m comment --comment "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose" ` + e.set(setLoopBack, "dst,dst,src") + " " + masq,
			"-m mark ! --mark " + masqMark + " -j RETURN",
			"-j MARK --set-xmark 0x4000/0x0",
			`-m comment --comment "kubernetes service traffic requiring SNAT" ` + masq,
		}},
		{tableFilter, chainCanary, nil},
		{tableFilter, chainForward, e.forward()},
		{tableFilter, chainNodePort, []string{
			`-m comment --comment "Kubernetes health check node port" ` + e.set(setHealthCheckNodePort, "dst") + " -j ACCEPT",
		}},
		{tableFilter, chainProxyFirewall, []string{
			isNew + e.set(setLoadBalancerFW, dst) + " -j " + chainSourceRanges,
		}},
		{tableFilter, chainSourceRanges, []string{
			e.set(setSourceCIDR, "dst,dst,src") + " -j RETURN",
			e.set(setSourceIP, "dst,dst,src") + " -j RETURN",
			"-j DROP",
		}},
		{tableFilter, chainIPVSFilter, e.filter()},
	}
}

// services marks what is to be masqueraded. A connection of the node to a Service address comes from that address, which
// an endpoint elsewhere could not answer to.
func (e ruleEnv) services() []string {
	loopback := "127.0.0.0/8"
	if e.family == services.IPv6 {
		loopback = "::1/128"
	}
	outside := " -m addrtype --src-type LOCAL"
	if e.podCIDR != "" {
		outside = " ! -s " + e.podCIDR
	}
	// iptables-save prints the source first.
	cluster := fmt.Sprintf(`-m comment --comment "Kubernetes service cluster ip + port for masquerade purpose" %s%s -j %s`,
		e.set(setClusterIP, dst), outside, chainMarkMasq)
	if e.podCIDR != "" {
		cluster = fmt.Sprintf(`! -s %s -m comment --comment "Kubernetes service cluster ip + port for masquerade purpose" %s -j %s`,
			e.podCIDR, e.set(setClusterIP, dst), chainMarkMasq)
	}
	return []string{
		"-s " + loopback + " -j RETURN",
		`-m comment --comment "Kubernetes service lb portal" ` + e.set(setLoadBalancer, dst) + " -j " + chainLoadBalancer,
		cluster,
		`-m comment --comment "Kubernetes service external ip + port for masquerade and filter purpose" ` + e.set(setExternalIP, dst) + " -j " + chainMarkMasq,
		e.set(setExternalIPLocal, dst) + " -m addrtype --src-type LOCAL -j " + chainMarkMasq,
		"-m addrtype --dst-type LOCAL -j " + chainNodePort,
		e.set(setClusterIP, dst) + " -j ACCEPT", // other translations are not for them
		e.set(setLoadBalancer, dst) + " -j ACCEPT",
	}
}

// nodePort: under policy Local what comes from outside keeps its source.
func (e ruleEnv) nodePort() []string {
	var rules []string
	for _, p := range []struct {
		protocol   string
		all, local setID
		match      string
	}{
		{"tcp", setNodePortTCP, setNodePortLocalTCP, "dst"},
		{"udp", setNodePortUDP, setNodePortLocalUDP, "dst"},
		{"sctp", setNodePortSCTP, setNodePortLocalSCTP, dst},
	} {
		rules = append(rules,
			"-p "+p.protocol+" "+e.set(p.local, p.match)+notFromNode+" -j RETURN",
			"-p "+p.protocol+" "+e.set(p.all, p.match)+" -j "+chainMarkMasq)
	}
	return rules
}

// forward: a packet that conntrack finds INVALID may reach a side that knows nothing of it, whose reset ends a good
// connection.
func (e ruleEnv) forward() []string {
	var rules []string
	if !e.tcpLiberal {
		rules = append(rules, "-m conntrack --ctstate INVALID -j DROP")
	}
	return append(rules,
		`-m comment --comment "kubernetes forwarding rules" -m mark --mark `+masqMark+" -j ACCEPT",
		`-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`)
}

// filter stands where packets come in for the node, before IPVS takes those for virtual servers. TCP is refused by a
// reset, since the kernel sends only so many ICMP errors per second.
func (e ruleEnv) filter() []string {
	reset, unreachable := " -j REJECT --reject-with tcp-reset", " -j REJECT --reject-with icmp-port-unreachable"
	elsewhere := notFromNode
	if e.family == services.IPv6 {
		unreachable = " -j REJECT --reject-with icmp6-port-unreachable"
	}
	var rules []string
	if !e.tcpLiberal {
		rules = append(rules, "-m conntrack --ctstate INVALID "+e.set(setIPVSIPs, "dst")+" -j DROP")
		for _, id := range []setID{setNodePortTCP} {
			rules = append(rules, "-p tcp -m conntrack --ctstate INVALID "+e.set(id, "dst")+" -j DROP")
		}
	}
	source := ""
	if e.podCIDR != "" {
		source = "! -s " + e.podCIDR + " "
	}
	rules = append(rules,
		"-p tcp "+isNew+e.set(setNoEndpoints, dst)+reset,
		isNew+e.set(setNoEndpoints, dst)+unreachable,
		isNew+e.set(setNoLocal, dst)+" -j DROP",
		source+isNew+e.set(setNoLocalExternal, dst)+elsewhere+" -j DROP")
	for _, id := range []setID{setLoadBalancer, setClusterIP, setExternalIP, setExternalIPLocal} {
		rules = append(rules, e.set(id, dst)+" -j RETURN")
	}
	return append(rules,
		e.set(setHealthCheckNodePort, "dst")+" -j RETURN",
		"-p tcp "+isNew+e.set(setIPVSIPs, "dst")+reset,
		isNew+e.set(setIPVSIPs, "dst")+unreachable)
}

// jump is a rule of a chain of the kernel's that leads into one of ours.
type jump struct{ table, from, to, comment string }

func (j jump) rule() string {
	return fmt.Sprintf("-m comment --comment %q -j %s", j.comment, j.to)
}

// jumps are put before whatever else is in their chains, in this order, so the last comes to stand first.
func jumps() []jump {
	return []jump{
		{tableMangle, "OUTPUT", chainIPVSOut, "kubernetes ipvs access filter"},
		{tableNat, "OUTPUT", chainServices, "kubernetes service portals"},
		{tableNat, "PREROUTING", chainServices, "kubernetes service portals"},
		{tableNat, "POSTROUTING", chainPostrouting, "kubernetes postrouting rules"},
		{tableFilter, "FORWARD", chainForward, "kubernetes forwarding rules"},
		{tableFilter, "INPUT", chainNodePort, "kubernetes health check rules"},
		{tableFilter, "INPUT", chainProxyFirewall, "kube-proxy firewall rules"},
		{tableFilter, "FORWARD", chainProxyFirewall, "kube-proxy firewall rules"},
		{tableFilter, "INPUT", chainIPVSFilter, "kubernetes ipvs access filter"},
	}
}
