package servicestest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

const (
	namespace    = "test"
	serviceCount = 5
	// sliceCount: three for each Service, so that an endpoint can be in two.
	sliceCount = 3 * serviceCount
)

func serviceName(n int) string { return fmt.Sprintf("svc%d", n) }
func sliceName(n int) string   { return fmt.Sprintf("slice%d", n) }

func node(zone string, cidrs bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Node, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.10.0.11"}, {Type: corev1.NodeInternalIP, Address: "fd00:10:10::b"}}}}
	if cidrs {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.1.0/24", []string{"10.244.1.0/24", "fd00:10:244:1::/64"}
	}
	return n
}

// ports that a Service can have, by name. No two use the same number with the same protocol.
var ports = []corev1.ServicePort{
	{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "https", Port: 443, Protocol: corev1.ProtocolTCP},
	{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "sctp", Port: 9999, Protocol: corev1.ProtocolSCTP},
}

// drawService draws what the API would let through: addresses and node ports belong to one Service.
func drawService(t *rapid.T) *corev1.Service {
	n := rapid.IntRange(0, serviceCount-1).Draw(t, "service")
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceName(n)}}
	v4, v6 := fmt.Sprintf("10.96.0.%d", n+1), fmt.Sprintf("fd00:10:96::%x", n+1)
	s.Spec.ClusterIPs = rapid.SampledFrom([][]string{{v4}, {v4, v6}, {v6}, {v4, v6}, {v4, v6}, {corev1.ClusterIPNone}}).Draw(t, "ips")
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	s.Spec.Type = rapid.SampledFrom([]corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer}).Draw(t, "type")
	for i, p := range ports {
		if rapid.IntRange(0, 2).Draw(t, "has "+p.Name) > 0 {
			continue
		}
		if s.Spec.Type != corev1.ServiceTypeClusterIP && rapid.IntRange(0, 3).Draw(t, "node port") > 0 {
			p.NodePort = int32(30000 + 100*n + 10*i + rapid.IntRange(0, 1).Draw(t, "which"))
		}
		s.Spec.Ports = append(s.Spec.Ports, p)
	}
	drawPolicies(t, s)
	drawAddresses(t, s, n)
	if rapid.IntRange(0, 19).Draw(t, "other proxy") == 0 {
		s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
	}
	return s
}

func drawPolicies(t *rapid.T, s *corev1.Service) {
	if rapid.Bool().Draw(t, "affinity") {
		seconds := rapid.SampledFrom([]int32{10, 10800}).Draw(t, "seconds")
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
	if rapid.IntRange(0, 2).Draw(t, "internal local") == 0 {
		local := corev1.ServiceInternalTrafficPolicyLocal
		s.Spec.InternalTrafficPolicy = &local
	}
	if s.Spec.Type != corev1.ServiceTypeClusterIP && rapid.Bool().Draw(t, "external local") {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
}

func drawAddresses(t *rapid.T, s *corev1.Service, n int) {
	if rapid.IntRange(0, 2).Draw(t, "external IPs") == 0 {
		s.Spec.ExternalIPs = []string{fmt.Sprintf("203.0.113.%d", n+1), fmt.Sprintf("2001:db8::%x", n+1)}
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		s.Spec.HealthCheckNodePort = int32(31000 + n)
	}
	for _, ip := range []string{fmt.Sprintf("203.0.113.%d", n+101), fmt.Sprintf("2001:db8::%x", n+101)} {
		in := corev1.LoadBalancerIngress{IP: ip}
		switch rapid.IntRange(0, 3).Draw(t, "ingress") {
		case 0:
			continue
		case 1:
			mode := corev1.LoadBalancerIPModeProxy
			in.IPMode = &mode
		}
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, in)
	}
	s.Spec.LoadBalancerSourceRanges = rapid.SampledFrom([][]string{nil, nil, {"10.10.0.1/32"}, {"10.10.0.0/24", "fd00:10:10::/64"},
		{"0.0.0.0/0"}}).Draw(t, "source ranges")
}

// drawSlice draws endpoints on this node and on another, in every state that the API knows.
func drawSlice(t *rapid.T) *discoveryv1.EndpointSlice {
	n := rapid.IntRange(0, sliceCount-1).Draw(t, "slice")
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: sliceName(n), Labels: map[string]string{discoveryv1.LabelServiceName: serviceName(n / 3)}}}
	format := "10.244.%d.%d"
	if rapid.Bool().Draw(t, "v6") {
		s.AddressType, format = discoveryv1.AddressTypeIPv6, "fd00:10:244:%d::%x"
	}
	for i, p := range ports {
		number := int32(8080 + i + 10*rapid.IntRange(0, 1).Draw(t, "target port"))
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &number, Protocol: &p.Protocol})
	}
	for range rapid.IntRange(0, 4).Draw(t, "endpoints") {
		s.Endpoints = append(s.Endpoints, drawEndpoint(t, format))
	}
	return s
}

func drawEndpoint(t *rapid.T, format string) discoveryv1.Endpoint {
	at := rapid.IntRange(1, 2).Draw(t, "node")
	name := fmt.Sprintf("node%d", at)
	e := discoveryv1.Endpoint{NodeName: &name, Addresses: []string{fmt.Sprintf(format, at, rapid.IntRange(10, 13).Draw(t, "address"))}}
	yes, no := true, false
	switch rapid.IntRange(0, 6).Draw(t, "state") {
	case 0:
		e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &no, Terminating: &no}
	case 1:
		e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	case 2:
		e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &no, Terminating: &yes}
	}
	e.Hints = &discoveryv1.EndpointHints{}
	if zone := rapid.SampledFrom([]string{"", "", "zone1", "zone2"}).Draw(t, "zone hint"); zone != "" {
		e.Hints.ForZones = []discoveryv1.ForZone{{Name: zone}}
	}
	if rapid.IntRange(0, 3).Draw(t, "node hint") == 0 {
		e.Hints.ForNodes = []discoveryv1.ForNode{{Name: name}}
	}
	return e
}
