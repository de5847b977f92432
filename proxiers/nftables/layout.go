package nftables

import (
	"slices"

	"sigs.k8s.io/knftables"
)

// Table is the name of the tables of both families.
const Table = "proxylab"

// Chains that are always there.
const (
	chainServices      = "services"
	chainNodePorts     = "nodeports"
	chainMark          = "mark-for-masquerade"
	chainExternalLocal = "external-local"
	chainNodePortLocal = "nodeport-local"
	chainMasquerading  = "masquerading"
	chainEndpoints     = "service-endpoints-check"
	chainNodePortCheck = "nodeport-endpoints-check"
	chainClusterIPs    = "cluster-ips-check"
	chainFirewallCheck = "firewall-check"
	chainFirewall      = "firewall"
	chainReject        = "reject-chain"
	// chainLayout is empty. Its name says how the table is laid out: one of another layout is not reused but made anew.
	chainLayout = "layout-2"
)

// store is a map or set of the table.
type store uint8

const (
	serviceIPs store = iota
	localServiceIPs
	servicePolicies
	tcpEndpoints // each list for policy Local comes after that for policy Cluster
	localTCPEndpoints
	udpEndpoints
	localUDPEndpoints
	sctpEndpoints
	localSCTPEndpoints
	affinitySlots
	localAffinitySlots
	affinityPicks
	localAffinityPicks
	noEndpointServices
	firewallIPs
	sourceRanges
	clusterIPs
	hairpinConnections
	numStores
)

// affinityOf is the set of clients of a protocol that have an endpoint. It is written by packets alone. There is one for each
// protocol because nft keeps no more than four parts of a key by what they are: with a fifth it forgets the size of the
// number, and from then on fails at whatever makes it list the set.
func affinityOf(protocol uint8) string { return protocols[protocol] + "-affinity" }

// affinitySize bounds the number of clients remembered for a protocol; those beyond it are served without affinity.
const affinitySize = 1 << 20

var storeNames = [numStores]string{
	"service-ips", "local-service-ips", "service-policies", "tcp-endpoints", "local-tcp-endpoints", "udp-endpoints",
	"local-udp-endpoints", "sctp-endpoints", "local-sctp-endpoints", "affinity-slots", "local-affinity-slots", "affinity-picks",
	"local-affinity-picks", "no-endpoint-services", "firewall-ips", "source-ranges", "cluster-ips", "hairpin-connections",
}

func (s store) name() string { return storeNames[s] }

func (s store) isMap() bool { return s < firewallIPs }

// shared says that elements may be there for several Service ports at once; those of other stores belong to one.
func (s store) shared() bool { return s >= clusterIPs }

var numMaps = int(firewallIPs)

// number is the expression that describes a number to nft, which has no name for that type.
const number = " . numgen random mod 2"

// protocols with ports, as nft calls them.
var protocols = []string{"tcp", "udp", "sctp"}

// endpointsOf is the store for endpoints of a protocol, by index in protocols.
func endpointsOf(protocol uint8, local bool) store {
	return (tcpEndpoints + store(2*protocol)).of(local)
}

// of is the store for the endpoints on this node, if local, respectively for all.
func (s store) of(local bool) store {
	if local {
		return s + 1
	}
	return s
}

// object is the definition of the map or set.
func (s store) object(e env) knftables.Object {
	dest := e.addrType() + " . inet_proto . inet_service"
	m := &knftables.Map{Name: s.name()}
	switch s {
	case serviceIPs, localServiceIPs, servicePolicies, noEndpointServices:
		m.Type = dest + " : verdict"
	case affinitySlots, localAffinitySlots, affinityPicks, localAffinityPicks:
		m.TypeOf = e.destination(false) + number + " : verdict"
	case tcpEndpoints, localTCPEndpoints, udpEndpoints, localUDPEndpoints, sctpEndpoints, localSCTPEndpoints:
		// There is a map for each protocol, as DNAT to a map for any protocol ("th dport") is rejected by nft 1.0.6 once
		// the map is in the kernel.
		port := e.ip() + " daddr . " + protocols[(s-tcpEndpoints)/2] + " dport"
		m.TypeOf = port + number + " : " + port
	case firewallIPs:
		return &knftables.Set{Name: s.name(), Type: dest}
	case sourceRanges:
		return &knftables.Set{Name: s.name(), Type: dest + " . " + e.addrType(), Flags: []knftables.SetFlag{knftables.IntervalFlag}}
	case clusterIPs:
		return &knftables.Set{Name: s.name(), Type: e.addrType()}
	default:
		return &knftables.Set{Name: s.name(), Type: e.addrType() + " . " + e.addrType()}
	}
	return m
}

// element is the knftables object of an element.
func (s store) element(key, value string) *knftables.Element {
	x := &knftables.Element{Key: []string{key}}
	if s.isMap() {
		x.Map = s.name()
		if value != "" {
			x.Value = []string{value}
		}
	} else {
		x.Set = s.name()
	}
	return x
}

func affinityObject(e env, protocol uint8) *knftables.Set {
	return &knftables.Set{
		Name:   affinityOf(protocol),
		TypeOf: e.ip() + " saddr . " + e.ip() + " daddr . " + protocols[protocol] + " dport" + number,
		Flags:  []knftables.SetFlag{knftables.DynamicFlag, knftables.TimeoutFlag},
		Size:   knftables.PtrTo(uint64(affinitySize)),
	}
}

// rule is a rule with a comment for the reader of "nft list table"; it may be empty.
type rule struct{ text, comment string }

// chain is a chain with its rules; the hook is nil for one that is only jumped to.
type chain struct {
	name  string
	hook  *hook
	rules []rule
}

type hook struct {
	kind     knftables.BaseChainType
	at       knftables.BaseChainHook
	priority knftables.BaseChainPriority
}

func (c chain) object() *knftables.Chain {
	o := &knftables.Chain{Name: c.name}
	if c.hook != nil {
		o.Type, o.Hook, o.Priority = &c.hook.kind, &c.hook.at, &c.hook.priority
	}
	return o
}

func (c chain) equal(o chain) bool { return slices.Equal(c.rules, o.rules) }

// statics are the chains that do not depend on Services: chains that are jumped to come before those that jump.
func statics(e env) []chain {
	return slices.Concat(natChains(e), filterChains(e))
}

func natChains(e env) []chain {
	dest, nodePort, ip := e.destination(false), e.destination(true), e.ip()
	var outsiders, pods []rule
	if e.podCIDR.IsValid() {
		outsiders = []rule{{ip + " daddr @cluster-ips " + ip + " saddr != " + e.podCIDR.String() + " jump " + chainMark,
			"answers to others than this node's pods must come back this way"}}
		pods = []rule{{ip + " saddr " + e.podCIDR.String() + " return", "pods use all endpoints"}}
	}
	external := func(name, key string) chain {
		return chain{name: name, rules: append(slices.Clone(pods),
			rule{"fib saddr type local goto " + chainMark, "so does the node"},
			rule{key + " vmap @local-service-ips", "others use those on this node"},
			rule{"accept", "there is none: dropped by " + chainEndpoints})}
	}
	services := append([]rule{{dest + " vmap @service-policies", ""}}, outsiders...)
	services = append(services,
		rule{dest + " vmap @service-ips", ""},
		rule{"fib daddr type local " + e.notLoopback() + " goto " + chainNodePorts, ""})
	nat := func(name string, at knftables.BaseChainHook, to string, p knftables.BaseChainPriority) chain {
		return chain{name, &hook{knftables.NATType, at, p}, []rule{{"jump " + to, ""}}}
	}
	return []chain{
		{name: chainLayout},
		{name: chainMark, rules: []rule{{"meta mark set meta mark | " + masqMark, ""}}},
		external(chainExternalLocal, dest),
		external(chainNodePortLocal, nodePort),
		{name: chainNodePorts, rules: []rule{{nodePort + " vmap @service-policies", ""}, {nodePort + " vmap @service-ips", ""}}},
		{name: chainServices, rules: services},
		{name: chainMasquerading, rules: []rule{
			{"meta mark & " + masqMark + " != 0 meta mark set meta mark ^ " + masqMark + " masquerade fully-random", ""},
			{"ct status dnat " + ip + " saddr . " + ip + " daddr @hairpin-connections masquerade fully-random",
				"a pod that reaches itself through a Service"}}},
		nat("nat-prerouting", knftables.PreroutingHook, chainServices, knftables.DNATPriority),
		nat("nat-output", knftables.OutputHook, chainServices, knftables.DNATPriority),
		nat("nat-postrouting", knftables.PostroutingHook, chainMasquerading, knftables.SNATPriority),
	}
}

func filterChains(e env) []chain {
	dest, ip := e.destination(false), e.ip()
	isNew := func(to string) rule { return rule{"ct state new jump " + to, ""} }
	filter := func(name string, at knftables.BaseChainHook, p knftables.BaseChainPriority, rules ...rule) chain {
		return chain{name, &hook{knftables.FilterType, at, p}, rules}
	}
	beforeDNAT := knftables.DNATPriority + "-10"
	var invalid []rule
	if !e.tcpLiberal {
		// A packet that conntrack does not understand is not translated back, and would make the other side reset a good
		// connection. https://issues.k8s.io/74839
		invalid = []rule{{"ct state invalid drop", ""}}
	}
	return []chain{
		// Where kube-proxy answers TCP with an ICMP error this proxier sends a reset, as those are limited to a few a second.
		{name: chainReject, rules: []rule{{"meta l4proto tcp reject with tcp reset", ""}, {"reject", ""}}},
		{name: chainEndpoints, rules: []rule{{dest + " vmap @no-endpoint-services", ""}}},
		{name: chainNodePortCheck, rules: []rule{
			{"fib daddr type local " + e.notLoopback() + " " + e.destination(true) + " vmap @no-endpoint-services", ""}}},
		{name: chainClusterIPs, rules: []rule{{ip + " daddr @cluster-ips goto " + chainReject, "a port that the Service has not got"}}},
		{name: chainFirewall, rules: []rule{{dest + " . " + ip + " saddr @source-ranges return", ""}, {"drop", ""}}},
		{name: chainFirewallCheck, rules: []rule{{dest + " @firewall-ips jump " + chainFirewall, "loadBalancerSourceRanges"}}},
		filter("filter-prerouting-pre-dnat", knftables.PreroutingHook, beforeDNAT, isNew(chainFirewallCheck)),
		filter("filter-output-pre-dnat", knftables.OutputHook, beforeDNAT, isNew(chainFirewallCheck)),
		filter("filter-input", knftables.InputHook, knftables.FilterPriority, isNew(chainNodePortCheck), isNew(chainEndpoints)),
		filter("filter-forward", knftables.ForwardHook, knftables.FilterPriority,
			append(invalid, isNew(chainEndpoints), isNew(chainClusterIPs))...),
		filter("filter-output", knftables.OutputHook, knftables.FilterPriority, isNew(chainEndpoints), isNew(chainClusterIPs)),
	}
}
