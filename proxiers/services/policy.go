package services

import (
	"net/netip"
	"slices"
)

// ExternallyAccessible says whether the port can be reached by something else than its cluster IP.
func (p *ServicePort) ExternallyAccessible() bool {
	return p.NodePort != 0 || len(p.ExternalIPs) > 0 || len(p.LoadBalancerVIPs) > 0
}

// UsesClusterEndpoints says whether any traffic is balanced over all endpoints. Under externalTrafficPolicy Local that
// is what pods and the node itself send to an external address.
func (p *ServicePort) UsesClusterEndpoints() bool {
	return !p.InternalLocal || p.ExternallyAccessible()
}

// UsesLocalEndpoints says whether any traffic is restricted to endpoints of this node.
func (p *ServicePort) UsesLocalEndpoints() bool {
	return p.InternalLocal || p.ExternalLocal && p.ExternallyAccessible()
}

// Equal says whether two ports ask the same of a node. Both may be nil.
func (p *ServicePort) Equal(o *ServicePort) bool {
	if p == o || p == nil || o == nil {
		return p == o
	}
	return p.Key == o.Key && p.ClusterIP == o.ClusterIP && p.Port == o.Port && p.NodePort == o.NodePort &&
		slices.Equal(p.ExternalIPs, o.ExternalIPs) &&
		slices.Equal(p.LoadBalancerVIPs, o.LoadBalancerVIPs) &&
		slices.Equal(p.SourceRanges, o.SourceRanges) &&
		p.AffinityTimeout == o.AffinityTimeout &&
		p.InternalLocal == o.InternalLocal && p.ExternalLocal == o.ExternalLocal &&
		p.HealthCheckNodePort == o.HealthCheckNodePort &&
		slices.Equal(p.ClusterEndpoints, o.ClusterEndpoints) &&
		slices.Equal(p.LocalEndpoints, o.LocalEndpoints) &&
		slices.Equal(p.ServingEndpoints, o.ServingEndpoints) &&
		p.HasAnyEndpoints == o.HasAnyEndpoints
}

// Equal says whether two nodes are the same to a proxier.
func (n Node) Equal(o Node) bool {
	return n.Name == o.Name && n.Zone == o.Zone &&
		slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.PodCIDRs, o.PodCIDRs)
}

// familyOf is the family of a valid address.
func familyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}
