package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What each kind of load takes, beyond what all do.
var loadFields = map[string][]string{
	"http":    {"rate", "connections", "count"},
	"connect": {"rate"},
	"udp":     {"rate", "connections", "count"},
	"stream":  {"count"},
	"hold":    {"count", "reopen"},
}

// ViaVIP is the word in LoadStep.Via for the address that a Service's load balancer has.
const ViaVIP = "vip"

func (r *reader) checkLoad(path string, step int, l *LoadStep) {
	switch state, again := r.world.loads[l.Name]; {
	case l.Name == "":
	case again:
		r.problem(path+".name", "a load %s is started in spec.steps[%d] already; each needs a name of its own", l.Name, state.step)
	case !nameForm.MatchString(l.Name) || len(l.Name) > 63:
		r.problem(path+".name", "%q cannot be a name; use lower-case letters, digits and dashes, 63 at most", l.Name)
	default:
		r.world.loads[l.Name] = loadState{step: step}
	}
	if l.Rate != nil {
		r.checkRate(path+".rate", *l.Rate, maxRate)
	}
	r.checkLoadFields(path, l)
	r.checkNode(path+".node", l.Node)
	loadDefaults(l)
	r.checkTarget(path+".service", "Service", l.Service)
	if service := r.world.service(l.Service); service != nil && l.Kind != "" {
		r.checkLoadTarget(path, l, service)
	}
}

// checkLoadFields checks that the fields suit the kind.
func (r *reader) checkLoadFields(path string, l *LoadStep) {
	takes, known := loadFields[l.Kind]
	if !known {
		return
	}
	given := func(field string) bool { return r.index.Has(path + "." + field) }
	for _, field := range []string{"rate", "connections", "count", "reopen"} {
		if given(field) && !slices.Contains(takes, field) {
			r.problem(path+"."+field, "does not go with kind %s%s", l.Kind, instead(field, l.Kind))
		}
	}
	if slices.Contains(takes, "rate") && !given("rate") {
		r.problem(path, "rate is missing; write for example rate: 200/s")
	}
	if given("count") && slices.Contains(takes, "connections") && l.Connections != "keepalive" {
		r.problem(path+".count", "goes with connections: keepalive; with new connections each request has its own")
	}
	if given("direct") && l.Direct && (l.Kind == "hold" || l.From == "outside") {
		r.problem(path+".direct", "there is no direct traffic beside a load %s; leave it out", map[bool]string{true: "that holds connections", false: "from outside"}[l.Kind == "hold"])
	}
	if l.Via == ViaVIP && r.scenario.Spec.LBaaS == nil {
		r.problem(path+".via", "there are no VIPs without load balancers; write spec.lbaas, for example lbaas: {topology: single}")
	}
	if l.From == "outside" && l.Via == "clusterIP" {
		r.problem(path+".via", "a ClusterIP cannot be reached from outside; write nodePort, or leave it out")
	}
}

func instead(field, kind string) string {
	switch {
	case field == "count" && kind == "connect":
		return "; how much it sends is its rate"
	case field == "rate" && kind == "hold":
		return "; how many connections it holds is its count"
	case field == "rate" && kind == "stream":
		return ", which moves as much as will pass"
	case field == "connections" && kind == "connect":
		return ", whose connections are always new"
	}
	return ""
}

// loadDefaults fills in what depends on the kind and on where the load comes from.
func loadDefaults(l *LoadStep) {
	switch {
	case l.Kind == "hold":
		l.Count = cmp.Or(l.Count, 10)
	case l.Kind == "stream", l.Connections == "keepalive":
		l.Count = cmp.Or(l.Count, 1)
	}
	if l.Connections == "" && slices.Contains(loadFields[l.Kind], "connections") {
		l.Connections = "new"
	}
	l.Reopen = l.Reopen && l.Kind == "hold"
	if l.Via == "" {
		l.Via = map[bool]string{true: "nodePort", false: "clusterIP"}[l.From == "outside"]
	}
	if l.Kind == "hold" || l.From == "outside" {
		l.Direct = false
	}
}

// checkLoadTarget checks that the Service can be reached as the load wants.
func (r *reader) checkLoadTarget(path string, l *LoadStep, service *corev1.Service) {
	if _, err := ServicePort(service, *l); err != nil {
		at := path + ".port"
		if !r.index.Has(at) {
			at = path + ".service"
		}
		r.problem(at, "%v", err)
	}
	spec := service.Spec
	switch {
	case spec.Type == corev1.ServiceTypeExternalName:
		r.problem(path+".service", "%s is of type ExternalName, which no proxier handles", l.Service)
	case spec.ClusterIP == corev1.ClusterIPNone:
		r.problem(path+".service", "%s is headless (clusterIP: None), which no proxier handles", l.Service)
	case l.Via == ViaVIP && spec.Type != corev1.ServiceTypeLoadBalancer:
		r.problem(path+".service", "%s has no VIP, by which this load comes; write type: LoadBalancer into the Service", l.Service)
	case l.Via == "nodePort" && spec.Type != corev1.ServiceTypeNodePort && spec.Type != corev1.ServiceTypeLoadBalancer:
		r.problem(path+".service", "%s has no NodePort, by which this load comes; write type: NodePort into the Service", l.Service)
	}
	if l.Family == "ipv6" && !hasIPv6(spec) {
		r.problem(path+".family", "%s has no IPv6 address; write ipFamilyPolicy: PreferDualStack into the Service", l.Service)
	}
}

// hasIPv6 tells for a lab whose first family is IPv4.
func hasIPv6(spec corev1.ServiceSpec) bool {
	policy := spec.IPFamilyPolicy
	return slices.Contains(spec.IPFamilies, corev1.IPv6Protocol) || policy != nil && *policy != corev1.IPFamilyPolicySingleStack
}

// Names that suit the kinds of load, as the ports of the image proxylab/echo are called.
var portNames = map[string]string{"http": "http", "connect": "tcp", "hold": "tcp", "udp": "udp", "stream": "stream"}

// ServicePort is the port of the Service that a load goes to: the one it names, or else the first that is called as the
// load's kind wants, or else the first of the protocol.
func ServicePort(service *corev1.Service, l LoadStep) (corev1.ServicePort, error) {
	protocol := corev1.ProtocolTCP
	if l.Kind == "udp" {
		protocol = corev1.ProtocolUDP
	}
	var texts []string
	var fitting []corev1.ServicePort
	for _, p := range service.Spec.Ports {
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		texts = append(texts, fmt.Sprintf("%s %s/%d", p.Name, p.Protocol, p.Port))
		named := l.Port == "" || string(l.Port) == p.Name || string(l.Port) == strconv.Itoa(int(p.Port))
		if named && p.Protocol == protocol {
			fitting = append(fitting, p)
		}
	}
	if i := slices.IndexFunc(fitting, func(p corev1.ServicePort) bool { return p.Name == portNames[l.Kind] }); i >= 0 {
		return fitting[i], nil
	}
	if len(fitting) > 0 {
		return fitting[0], nil
	}
	which := fmt.Sprintf("%s port", protocol)
	if l.Port != "" {
		which = fmt.Sprintf("%s port %s", protocol, l.Port)
	}
	if len(texts) == 0 {
		return corev1.ServicePort{}, fmt.Errorf("%s has no %s, and no other", service.Name, which)
	}
	return corev1.ServicePort{}, fmt.Errorf("%s has no %s for a load of kind %s; it has %s", service.Name, which, l.Kind, strings.Join(texts, ", "))
}
