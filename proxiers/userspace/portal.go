package userspace

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// front is one local port with the endpoints behind it.
type front struct {
	hold     *holder
	balancer *balancer
	server   interface {
		start() error
		stop()
	}
	udp   *udpServer // the server, where it is one
	empty bool       // no endpoint
}

// portal is a Service port on this node. It has one front or two, because traffic policies can ask for the endpoints of
// this node for some of its addresses and for all endpoints for others.
type portal struct {
	cluster, local *front // nil: no traffic would use it
}

// update makes the portal match the port, with fronts from newFront, and returns how many UDP flows were ended because
// their endpoint is gone.
func (p *portal) update(sp *services.ServicePort, newFront func() (*front, error)) (dropped int, err error) {
	for _, f := range []struct {
		at        **front
		wanted    bool
		endpoints []services.Endpoint
	}{
		{&p.cluster, sp.UsesClusterEndpoints(), sp.ClusterEndpoints},
		{&p.local, sp.UsesLocalEndpoints(), sp.LocalEndpoints},
	} {
		if !f.wanted {
			// Its port stays held until the rules that lead to it are gone: see Proxier.Sync.
			continue
		}
		if *f.at == nil {
			made, failed := newFront()
			if failed != nil {
				err = errors.Join(err, failed)
				continue
			}
			*f.at = made
		}
		n, failed := (*f.at).update(sp, f.endpoints)
		dropped, err = dropped+n, errors.Join(err, failed)
	}
	return dropped, err
}

// trim ends the fronts that the port has no use for any more.
func (p *portal) trim(sp *services.ServicePort) {
	if p.cluster != nil && !sp.UsesClusterEndpoints() {
		p.cluster.close()
		p.cluster = nil
	}
	if p.local != nil && !sp.UsesLocalEndpoints() {
		p.local.close()
		p.local = nil
	}
}

// close refuses what still comes and gives the ports back. Open TCP connections go on.
func (p *portal) close() {
	for _, f := range []*front{p.cluster, p.local} {
		if f != nil {
			f.close()
		}
	}
}

// newFront reserves a local port, not one of those to avoid.
func newFront(key services.Key, c *connections, log *slog.Logger, avoid map[uint16]bool) (*front, error) {
	h, err := hold(key.Protocol, key.Family, avoid)
	if err != nil {
		return nil, err
	}
	f := &front{hold: h, balancer: newBalancer(time.Now)}
	log = log.With("service", name(key), "protocol", key.Protocol)
	if key.Protocol == corev1.ProtocolUDP {
		f.udp = &udpServer{hold: h, balancer: f.balancer, conns: c, log: log, idle: udpIdle, flows: map[flowKey]*flow{}}
		f.server = f.udp
	} else {
		f.server = &tcpServer{hold: h, balancer: f.balancer, conns: c, log: log}
	}
	return f, nil
}

func (f *front) update(sp *services.ServicePort, endpoints []services.Endpoint) (dropped int, err error) {
	addresses := make([]netip.AddrPort, 0, len(endpoints))
	for _, e := range endpoints {
		addresses = append(addresses, e.Addr)
	}
	slices.SortFunc(addresses, netip.AddrPort.Compare)
	addresses = slices.Compact(addresses)
	f.balancer.update(addresses, sp.AffinityTimeout)
	if f.udp != nil {
		alive := slices.Concat(addresses, sp.ServingEndpoints)
		dropped = f.udp.drop(func(e netip.AddrPort) bool { return !slices.Contains(alive, e) })
	}
	f.empty = len(addresses) == 0
	if f.empty {
		f.server.stop()
		return dropped, nil
	}
	return dropped, f.server.start()
}

func (f *front) close() {
	f.server.stop()
	f.hold.close()
}

// name is how people write a Service port: "namespace/service:port".
func name(k services.Key) string {
	n := k.Namespace + "/" + k.Service
	if k.Port != "" {
		n += ":" + k.Port
	}
	return n
}

// complete says whether all fronts that the port's rules lead to are there.
func (p *portal) complete(sp *services.ServicePort) bool {
	return (p.cluster != nil || !sp.UsesClusterEndpoints()) && (p.local != nil || !sp.UsesLocalEndpoints())
}
