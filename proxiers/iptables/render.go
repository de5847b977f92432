package iptables

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// sharedChain is a chain into which many Service ports put rules.
type sharedChain uint8

const (
	natServices sharedChain = iota
	natNodePorts
	filterServices
	filterExternal
	filterNodePorts
	filterFirewall
	numShared
)

var sharedNames = [numShared]string{
	natServices: chainServices, natNodePorts: chainNodePorts, filterServices: chainServices,
	filterExternal: chainExternalServices, filterNodePorts: chainNodePorts, filterFirewall: chainProxyFirewall,
}

func (c sharedChain) inNat() bool { return c == natServices || c == natNodePorts }

// sharedRule is a rule of one Service port in a shared chain: what follows "-A CHAIN ".
type sharedRule struct {
	chain sharedChain
	rule  string
}

// ownChain is a chain of the port being rendered; its rules are text[start:end] of the renderer, n whole lines.
type ownChain struct {
	name          string
	start, end, n int
}

// renderer turns Service ports into rules. It is pure; its buffers are used again for each port.
type renderer struct {
	env    env
	text   []byte
	chains []ownChain
	shared []sharedRule
	probs  []string

	// The port being rendered.
	sp        *services.ServicePort
	name      string // as in comments
	proto     string
	seen      map[netip.AddrPort]struct{}
	endpoints []services.Endpoint // those that need a chain
}

// render fills r.chains, r.text and r.shared with what sp asks for. They are valid until the next call.
func (r *renderer) render(sp *services.ServicePort) {
	r.text, r.chains, r.shared, r.endpoints = r.text[:0], r.chains[:0], r.shared[:0], r.endpoints[:0]
	r.sp, r.name, r.proto = sp, portName(sp.Key), protocolName(sp.Key)
	t := r.traffic()
	r.clusterIPRules(t)
	r.externalRules(t)
	r.healthCheckRule()
	if t.external {
		r.externalChain(t)
	}
	if t.firewall {
		r.firewallChain()
	}
	if t.cluster != "" {
		r.balanceChain(t.cluster, sp.ClusterEndpoints, t)
	}
	if t.local != "" {
		r.balanceChain(t.local, sp.LocalEndpoints, t)
	}
	r.endpointChains()
}

// traffic is what becomes of a Service port's traffic on this node.
type traffic struct {
	cluster, local   string // chain names; empty: no such chain
	internal, policy string // where cluster IP, respectively other traffic is balanced; empty: nowhere
	external         bool   // there is an external chain
	firewall         bool   // there is a firewall chain
	internalReject   string // target in the filter table; empty: none
	externalReject   string
}

func (r *renderer) traffic() traffic {
	sp := r.sp
	var t traffic
	reachable := sp.NodePort != 0 || len(sp.ExternalIPs) > 0 || len(sp.LoadBalancerVIPs) > 0
	if sp.HasAnyEndpoints {
		if len(sp.ClusterEndpoints) > 0 && (!sp.InternalLocal || reachable) {
			t.cluster = ClusterChain(sp.Key)
		}
		if len(sp.LocalEndpoints) > 0 && (sp.InternalLocal || sp.ExternalLocal && reachable) {
			t.local = LocalChain(sp.Key)
		}
		t.external = reachable && (t.cluster != "" || t.local != "")
		t.firewall = t.external && len(sp.LoadBalancerVIPs) > 0 && len(sp.SourceRanges) > 0
	}
	t.internal, t.internalReject = t.choose(sp.InternalLocal, sp.HasAnyEndpoints)
	t.policy, t.externalReject = t.choose(sp.ExternalLocal, sp.HasAnyEndpoints)
	return t
}

// choose gives the chain that a traffic policy leads to, or what to do with the packet instead: with endpoints
// elsewhere only, policy Local drops, so that the sender tries again and a balancer's health check decides; with none
// at all the connection is refused.
func (t traffic) choose(local, any bool) (chain, reject string) {
	chain = t.cluster
	if local {
		chain = t.local
	}
	switch {
	case chain != "":
		return chain, ""
	case local && any:
		return "", "DROP"
	default:
		return "", "REJECT"
	}
}

func (r *renderer) share(chain sharedChain, parts ...string) {
	r.shared = append(r.shared, sharedRule{chain, strings.Join(parts, "")})
}

// comment is a comment match, with a leading space; the compact layout has none.
func (r *renderer) comment(parts ...string) string {
	if r.env.compact {
		return ""
	}
	return ` -m comment --comment "` + strings.Join(parts, "") + `"`
}

// to matches packets for an address of the Service. Rules are written as iptables-save prints them: addresses first.
func (r *renderer) to(a netip.Addr, comment string) string {
	return "-d " + host(a) + " -p " + r.proto + comment + " -m " + r.proto + " --dport " + itoa(r.sp.Port)
}

func (r *renderer) clusterIPRules(t traffic) {
	if !r.sp.ClusterIP.IsValid() {
		return
	}
	if t.internal != "" {
		r.share(natServices, r.to(r.sp.ClusterIP, r.comment(r.name, " cluster IP")), " -j ", t.internal)
	}
	if t.internalReject != "" {
		r.share(filterServices, r.to(r.sp.ClusterIP, r.rejectComment(t.internalReject)), r.reject(t.internalReject))
	}
}

func (r *renderer) rejectComment(target string) string {
	if target == "DROP" {
		return r.comment(r.name, " has no local endpoints")
	}
	return r.comment(r.name, " has no endpoints")
}

// reject is a target. Where kube-proxy answers TCP with an ICMP error this proxier sends a reset: ICMP errors are limited
// to a few a second for each client, and IPv6 ignores one that comes while connect holds the socket, so that refusals
// come late or never. https://issues.k8s.io/17359
func (r *renderer) reject(target string) string {
	switch {
	case target == "DROP":
		return " -j DROP"
	case r.proto == "tcp":
		return " -j REJECT --reject-with tcp-reset"
	case r.env.v6:
		return " -j REJECT --reject-with icmp6-port-unreachable"
	default:
		return " -j REJECT --reject-with icmp-port-unreachable"
	}
}

// externalRules captures external IPs, load balancer IPs and the node port.
func (r *renderer) externalRules(t traffic) {
	sp, ext := r.sp, ExternalChain(r.sp.Key)
	capture := func(a netip.Addr, what, chain string) {
		if t.external {
			r.share(natServices, r.to(a, r.comment(r.name, what)), " -j ", chain)
		}
		if t.externalReject != "" {
			r.share(filterExternal, r.to(a, r.rejectComment(t.externalReject)), r.reject(t.externalReject))
		}
	}
	for _, a := range sp.ExternalIPs {
		capture(a, " external IP", ext)
	}
	for _, a := range sp.LoadBalancerVIPs {
		if t.firewall {
			fw := FirewallChain(sp.Key)
			capture(a, " loadbalancer IP", fw)
			r.share(filterFirewall, r.to(a, r.comment(r.name, " traffic not accepted by ", fw)), " -j DROP")
		} else {
			capture(a, " loadbalancer IP", ext)
		}
	}
	if sp.NodePort == 0 {
		return
	}
	port := " -m " + r.proto + " --dport " + itoa(sp.NodePort)
	if t.external {
		r.share(natNodePorts, "-p ", r.proto, r.comment(r.name), port, " -j ", ext)
	}
	if t.externalReject != "" {
		r.share(filterExternal, "-p ", r.proto, r.rejectComment(t.externalReject), " -m addrtype --dst-type LOCAL",
			port, r.reject(t.externalReject))
	}
}

// healthCheckRule lets the balancer's health checks in where the node's own firewall would not.
func (r *renderer) healthCheckRule() {
	if r.sp.HealthCheckNodePort == 0 {
		return
	}
	r.share(filterNodePorts, "-p tcp", r.comment(r.name, " health check node port"), " -m tcp --dport ",
		itoa(r.sp.HealthCheckNodePort), " -j ACCEPT")
}

func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

func itoa(n uint16) string { return strconv.Itoa(int(n)) }

// probability of taking the first of n, in kube-proxy's notation. The texts are kept: formatting is expensive.
func (r *renderer) probability(n int) string {
	for i := len(r.probs); i <= n; i++ {
		r.probs = append(r.probs, strconv.FormatFloat(1/float64(max(i, 1)), 'f', 10, 64))
	}
	return r.probs[n]
}

func affinity(sp *services.ServicePort) bool { return sp.AffinityTimeout > 0 }

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(max(d, time.Second)/time.Second), 10)
}

// needsChain: in the compact layout most endpoints do without a chain of their own.
func (r *renderer) needsChain(ep services.Endpoint) bool {
	return !r.env.compact || affinity(r.sp) || r.env.mayHairpin(ep)
}

// endpointCount is how many endpoints a port counts for when the layout is chosen.
func endpointCount(sp *services.ServicePort) int {
	return max(len(sp.ClusterEndpoints), len(sp.LocalEndpoints))
}

// renderable leaves out what no rule could be written for: another family's, or protocols that iptables has no ports
// for.
func renderable(sp *services.ServicePort) bool {
	return sp != nil && slices.Contains([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}, sp.Protocol)
}
