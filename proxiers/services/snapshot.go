// Package services turns Kubernetes API objects (Service, EndpointSlice, Node) into what the proxier of one node has
// to do. It is pure: no kernel, no network, no clock of its own.
package services

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Family is an IP family. A dual-stack Service port yields one ServicePort for each.
type Family string

const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

// Key names one port of one Service in one family; it is unique in a Snapshot.
type Key struct {
	Namespace, Service string
	Port               string // the port's name; empty for a Service with one unnamed port
	Protocol           corev1.Protocol
	Family             Family
}

// ServicePort is what one port of a Service asks of this node.
type ServicePort struct {
	Key
	ClusterIP   netip.Addr
	Port        uint16
	NodePort    uint16       // 0: none
	ExternalIPs []netip.Addr // of the port's family
	// LoadBalancerVIPs are ingress addresses with ipMode VIP (the default); those with ipMode Proxy are left to
	// the balancer, https://kep.k8s.io/1860.
	LoadBalancerVIPs    []netip.Addr
	SourceRanges        []netip.Prefix // loadBalancerSourceRanges of the family; empty: everybody
	AffinityTimeout     time.Duration  // sessionAffinity ClientIP; 0: none
	InternalLocal       bool           // internalTrafficPolicy: Local
	ExternalLocal       bool           // externalTrafficPolicy: Local
	HealthCheckNodePort uint16         // 0: none

	// ClusterEndpoints serve traffic under policy Cluster; LocalEndpoints, those on this node, under policy Local.
	// Both are already narrowed as KEP-1669 and KEP-2433 say: ready ones; where there is none, those serving while
	// terminating; hints honoured. Sorted by address, so that equal states compare equal.
	// A list that no traffic can use (see UsesClusterEndpoints and UsesLocalEndpoints) is nil, but for LocalEndpoints
	// that a health check node port counts.
	ClusterEndpoints []Endpoint
	LocalEndpoints   []Endpoint
	// ServingEndpoints are all endpoints, on any node, that still serve: also those that policy, hints or termination
	// keep new traffic from. Flows that they have are alive. Sorted. Nil where nobody said: then only the two lists
	// above are known to be alive. A Tracker says so for UDP alone: nobody ends the connections of other protocols, and
	// there an endpoint that stops serving behind others' backs would be a change without consequences.
	ServingEndpoints []netip.AddrPort
	// HasAnyEndpoints: some node has a usable endpoint. With policy Local it tells "drop" (they are elsewhere)
	// from "refuse" (there is none).
	HasAnyEndpoints bool
}

// Endpoint is one address behind a Service port.
type Endpoint struct {
	Addr        netip.AddrPort
	Node        string // where it runs, if known
	Local       bool   // on this node
	Ready       bool
	Serving     bool
	Terminating bool
}

// Node is this node as the API knows it.
type Node struct {
	Name      string
	Addresses []netip.Addr   // InternalIP and ExternalIP, both families
	PodCIDRs  []netip.Prefix // traffic from these is from this node's pods
	Zone      string         // topology.kubernetes.io/zone
}

// Snapshot is the whole desired state of a node, and what of it changed since the last successful sync, so that a
// proxier may choose between a full and a partial pass.
//
// It is only read. Ports and Changed may be kept until the end of the Sync after the one that they were given to, so
// that two states can be compared; after that the map Ports is used again. What it points to may be kept for ever: a
// ServicePort and its lists are never modified after they were handed out.
type Snapshot struct {
	Node  Node
	Ports map[Key]*ServicePort
	// Changed holds the keys added, modified or gone since the last sync that succeeded.
	Changed map[Key]struct{}
	// Full asks for a pass that does not trust what is in the kernel: at the start, after the sync period, after
	// somebody else's flush.
	Full bool

	generation uint64 // of the Tracker that made it; 0: none
}
