package services

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// slice is what an EndpointSlice says, in the terms of this package. It is never modified.
type slice struct {
	service   name
	family    Family
	ports     []slicePort
	endpoints []sliceEndpoint
}

type slicePort struct {
	name     string
	protocol corev1.Protocol
	number   uint16
}

type sliceEndpoint struct {
	addr                        netip.Addr
	node                        string
	ready, serving, terminating bool
	zones, nodes                []string // hints, sorted
}

func (e sliceEndpoint) equal(o sliceEndpoint) bool {
	return e.addr == o.addr && e.node == o.node &&
		e.ready == o.ready && e.serving == o.serving && e.terminating == o.terminating &&
		slices.Equal(e.zones, o.zones) && slices.Equal(e.nodes, o.nodes)
}

// equal says whether two slices, which may be nil, say the same about the same Service.
func (s *slice) equal(o *slice) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.service == o.service && s.family == o.family && slices.Equal(s.ports, o.ports) &&
		slices.EqualFunc(s.endpoints, o.endpoints, sliceEndpoint.equal)
}

// sliceOf reads an EndpointSlice. It is nil for one that does not concern a proxier: of a headless Service, of another
// proxy, of no Service, or of an address type other than IPv4 and IPv6.
func sliceOf(s *discoveryv1.EndpointSlice) *slice {
	_, headless := s.Labels[corev1.IsHeadlessService]
	_, other := s.Labels[proxyNameLabel]
	service := s.Labels[discoveryv1.LabelServiceName]
	if headless || other || service == "" {
		return nil
	}
	out := &slice{service: name{s.Namespace, service}}
	switch s.AddressType {
	case discoveryv1.AddressTypeIPv4:
		out.family = IPv4
	case discoveryv1.AddressTypeIPv6:
		out.family = IPv6
	default:
		return nil
	}
	for _, p := range s.Ports {
		if p.Port == nil || *p.Port <= 0 || *p.Port > 65535 {
			continue // "all ports" is not for Services
		}
		port := slicePort{protocol: corev1.ProtocolTCP, number: uint16(*p.Port)}
		if p.Name != nil {
			port.name = *p.Name
		}
		if p.Protocol != nil {
			port.protocol = protocolOf(*p.Protocol)
		}
		out.ports = append(out.ports, port)
	}
	for _, e := range s.Endpoints {
		if ep, ok := endpointOf(e); ok && familyOf(ep.addr) == out.family {
			out.endpoints = append(out.endpoints, ep)
		}
	}
	return out
}

// endpointOf reads an endpoint. Only its first address counts, and unknown conditions have the defaults that the API
// documents: ready, serving, not terminating.
func endpointOf(e discoveryv1.Endpoint) (out sliceEndpoint, ok bool) {
	if len(e.Addresses) == 0 {
		return out, false
	}
	if out.addr, ok = parseAddr(e.Addresses[0]); !ok {
		return out, false
	}
	if e.NodeName != nil {
		out.node = *e.NodeName
	}
	out.ready = e.Conditions.Ready == nil || *e.Conditions.Ready
	out.serving = e.Conditions.Serving == nil || *e.Conditions.Serving
	out.terminating = e.Conditions.Terminating != nil && *e.Conditions.Terminating
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			out.zones = append(out.zones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			out.nodes = append(out.nodes, n.Name)
		}
		slices.Sort(out.zones)
		slices.Sort(out.nodes)
	}
	return out, true
}

// triggerTime is when the change that made the EndpointSlice controller write this happened; zero: unknown.
func triggerTime(s *discoveryv1.EndpointSlice) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err != nil {
		return time.Time{} // absent or not ours to judge
	}
	return t
}
