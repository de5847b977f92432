// Package rules tells how packets to a Service travel through a node's rules, in the proxier's own notation, with a
// line of explanation per hop. It is pure: it reads what the node's tools print (Dump) and follows a packet whose
// destination is known and whose source is not, so a rule that only some packets match is shown with its condition.
package rules

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Story is what happens to packets for one port of a Service on one node, by each way in.
type Story struct {
	Service string `json:"service"` // namespace/name
	Port    string `json:"port"`    // "http 80/TCP"
	Ways    []Way  `json:"ways"`
}

// Way is an address of the Service and the hops of a packet to it.
type Way struct {
	Kind string `json:"kind"` // "cluster IP", "node port", "external IP", "load balancer IP"
	To   string `json:"to"`   // address and port
	Hops []Hop  `json:"hops"`
}

// Hop is one rule, map element or virtual server on the way.
type Hop struct {
	Depth int    `json:"depth"` // 0: where packets enter; one more for each jump
	Where string `json:"where"` // "nat KUBE-SERVICES", "map service-ips", "ipvs"
	Rule  string `json:"rule"`  // as the tool prints it
	Says  string `json:"says"`  // what it does, for who has never seen one
}

// Subject is a Service, and what of the cluster its explanation needs.
type Subject struct {
	Service *corev1.Service
	Slices  []discoveryv1.EndpointSlice // of the Service
	Node    *corev1.Node
}

// Explain follows packets for every port and every address of a Service through the rules of a mode.
func Explain(mode string, s Subject, d Dump) ([]Story, error) {
	follow, ok := map[string]func(*trail){
		"userspace": followUserspace, "iptables": followIPTables, "ipvs": followIPVS, "nftables": followNFTables,
	}[mode]
	if !ok {
		return nil, fmt.Errorf("there is no mode %q", mode)
	}
	parsed, err := d.parse()
	if err != nil {
		return nil, err
	}
	var stories []Story
	for _, port := range s.Service.Spec.Ports {
		story := Story{Service: s.Service.Namespace + "/" + s.Service.Name, Port: portName(port)}
		for _, way := range s.ways(port) {
			t := &trail{Subject: s, parsed: parsed, way: way}
			follow(t)
			story.Ways = append(story.Ways, Way{Kind: way.kind, To: way.to.String(), Hops: t.hops})
		}
		stories = append(stories, story)
	}
	return stories, nil
}

func portName(p corev1.ServicePort) string {
	text := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
	if p.Name != "" {
		text = p.Name + " " + text
	}
	return text
}

// way is an address that the Service is reached by.
type way struct {
	kind     string
	to       netip.AddrPort
	protocol string // "tcp", "udp", "sctp"
	local    bool   // an address of the node itself
}

// ways lists them; the node port by the node's first address of each family.
func (s Subject) ways(p corev1.ServicePort) (ways []way) {
	add := func(kind, address string, port int32) {
		if a, err := netip.ParseAddr(address); err == nil && port > 0 {
			ways = append(ways, way{kind: kind, to: netip.AddrPortFrom(a, uint16(port)),
				protocol: strings.ToLower(string(p.Protocol)), local: kind == "node port"})
		}
	}
	for _, ip := range s.Service.Spec.ClusterIPs {
		add("cluster IP", ip, p.Port)
	}
	for _, ip := range s.Service.Spec.ExternalIPs {
		add("external IP", ip, p.Port)
	}
	for _, in := range s.Service.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy {
			add("load balancer IP", in.IP, p.Port)
		}
	}
	for _, v6 := range []bool{false, true} {
		served := slices.ContainsFunc(s.Service.Spec.IPFamilies, func(f corev1.IPFamily) bool { return (f == corev1.IPv6Protocol) == v6 })
		if a := s.nodeAddress(v6); served && a != "" {
			add("node port", a, p.NodePort)
		}
	}
	return ways
}

func (s Subject) nodeAddress(v6 bool) string {
	for _, a := range s.Node.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is6() == v6 {
			return a.Address
		}
	}
	return ""
}

// trail is one packet's walk.
type trail struct {
	Subject
	parsed
	way  way
	hops []Hop
	seen map[string]bool // chains on the way down, against loops
	// rewritten: every packet has got another destination in prerouting.
	rewritten bool
}

func (t *trail) hop(depth int, where, rule, says string) {
	t.hops = append(t.hops, Hop{Depth: depth, Where: where, Rule: rule, Says: says})
}

// enter guards against chains that jump in a circle.
func (t *trail) enter(chain string, walk func()) {
	if t.seen[chain] {
		return
	}
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	t.seen[chain] = true
	walk()
	delete(t.seen, chain)
}

// whose names the pod behind an endpoint's address, "10.244.1.2:8080 (pod web-x on node1)".
func (t *trail) whose(endpoint string) string {
	addr := endpoint
	if ap, err := netip.ParseAddrPort(endpoint); err == nil {
		addr = ap.Addr().String()
	}
	for _, slice := range t.Slices {
		for _, e := range slice.Endpoints {
			if !slices.Contains(e.Addresses, addr) {
				continue
			}
			var about []string
			if e.TargetRef != nil {
				about = append(about, strings.ToLower(e.TargetRef.Kind)+" "+e.TargetRef.Name)
			}
			if e.NodeName != nil {
				about = append(about, "on "+cmp.Or(*e.NodeName, "an unknown node"))
			}
			if len(about) > 0 {
				return endpoint + " (" + strings.Join(about, " ") + ")"
			}
		}
	}
	return endpoint
}

// isEndpoint says whether an address is one of the Service's endpoints.
func (t *trail) isEndpoint(a netip.Addr) bool {
	for _, slice := range t.Slices {
		for _, e := range slice.Endpoints {
			if slices.Contains(e.Addresses, a.String()) {
				return true
			}
		}
	}
	return false
}

// isPods says whether a prefix is that of this node's pods.
func (t *trail) isPods(p netip.Prefix) bool {
	return slices.Contains(t.Node.Spec.PodCIDRs, p.String()) || t.Node.Spec.PodCIDR == p.String()
}
