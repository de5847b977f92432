package cloud

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// request is all that decides what a balancer has to be.
type request struct {
	service   *corev1.Service
	nodes     []*corev1.Node
	settings  settings
	features  features
	cluster   string
	clusterID string
	provider  string
	// last is the addresses that the Service had, for a balancer that has to be made again.
	last []netip.Addr
	// vips is the families of a balancer that exists; empty: those of the Service.
	vips []corev1.IPFamily
}

// want is what a balancer has to be.
type want struct {
	Balancer  wantBalancer
	Listeners []wantListener
	Refused   []refusal // ports that cannot be had
	Notes     []note    // for the Service's events
}

// refusal is a port that the balancer will not have.
type refusal struct {
	Port     int32
	Protocol corev1.Protocol
	Reason   string // one CamelCase word
	Message  string
}

// note is a warning that a user has to see.
type note struct{ Reason, Message string }

func (w *want) note(reason, format string, args ...any) {
	w.Notes = append(w.Notes, note{reason, fmt.Sprintf(format, args...)})
}

func (w *want) refuse(port corev1.ServicePort, reason, format string, args ...any) {
	w.Refused = append(w.Refused, refusal{port.Port, port.Protocol, reason, fmt.Sprintf(format, args...)})
}

// wanted says what a Service's balancer has to be. It looks at nothing but its argument.
func wanted(r request) want {
	base := balancerName(r.cluster, r.service)
	w := want{Balancer: wantBalancer{Name: base, Description: description(r.cluster, r.service), Provider: r.provider}}
	if r.features.tags() {
		w.Balancer.Tags = []string{base}
		if r.clusterID != "" {
			w.Balancer.Tags = append(w.Balancer.Tags, clusterPrefix+r.clusterID)
		}
	}
	if r.settings.FlavorID != "" && !r.features.flavors() {
		w.note("FlavorIgnored", "Octavia 2.%d has no flavors (2.6 has)", r.features.Minor)
	} else {
		w.Balancer.FlavorID = r.settings.FlavorID
	}
	if r.settings.Zone != "" && !r.features.zones() {
		w.note("AvailabilityZoneIgnored", "Octavia 2.%d has no availability zones (2.14 has)", r.features.Minor)
	} else {
		w.Balancer.AvailabilityZone = r.settings.Zone
	}
	w.vip(r)
	cidrs := w.cidrs(r)
	for _, port := range r.service.Spec.Ports {
		if reason, message := r.refuses(port); reason != "" {
			w.refuse(port, reason, "%s", message)
			continue
		}
		l := r.listener(port, len(w.Listeners), base)
		l.AllowedCIDRs = cidrs
		w.Listeners = append(w.Listeners, l)
	}
	w.members(r)
	return w
}

// wantedFamilies are those of the Service, the first one first.
func (r request) wantedFamilies() []corev1.IPFamily {
	if len(r.service.Spec.IPFamilies) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return r.service.Spec.IPFamilies
}

// families are those of the balancer's addresses: what it has, if it is there.
func (r request) families() []corev1.IPFamily {
	if len(r.vips) > 0 {
		return r.vips
	}
	return r.wantedFamilies()
}

// vip chooses subnets and addresses.
func (w *want) vip(r request) {
	b, s, family := &w.Balancer, r.settings, r.wantedFamilies()[0]
	switch subnet := s.subnet(family); {
	case s.PortID != "":
		b.PortID = s.PortID
	case subnet != "":
		b.SubnetID = subnet
	default:
		b.NetworkID = s.NetworkID
	}
	if s.PortID == "" {
		b.Address = r.address(family)
	}
	w.secondVIP(r)
}

// secondVIP is for the second family: a VIP of its own on the same balancer. One that is there gets none any more.
func (w *want) secondVIP(r request) {
	if len(r.wantedFamilies()) < 2 {
		return
	}
	second := r.wantedFamilies()[1]
	subnet := r.settings.subnet(second)
	switch {
	case !r.features.additionalVIPs():
		w.note("SecondFamilyIgnored", "Octavia 2.%d has one address per balancer (2.26 has more): there is none of %s", r.features.Minor, second)
	case subnet == "":
		w.note("SecondFamilyIgnored", "no subnet is known for addresses of %s", second)
	case len(r.vips) > 0 && !slices.Contains(r.vips, second):
		w.note("SecondFamilyIgnored", "the load balancer was made without an address of %s and gets none any more", second)
	default:
		w.Balancer.AdditionalVIPs = []vip{{SubnetID: subnet, Address: r.address(second)}}
	}
}

// address is the one that the Service asks for, or had; "": any.
func (r request) address(f corev1.IPFamily) string {
	if r.settings.Internal && familyOf(r.settings.Address) == f {
		return r.settings.Address.String()
	}
	for _, a := range r.last {
		if familyOf(a) == f {
			return a.String()
		}
	}
	return ""
}

// subnet is the one for VIPs of a family. What an annotation or a class says is for the first family, whichever it is.
func (s settings) subnet(f corev1.IPFamily) string {
	if f == corev1.IPv6Protocol {
		return s.SubnetID6
	}
	return s.SubnetID
}

func familyOf(a netip.Addr) corev1.IPFamily {
	switch {
	case !a.IsValid():
		return ""
	case a.Unmap().Is4():
		return corev1.IPv4Protocol
	default:
		return corev1.IPv6Protocol
	}
}

// everyone and noone are ranges of each family. An empty list would let everyone in, so nobody needs a range, too.
var (
	everyone = map[corev1.IPFamily]string{corev1.IPv4Protocol: "0.0.0.0/0", corev1.IPv6Protocol: "::/0"}
	noone    = map[corev1.IPFamily]string{corev1.IPv4Protocol: "0.0.0.0/32", corev1.IPv6Protocol: "::/128"}
)

// cidrs is who may connect. Octavia takes ranges only of the families that the balancer has.
func (w *want) cidrs(r request) []string {
	if !r.features.cidrs() {
		if len(r.settings.SourceRanges) > 0 {
			w.note("SourceRangesIgnored", "Octavia 2.%d cannot restrict who connects (2.12 can): everyone may", r.features.Minor)
		}
		return nil
	}
	families := r.families()
	if len(r.vips) == 0 && len(w.Balancer.AdditionalVIPs) == 0 {
		families = families[:1]
	}
	var all []string
	for _, family := range families {
		before := len(all)
		for _, p := range r.settings.SourceRanges {
			if familyOf(p.Addr()) == family {
				all = append(all, p.String())
			}
		}
		switch {
		case len(r.settings.SourceRanges) == 0:
			all = append(all, everyone[family])
		case len(all) == before:
			all = append(all, noone[family])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// refuses tells why a port cannot be had: it would be there and lead nowhere.
func (r request) refuses(port corev1.ServicePort) (reason, message string) {
	minor := r.features.Minor
	switch {
	case port.NodePort == 0:
		return "NodePortMissing", "it has no node port to lead to: spec.allocateLoadBalancerNodePorts has to be true"
	case port.Protocol == corev1.ProtocolUDP && r.features.NoUDP:
		return "UDPNotSupported", "the provider has no UDP"
	case port.Protocol == corev1.ProtocolSCTP && !r.features.sctp():
		return "SCTPNotSupported", fmt.Sprintf("Octavia 2.%d has no SCTP (2.23 has)", minor)
	case !local(r.service):
		return "", ""
	case r.features.NoMonitors:
		return "MonitorRequired", "externalTrafficPolicy is Local and the provider has no health monitors: connections would go to nodes without endpoints"
	case port.Protocol != corev1.ProtocolTCP && !r.features.httpOnUDP():
		return "MonitorRequired", fmt.Sprintf("externalTrafficPolicy is Local and Octavia 2.%d has no HTTP monitor for %s (2.16 has): packets would go to nodes without endpoints", minor, port.Protocol)
	}
	return "", ""
}

func local(svc *corev1.Service) bool {
	return svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func (r request) listener(port corev1.ServicePort, i int, base string) wantListener {
	s := r.settings
	l := wantListener{
		Name: partName("listener", i, base), Protocol: string(port.Protocol), Port: int(port.Port), ConnectionLimit: s.ConnectionLimit,
	}
	if port.Protocol == "" {
		l.Protocol = string(corev1.ProtocolTCP)
	}
	if l.Protocol == string(corev1.ProtocolTCP) {
		switch {
		case s.TLSRef != "":
			l.Protocol, l.TLSRef = "TERMINATED_HTTPS", s.TLSRef
		case s.ForwardedFor:
			l.Protocol = "HTTP"
		}
		if s.ForwardedFor {
			l.InsertHeaders = map[string]string{"X-Forwarded-For": "true"}
		}
	}
	if r.features.timeouts() {
		l.ClientData, l.MemberConnect, l.MemberData, l.TCPInspect = &s.ClientData, &s.MemberConnect, &s.MemberData, &s.TCPInspect
	}
	if r.features.tags() {
		l.Tags = []string{base}
	}
	l.Pool = r.pool(port, l.Protocol, i, base)
	return l
}

// pool of a port. UDP and SCTP know nothing of the PROXY protocol: they stay as they are beside TCP ports that have it.
func (r request) pool(port corev1.ServicePort, listener string, i int, base string) *wantPool {
	s := r.settings
	p := &wantPool{Name: partName("pool", i, base), Protocol: listener, Algorithm: s.Method}
	tcp := listener != string(corev1.ProtocolUDP) && listener != string(corev1.ProtocolSCTP)
	switch {
	case tcp && s.Proxy == "PROXYV2" && !r.features.proxyV2():
		p.Protocol = "PROXY"
	case tcp && s.Proxy != "":
		p.Protocol = s.Proxy
	case listener == "TERMINATED_HTTPS":
		p.Protocol = "HTTP"
	}
	if r.service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		p.Persistence = &persistence{Type: "SOURCE_IP"}
		if c := r.service.Spec.SessionAffinityConfig; !tcp && c != nil && c.ClientIP != nil {
			if t := c.ClientIP.TimeoutSeconds; t != nil {
				seconds := int(*t)
				p.Persistence.Timeout = &seconds
			}
		}
	}
	p.Monitor = r.monitor(listener, i, base)
	for _, m := range r.memberAddresses(tcp) {
		m.Port = int(port.NodePort)
		if p.Monitor != nil && local(r.service) {
			m.MonitorPort = int(r.service.Spec.HealthCheckNodePort)
		}
		p.Members = append(p.Members, m)
	}
	return p
}

// monitor of a pool, nil if it has none. With externalTrafficPolicy Local it asks the node's proxier, which knows whether
// the node has an endpoint, and there is no choice.
func (r request) monitor(listener string, i int, base string) *wantMonitor {
	asked := r.settings.MonitorAsked
	if r.features.NoMonitors || (!local(r.service) && (asked == nil || !*asked)) {
		return nil
	}
	m := r.settings.Monitor
	m.Name = partName("monitor", i, base)
	switch {
	case local(r.service):
		m.Type, m.Path, m.Method, m.Codes = "HTTP", "/healthz", "GET", "200"
	case listener == string(corev1.ProtocolUDP):
		m.Type = "UDP-CONNECT"
	case listener == string(corev1.ProtocolSCTP):
		m.Type = "SCTP"
	default:
		m.Type = "TCP"
	}
	return &m
}
