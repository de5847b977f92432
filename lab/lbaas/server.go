// Package lbaas is a mock OpenStack with load balancers that carry traffic.
package lbaas

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"proxylab/lab/lbaas/faults"
	"proxylab/lab/lbaas/openstack"
	"proxylab/lab/lbaas/plane"
)

// Options are those of a server.
type Options struct {
	Listener net.Listener // where it answers; closed in the end
	State    string       // file that keeps what it knows, for the next start; "": nothing is kept
	Faults   faults.Plan

	Version         string         // API version of Octavia that is advertised as current; "": the newest
	ProvisionDelay  time.Duration  // from a write until what it changes is ACTIVE
	ProvisionJitter time.Duration  // up to so much more, by chance
	Quota           map[string]int // limits of every project by kind (loadbalancer, listener, ...); what is left out has none
	TokenTTL        time.Duration  // 0: an hour
	DefaultProject  string         // name of the project of requests at the bare port that name none; "": they are refused, as Octavia does
	Users           []openstack.User
	Networks        []openstack.Network // nil: StandaloneNetworks

	// Instances start the processes that carry the traffic. nil: there is no data plane, and everything is ONLINE.
	Instances *Instances

	Events io.Writer // what happens, as JSON lines of Event; nil: it is not written
	Log    *slog.Logger
}

// Instances are the processes that carry the traffic.
type Instances struct {
	Names []string // one, or two of which the second stands by
	Start func(ctx context.Context, name string) (plane.Process, error)
}

// Serve answers until ctx ends. Layouts: Octavia at /, without a token; Keystone, Octavia and Neutron at /identity, /load-balancer and
// /network, with one; and /proxylab for whoever runs it.
func Serve(ctx context.Context, o Options) error {
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // the one way it ends
	defer stop()
	if err := server.Serve(o.Listener); ctx.Err() == nil {
		return err
	}
	return nil
}
