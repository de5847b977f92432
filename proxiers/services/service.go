package services

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// proxyNameLabel on a Service leaves it to another proxy, whatever its value:
	// https://kubernetes.io/docs/reference/labels-annotations-taints/#servicekubernetesioservice-proxy-name
	proxyNameLabel = "service.kubernetes.io/service-proxy-name"
	// affinityDefault is the API's default of sessionAffinityConfig.clientIP.timeoutSeconds.
	affinityDefault = 10800 * time.Second
)

// portsOf turns a Service into its ports, per family, without endpoints. It is nil for a Service that is not proxied:
// headless, ExternalName, or of another proxy.
func portsOf(s *corev1.Service) []ServicePort {
	if _, other := s.Labels[proxyNameLabel]; other || s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	texts := s.Spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{s.Spec.ClusterIP} // "None" and "" are no addresses
	}
	var ports []ServicePort
	for _, family := range []Family{IPv4, IPv6} {
		ips := addrsOf(family, texts)
		if len(ips) == 0 {
			continue
		}
		common := commonOf(s, family)
		common.ClusterIP = ips[0]
		for _, p := range s.Spec.Ports {
			port := common
			port.Key = Key{Namespace: s.Namespace, Service: s.Name, Port: p.Name, Protocol: protocolOf(p.Protocol), Family: family}
			port.Port, port.NodePort = uint16(p.Port), uint16(p.NodePort)
			if !slices.ContainsFunc(ports, func(o ServicePort) bool { return o.Key == port.Key }) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// commonOf holds what all ports of a Service share in a family.
func commonOf(s *corev1.Service, family Family) ServicePort {
	p := ServicePort{
		ExternalIPs:      addrsOf(family, s.Spec.ExternalIPs),
		LoadBalancerVIPs: addrsOf(family, vips(s)),
		SourceRanges:     prefixesOf(family, s.Spec.LoadBalancerSourceRanges),
		InternalLocal:    s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
		ExternalLocal:    externalLocal(s),
	}
	if slices.ContainsFunc(p.SourceRanges, func(r netip.Prefix) bool { return r.Bits() == 0 }) {
		p.SourceRanges = nil // everybody
	}
	if p.ExternalLocal && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		p.HealthCheckNodePort = uint16(s.Spec.HealthCheckNodePort)
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		p.AffinityTimeout = affinityTimeout(s.Spec.SessionAffinityConfig)
	}
	return p
}

// externalLocal: the policy only counts where the Service can be reached from outside at all.
func externalLocal(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
	default:
		if len(s.Spec.ExternalIPs) == 0 {
			return false
		}
	}
	return s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// vips are the ingress addresses that are to be short-cut to the endpoints, https://kep.k8s.io/1860.
func vips(s *corev1.Service) (texts []string) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP {
			texts = append(texts, in.IP)
		}
	}
	return texts
}

func affinityTimeout(c *corev1.SessionAffinityConfig) time.Duration {
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil || *c.ClientIP.TimeoutSeconds <= 0 {
		return affinityDefault
	}
	return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
}

func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}
