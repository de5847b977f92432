package ipvs

import (
	"errors"
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
	found := map[*backend]bool{}
	for _, d := range list {
		b := s.backends[d.Addr]
		if b == nil || b.weight != 0 {
			continue
		}
		found[b] = true
		idle, late := d.Active+d.Inactive == 0, w.now().Sub(b.since) >= w.drainLimit
		if !idle && !late {
			left++
			continue
		}
		if !idle {
			w.log.Warn("a server that was to go still has connections; their time is over", "virtual", s.Key, "server", d.Addr,
				"active", d.Active, "inactive", d.Inactive)
		}
		if err := w.deleteBackend(s, d.Addr); err != nil {
			return left, err
		}
	}
	for a, b := range s.backends { // those that somebody else removed
		if b.weight == 0 && !found[b] {
			delete(s.backends, a)
		}
	}
	if len(s.backends) == 0 {
		return 0, w.drop([]kernel.Key{s.Key})
	}
	return left, nil
}
