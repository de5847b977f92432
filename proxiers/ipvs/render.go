package ipvs

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/services"
)

// entry is a member of a set, as "ipset save" prints it.
type entry struct {
	family services.Family
	set    setID
	member string
}

// virtual is a virtual server with what is to be behind it.
type virtual struct {
	kernel.Server
	backends []netip.AddrPort
}

// demand is what one Service port asks of the kernel. Several ports may ask for the same thing.
type demand struct {
	addrs   []netip.Addr // on the link
	entries []entry
	servers []virtual
}

// env is what demands depend on besides the Service ports.
type env struct {
	node      services.Node
	local     map[netip.Addr]string // addresses of the node's own links
	scheduler string
}

// locals are a family's, sorted.
func (e *env) locals(f services.Family) []netip.Addr {
	var out []netip.Addr
	for a := range e.local {
		if a.Is6() == (f == services.IPv6) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// served leaves out what IPVS has no protocol for.
func served(sp *services.ServicePort) bool {
	return sp != nil && slices.Contains([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}, sp.Protocol)
}

// renderer makes the demand of one port.
type renderer struct {
	env *env
	sp  *services.ServicePort
	d   demand
}

func (e *env) render(sp *services.ServicePort) *demand {
	if !served(sp) {
		return &demand{}
	}
	r := &renderer{env: e, sp: sp}
	r.loopBack()
	r.clusterIP()
	r.externals()
	r.nodePort()
	if sp.HealthCheckNodePort != 0 {
		r.add(setHealthCheckNodePort, strconv.Itoa(int(sp.HealthCheckNodePort)))
	}
	return &r.d
}

func (r *renderer) add(set setID, member string) {
	r.d.entries = append(r.d.entries, entry{r.sp.Family, set, member})
}

// ipPort is a member of a hash:ip,port set.
func (r *renderer) ipPort(a netip.Addr, port uint16) string {
	return a.String() + "," + strings.ToLower(string(r.sp.Protocol)) + ":" + strconv.Itoa(int(port))
}

// loopBack: a connection that comes back to the pod that made it has to be masqueraded, or the pod would answer itself
// directly. That can only happen on the pod's own node.
func (r *renderer) loopBack() {
	seen := map[netip.AddrPort]bool{}
	for _, list := range [][]services.Endpoint{r.sp.ClusterEndpoints, r.sp.LocalEndpoints} {
		for _, ep := range list {
			if ep.Local && !seen[ep.Addr] {
				seen[ep.Addr] = true
				a := ep.Addr.Addr()
				r.add(setLoopBack, r.ipPort(a, ep.Addr.Port())+","+a.String())
			}
		}
	}
}

func (r *renderer) clusterIP() {
	sp := r.sp
	if !sp.ClusterIP.IsValid() {
		return
	}
	use := sp.ClusterEndpoints
	if sp.InternalLocal {
		use = sp.LocalEndpoints
	}
	member := r.ipPort(sp.ClusterIP, sp.Port)
	r.add(setClusterIP, member)
	r.missing(use, member)
	r.bind(sp.ClusterIP)
	r.serve(sp.ClusterIP, sp.Port, use)
}

// missing notes what has nothing behind it: it is refused if there is no endpoint at all, and dropped if policy keeps the
// traffic from endpoints on other nodes.
func (r *renderer) missing(use []services.Endpoint, member string) {
	switch {
	case len(use) > 0:
	case r.sp.HasAnyEndpoints:
		r.add(setNoLocal, member)
	default:
		r.add(setNoEndpoints, member)
	}
}

// external are the endpoints for what comes to external addresses. IPVS has one list for all comers. Under policy Local
// it is this node's endpoints. Where there are none it is those of the cluster, for the node and its pods, and all others
// are dropped.
func (r *renderer) external(member string) []services.Endpoint {
	sp := r.sp
	use := sp.ClusterEndpoints
	if sp.ExternalLocal {
		if len(sp.LocalEndpoints) > 0 {
			return sp.LocalEndpoints
		}
		if len(use) > 0 {
			r.add(setNoLocalExternal, member)
		}
	}
	r.missing(use, member)
	return use
}

func (r *renderer) externals() {
	sp := r.sp
	for _, a := range sp.ExternalIPs {
		set := setExternalIP
		if sp.ExternalLocal {
			set = setExternalIPLocal
		}
		member := r.ipPort(a, sp.Port)
		r.add(set, member)
		use := r.external(member)
		r.bind(a)
		r.serve(a, sp.Port, use)
	}
	for _, a := range sp.LoadBalancerVIPs {
		member := r.ipPort(a, sp.Port)
		r.add(setLoadBalancer, member)
		if sp.ExternalLocal {
			r.add(setLoadBalancerLocal, member)
		}
		r.sourceRanges(a, member)
		use := r.external(member)
		r.bind(a)
		r.serve(a, sp.Port, use)
	}
}

// sourceRanges: the node's own connections to the address come from the address itself.
func (r *renderer) sourceRanges(a netip.Addr, member string) {
	if len(r.sp.SourceRanges) == 0 {
		return
	}
	r.add(setLoadBalancerFW, member)
	node := false
	for _, p := range r.sp.SourceRanges {
		net := p.String()
		if p.IsSingleIP() {
			net = p.Addr().String() // as ipset prints it
		}
		r.add(setSourceCIDR, member+","+net)
		node = node || slices.ContainsFunc(r.env.node.Addresses, p.Contains)
	}
	if node {
		r.add(setSourceIP, member+","+a.String())
	}
}

func (r *renderer) nodePort() {
	sp := r.sp
	if sp.NodePort == 0 {
		return
	}
	sets := map[corev1.Protocol][2]setID{
		corev1.ProtocolTCP:  {setNodePortTCP, setNodePortLocalTCP},
		corev1.ProtocolUDP:  {setNodePortUDP, setNodePortLocalUDP},
		corev1.ProtocolSCTP: {setNodePortSCTP, setNodePortLocalSCTP},
	}[sp.Protocol]
	add := func(member string) {
		r.add(sets[0], member)
		if sp.ExternalLocal {
			r.add(sets[1], member)
		}
	}
	if sp.Protocol != corev1.ProtocolSCTP {
		add(strconv.Itoa(int(sp.NodePort)))
	}
	for _, a := range r.env.locals(sp.Family) {
		member := r.ipPort(a, sp.NodePort)
		if sp.Protocol == corev1.ProtocolSCTP {
			add(member)
		}
		r.serve(a, sp.NodePort, r.external(member))
	}
}

// bind puts an address on the link, unless another link has it: an address must be in one place.
func (r *renderer) bind(a netip.Addr) {
	if _, own := r.env.local[a]; own || slices.Contains(r.d.addrs, a) {
		return
	}
	r.d.addrs = append(r.d.addrs, a)
	r.add(setIPVSIPs, a.String())
}

func (r *renderer) serve(a netip.Addr, port uint16, use []services.Endpoint) {
	v := virtual{Server: kernel.Server{Key: kernel.Key{Addr: netip.AddrPortFrom(a, port), Protocol: r.sp.Protocol}, Scheduler: r.env.scheduler}}
	if t := r.sp.AffinityTimeout; t > 0 {
		v.Flags |= kernel.Persistent
		v.Timeout = uint32(t.Seconds())
	}
	switch r.env.scheduler {
	case "sh": // or clients of a server that drains are refused
		v.Flags |= kernel.Sched1
	case "mh": // the same; and a client's connections are spread, as kube-proxy has it
		v.Flags |= kernel.Sched1 | kernel.Sched2
	}
	for _, ep := range use {
		v.backends = append(v.backends, ep.Addr)
	}
	r.d.servers = append(r.d.servers, v)
}
