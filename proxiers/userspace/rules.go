package userspace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// The chains that kube-proxy's userspace mode had. Those for containers are for what arrives at the node, from pods and
// from outside; those for the host are for what the node itself sends.
const (
	chainPortals      = "KUBE-PORTALS-CONTAINER"
	chainPortalsHost  = "KUBE-PORTALS-HOST"
	chainNodePort     = "KUBE-NODEPORT-CONTAINER"
	chainNodePortHost = "KUBE-NODEPORT-HOST"
	chainNonLocal     = "KUBE-NODEPORT-NON-LOCAL" // in filter: what the node lets in, and what it drops
)

// jump leads from a chain of the kernel to one of ours.
type jump struct {
	table, from, to string
	match           []string
}

// jumps in the order in which they are put in front of what is there: the last one ends up first.
var jumps = []jump{
	{"nat", "PREROUTING", chainNodePort, []string{"-m", "addrtype", "--dst-type", "LOCAL", "-m", "comment", "--comment", "node ports, after the Service addresses"}},
	{"nat", "OUTPUT", chainNodePortHost, []string{"-m", "addrtype", "--dst-type", "LOCAL", "-m", "comment", "--comment", "node ports, after the Service addresses"}},
	{"nat", "PREROUTING", chainPortals, []string{"-m", "comment", "--comment", "Service addresses, before the node ports"}},
	{"nat", "OUTPUT", chainPortalsHost, []string{"-m", "comment", "--comment", "Service addresses, before the node ports"}},
	{"filter", "INPUT", chainNonLocal, []string{"-m", "comment", "--comment", "what arrives at the ports of the Service proxy"}},
}

func (j jump) spec() []string { return append(append([]string{}, j.match...), "-j", j.to) }

// isOurs says whether a chain belongs to this mode. KUBE-NODEPORTS is another mode's.
func isOurs(chain string) bool {
	return strings.HasPrefix(chain, "KUBE-PORTALS-") || strings.HasPrefix(chain, "KUBE-NODEPORT-")
}

// rules are those of one Service port: chain -> rules without "-A chain".
type rules map[string][]string

func (r rules) add(chain, format string, args ...any) {
	r[chain] = append(r[chain], fmt.Sprintf(format, args...))
}

// place is what rules need to know of the node.
type place struct {
	node netip.Addr   // its address; not valid: unknown, or no interface here has it
	pods netip.Prefix // of its pods; not valid: unknown
}

func placeOf(n services.Node, f services.Family, local []netip.Addr) place {
	var p place
	for _, a := range n.Addresses {
		if a.Is6() == (f == services.IPv6) && !p.node.IsValid() && slices.Contains(local, a) {
			p.node = a
		}
	}
	for _, c := range n.PodCIDRs {
		if c.Addr().Is6() == (f == services.IPv6) && !p.pods.IsValid() {
			p.pods = c.Masked()
		}
	}
	return p
}

// render returns the rules of a Service port that has its fronts.
func (p *portal) render(sp *services.ServicePort, at place) rules {
	r := rules{}
	proto := strings.ToLower(string(sp.Protocol))
	match := func(port uint16) string {
		return fmt.Sprintf("-p %s -m comment --comment %s -m %s --dport %d", proto, name(sp.Key), proto, port)
	}
	internal := p.choose(sp.InternalLocal)
	r.add(chainPortals, "-d %s %s %s", host(sp.ClusterIP), match(sp.Port), at.to(internal))
	r.add(chainPortalsHost, "-d %s %s %s", host(sp.ClusterIP), match(sp.Port), at.to(internal))
	for _, list := range [][]netip.Addr{sp.ExternalIPs, sp.LoadBalancerVIPs} {
		for _, vip := range list {
			p.external(r, sp, at, chainPortals, chainPortalsHost, "-d "+host(vip)+" "+match(sp.Port))
		}
	}
	if sp.NodePort != 0 {
		p.external(r, sp, at, chainNodePort, chainNodePortHost, match(sp.NodePort))
	}
	p.filter(r, sp, proto)
	return r
}

func (p *portal) choose(local bool) *front {
	if local {
		return p.local
	}
	return p.cluster
}

// external adds the rules for an address or port that clients outside the cluster use. Under policy Local, pods of
// this node and the node itself are still served by all endpoints: for them the address is merely another name of the
// Service.
func (p *portal) external(r rules, sp *services.ServicePort, at place, chain, hostChain, match string) {
	r.add(hostChain, "%s %s", match, at.to(p.cluster))
	if !sp.ExternalLocal {
		r.add(chain, "%s %s", match, at.to(p.cluster))
		return
	}
	if !at.pods.IsValid() {
		r.add(chain, "%s %s", match, at.to(p.local))
		return
	}
	r.add(chain, "-s %s %s %s", at.pods, match, at.to(p.cluster))
	r.add(chain, "! -s %s %s %s", at.pods, match, at.to(p.local))
}

// filter adds what happens to redirected packets where they arrive. Everything is matched by the local port, which no
// other Service port has.
func (p *portal) filter(r rules, sp *services.ServicePort, proto string) {
	if p.local != nil && sp.UsesLocalEndpoints() && p.local.empty && sp.HasAnyEndpoints {
		// Policy Local, and the endpoints are on other nodes: no answer, so that a client or balancer tries there.
		r.add(chainNonLocal, "-p %s -m %s --dport %d -j DROP", proto, proto, p.local.hold.port)
	}
	used := []*front{}
	if sp.UsesClusterEndpoints() {
		used = append(used, p.cluster)
	}
	if sp.UsesLocalEndpoints() {
		used = append(used, p.local)
	}
	for _, f := range used {
		arrived := fmt.Sprintf("-p %s -m %s --dport %d", proto, proto, f.hold.port)
		if len(sp.SourceRanges) > 0 {
			for _, vip := range sp.LoadBalancerVIPs {
				for _, allowed := range sp.SourceRanges {
					r.add(chainNonLocal, "-s %s %s -m conntrack --ctorigdst %s -j RETURN", allowed.Masked(), arrived, vip)
				}
				r.add(chainNonLocal, "%s -m conntrack --ctorigdst %s -j DROP", arrived, vip)
			}
		}
		if sp.NodePort != 0 {
			r.add(chainNonLocal, "%s -m conntrack --ctstate NEW -j ACCEPT", arrived)
		}
	}
}

// to sends packets to a local port. It names the node's address where it can: REDIRECT takes the address of the interface
// that a packet came in by, and drops the packet where that has none, as the interfaces of routed pods often have; and
// for what the node itself sends it takes a loopback address, which in IPv6 cannot answer another.
func (at place) to(f *front) string {
	if !at.node.IsValid() {
		return fmt.Sprintf("-j REDIRECT --to-ports %d", f.hold.port)
	}
	return fmt.Sprintf("-j DNAT --to-destination %s", netip.AddrPortFrom(at.node, f.hold.port))
}

func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

func supported(p corev1.Protocol) bool {
	return p == corev1.ProtocolTCP || p == corev1.ProtocolUDP
}
