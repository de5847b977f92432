package ipvs

import (
	"errors"
	"net/netip"
	"time"

	"proxylab/proxiers/ipvs/kernel"
)

// DefaultDrainLimit is how long a server that is to go may keep the connections it has. kube-proxy has no such limit: a
// server whose connections never end stays for ever.
const DefaultDrainLimit = time.Hour

// sweep removes servers with weight 0 that have no connection any more, or have had the time they may. It is called with
// every pass and every look, so it needs no goroutine of its own: the handle has one owner.
func (p *Proxier) sweep() error {
	w := writer{p, &p.is}
	var errs []error
	for k := range p.draining {
		s := p.is.servers[k]
		if s == nil {
			delete(p.draining, k)
			continue
		}
		left, err := w.sweepServer(s)
		if err != nil {
			errs = append(errs, err)
		} else if left == 0 {
			delete(p.draining, k)
		}
	}
	return errors.Join(errs...)
}

func (w writer) sweepServer(s *server) (left int, err error) {
	list, err := w.kernel.Table.Destinations(s.Key)
	if err != nil {
		return 0, err
	}
	stays := map[netip.AddrPort]bool{}
	for _, d := range list {
		if b := s.backends[d.Addr]; b != nil && b.weight == 0 && !w.done(s, d, b) {
			stays[d.Addr] = true
		}
	}
	var gone []netip.AddrPort
	for a, b := range s.backends {
		if b.weight == 0 && !stays[a] {
			gone = append(gone, a)
		}
	}
	if len(gone) == len(s.backends) {
		// All at once: without servers a virtual server would answer in the place of the rule that refuses.
		return 0, w.drop([]kernel.Key{s.Key})
	}
	for _, a := range gone {
		if err := w.deleteBackend(s, a); err != nil {
			return len(stays), err
		}
	}
	return len(stays), nil
}

// done says whether a server that is to go may: it has no connection, or has had the time that it may have.
func (w writer) done(s *server, d kernel.Destination, b *backend) bool {
	if d.Active+d.Inactive == 0 {
		return true
	}
	if w.now().Sub(b.since) < w.drainLimit {
		return false
	}
	w.log.Warn("a server that was to go still has connections; their time is over", "virtual", s.Key, "server", d.Addr,
		"active", d.Active, "inactive", d.Inactive)
	return true
}
