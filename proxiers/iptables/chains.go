package iptables

import (
	"net/netip"

	"proxylab/proxiers/services"
)

// begin starts a chain of the port being rendered; rules go to the chain begun last.
func (r *renderer) begin(name string) {
	r.chains = append(r.chains, ownChain{name: name, start: len(r.text), end: len(r.text)})
}

// rule appends one rule to the chain begun last. Parts are concatenated; the first one begins with a space.
func (r *renderer) rule(parts ...string) {
	c := &r.chains[len(r.chains)-1]
	r.text = append(append(r.text, "-A "...), c.name...)
	for _, p := range parts {
		r.text = append(r.text, p...)
	}
	r.text = append(r.text, '\n')
	c.end = len(r.text)
	c.n++
}

// externalChain decides what external traffic meets: masquerading, the short cut for traffic from this node and its
// pods, and the traffic policy.
func (r *renderer) externalChain(t traffic) {
	r.begin(ExternalChain(r.sp.Key))
	if !r.sp.ExternalLocal {
		r.rule(r.comment("masquerade traffic for ", r.name, " external destinations"), " -j ", chainMarkMasq)
	} else {
		r.localShortCuts(t)
	}
	if t.policy != "" {
		r.rule(" -j ", t.policy)
	}
}

// localShortCuts: the policy is about traffic from outside. What this node or its pods send to an external address of
// the Service is balanced over the whole cluster, as if it had gone out and come in again.
func (r *renderer) localShortCuts(t traffic) {
	if t.cluster != "" && r.env.podCIDR.IsValid() {
		r.rule(" -s ", r.env.podCIDR.String(), r.comment("pod traffic for ", r.name, " external destinations"),
			" -j ", t.cluster)
	}
	r.rule(r.comment("masquerade LOCAL traffic for ", r.name, " external destinations"),
		" -m addrtype --src-type LOCAL -j ", chainMarkMasq)
	if t.cluster != "" {
		r.rule(r.comment("route LOCAL traffic for ", r.name, " external destinations"),
			" -m addrtype --src-type LOCAL -j ", t.cluster)
	}
}

// firewallChain lets loadBalancerSourceRanges through; what is left over is not translated, so that it meets the rule
// in KUBE-PROXY-FIREWALL.
func (r *renderer) firewallChain() {
	name, ext := FirewallChain(r.sp.Key), ExternalChain(r.sp.Key)
	comment := r.comment(r.name, " loadbalancer IP")
	r.begin(name)
	fromNode := false
	for _, p := range r.sp.SourceRanges {
		r.rule(" -s ", p.Masked().String(), comment, " -j ", ext)
		for _, a := range r.env.nodeAddrs {
			fromNode = fromNode || p.Contains(a)
		}
	}
	if fromNode {
		// A balancer's IP may be an address of the node, which then talks to it from that same address.
		for _, a := range r.sp.LoadBalancerVIPs {
			r.rule(" -s ", host(a), comment, " -j ", ext)
		}
	}
	if !r.env.compact {
		r.rule(r.comment("other traffic to ", r.name, " will be dropped by KUBE-PROXY-FIREWALL"))
	}
}

// balanceChain spreads over endpoints: those that have seen the client lately first, then by chance.
func (r *renderer) balanceChain(name string, eps []services.Endpoint, t traffic) {
	r.begin(name)
	if t.internal == name && r.sp.ClusterIP.IsValid() {
		r.masqueradeOffCluster(name == t.local && r.sp.ExternalLocal)
	}
	if affinity(r.sp) {
		for _, ep := range eps {
			chain := EndpointChain(r.sp.Key, ep.Addr)
			r.rule(r.endpointComment(ep), " -m recent --rcheck --seconds ", seconds(r.sp.AffinityTimeout), " --reap --name ",
				chain, r.recentMask(), " -j ", chain)
		}
	}
	for i, ep := range eps {
		var chance string
		if left := len(eps) - i; left > 1 {
			chance = " -m statistic --mode random --probability " + r.probability(left)
		}
		if r.needsChain(ep) {
			r.endpoints = append(r.endpoints, ep)
			r.rule(r.endpointComment(ep), chance, " -j ", EndpointChain(r.sp.Key, ep.Addr))
		} else {
			r.rule(" -p ", r.proto, chance, " -j DNAT --to-destination ", ep.Addr.String())
		}
	}
}

func (r *renderer) endpointComment(ep services.Endpoint) string {
	if r.env.compact {
		return ""
	}
	return r.comment(r.name, " -> ", ep.Addr.String())
}

// masqueradeOffCluster marks traffic to the cluster IP that no pod of this node sent: its answers have to come back
// this way. mixed says that traffic to other addresses, whose source is kept, passes through the same chain.
func (r *renderer) masqueradeOffCluster(mixed bool) {
	if !r.env.podCIDR.IsValid() {
		return
	}
	from := " ! -s " + r.env.podCIDR.String()
	if r.env.compact && !mixed {
		r.rule(from, " -j ", chainMarkMasq)
		return
	}
	r.rule(from, " ", r.to(r.sp.ClusterIP, r.comment(r.name, " cluster IP")), " -j ", chainMarkMasq)
}

func (r *renderer) recentMask() string {
	if r.env.v6 {
		return " --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource"
	}
	return " --mask 255.255.255.255 --rsource"
}

// endpointChains writes the chains that the balancing chains jump to, each once.
func (r *renderer) endpointChains() {
	clear(r.seen)
	for _, ep := range r.endpoints {
		if r.once(ep.Addr) {
			r.endpointChain(ep)
		}
	}
}

func (r *renderer) once(a netip.AddrPort) bool {
	if r.seen == nil {
		r.seen = map[netip.AddrPort]struct{}{}
	}
	_, dup := r.seen[a]
	r.seen[a] = struct{}{}
	return !dup
}

func (r *renderer) endpointChain(ep services.Endpoint) {
	name := EndpointChain(r.sp.Key, ep.Addr)
	comment := r.comment(r.name)
	r.begin(name)
	if !r.env.compact || r.env.mayHairpin(ep) {
		r.rule(" -s ", host(ep.Addr.Addr()), comment, " -j ", chainMarkMasq)
	}
	var record string
	if affinity(r.sp) {
		record = " -m recent --set --name " + name + r.recentMask()
	}
	var match string
	if !r.env.compact {
		match = " -m " + r.proto
	}
	r.rule(" -p ", r.proto, comment, record, match, " -j DNAT --to-destination ", ep.Addr.String())
}
