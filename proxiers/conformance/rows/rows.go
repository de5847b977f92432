// Package rows holds the behaviours of the conformance table, by subject. A row says what it makes in the API, what it
// does, and what a packet then meets.
package rows

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance"
)

// All lists the rows, in the order of the table.
func All() []conformance.Row {
	return slices.Concat(addresses, sources, balance, policies, endpoints, flows, restarts, failures, switching, ipvs)
}

// Areas.
const (
	addressing = "addresses"
	sourcing   = "source address"
	balancing  = "balancing"
	affinity   = "affinity"
	policy     = "policy"
	ending     = "endpoints"
	topology   = "topology"
	state      = "state"
	restarting = "restart"
	failing    = "failure"
	leaving    = "switching"
	ipvsOnly   = "IPVS"
)

// Short names for what nearly every row uses.
type (
	row     = conformance.Row
	trial   = conformance.T
	family  = conformance.Family
	port    = conformance.Port
	service = corev1.Service
)

const (
	client  = conformance.Client
	client2 = conformance.Client2
	far     = conformance.Far
	local1  = conformance.Local1
	local2  = conformance.Local2
	remote1 = conformance.Remote1
	remote2 = conformance.Remote2
	node1   = conformance.Node1
	node2   = conformance.Node2
	outside = conformance.Outside
)

// all are the backends.
var all = []string{local1, local2, remote1, remote2}

var (
	tcp  = conformance.TCP
	udp  = conformance.UDP
	http = conformance.HTTP
)

// both are the ports of a Service made by T.Web.
var both = []port{tcp, udp}

// each calls f for both ports of a Service made by T.Web, in both families.
func each(t *trial, f func(family, port)) {
	t.Families(func(fam family) {
		for _, p := range both {
			f(fam, p)
		}
	})
}

// notApplicable is the same reason for several modes.
func notApplicable(why string, modes ...string) map[string]string {
	m := map[string]string{}
	for _, mode := range modes {
		m[mode] = why
	}
	return m
}
