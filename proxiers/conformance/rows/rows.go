// Package rows holds the behaviours of the conformance table, by subject. A row says what it makes in the API, what it
// does, and what a packet then meets.
package rows

import (
	"slices"

	"proxylab/proxiers/conformance"
)

// All lists the rows, in the order of the table.
func All() []conformance.Row {
	return slices.Concat(addresses)
}

// Short names for what nearly every row uses.
type (
	row    = conformance.Row
	trial  = conformance.T
	family = conformance.Family
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
var both = []conformance.Port{tcp, udp}

// notApplicable is the same reason for several modes.
func notApplicable(why string, modes ...string) map[string]string {
	m := map[string]string{}
	for _, mode := range modes {
		m[mode] = why
	}
	return m
}
