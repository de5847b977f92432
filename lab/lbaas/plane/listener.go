package plane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"proxylab/lab/lbaas/plane/vip"
)

// listener is a port of a balancer on all its VIPs, as it is now.
type listener struct {
	id      string
	free    bool // VIPs are bound before they are this machine's
	learned func(learned)
	conf    atomic.Pointer[frontend]
	limit   *limiter
	counts  counting
	buffers *buffers
	flows   *flowMemory // of UDP: what another instance has decided

	ctx    context.Context // of everything that the listener carries
	cancel context.CancelFunc

	mu       sync.Mutex
	sockets  map[netip.Addr]socket
	allowed  []netip.Prefix // as the sockets have them
	sessions map[*session]struct{}
	problem  string
	started  bool // the watcher of sessions
}

// socket is one VIP of a listener.
type socket interface {
	close() // new clients are not served any more
	drop()  // nobody is
	setAllowed([]netip.Prefix) error
	active() int64 // flows that are not counted by the limiter
}

func newListener(id string, free bool, learn func(learned)) *listener {
	l := &listener{
		id: id, free: free, learned: learn, limit: newLimiter(), buffers: newBuffers(), flows: newFlowMemory(),
		sockets: map[netip.Addr]socket{}, sessions: map[*session]struct{}{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// update makes the listener do what f says at these VIPs; none: it does not listen. Connections stay.
func (l *listener) update(f *frontend, vips []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.conf.Swap(f)
	l.limit.setLimit(f.spec.ConnectionLimit)
	moved := old != nil && (old.spec.Port != f.spec.Port || old.spec.Protocol != f.spec.Protocol ||
		f.isHTTP() && old.clientData != f.clientData)
	for a, s := range l.sockets {
		if moved || !slices.Contains(vips, a) {
			s.close()
			delete(l.sockets, a)
		}
	}
	l.limit.setClosed(len(vips) == 0)
	errs := l.allow(f.spec.AllowedCIDRs)
	for _, a := range vips {
		if l.sockets[a] != nil {
			continue
		}
		s, err := l.open(f, a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.sockets[a] = s
	}
	l.problem = ""
	if err := errors.Join(errs...); err != nil {
		l.problem = err.Error()
	}
	if len(l.sockets) > 0 && !l.started {
		l.started = true
		go l.watchSessions()
	}
}

// allow puts other filters on the open sockets. Where one fails they are all put on again at the next update.
func (l *listener) allow(cidrs []netip.Prefix) (errs []error) {
	if slices.Equal(l.allowed, cidrs) {
		return nil
	}
	for a, s := range l.sockets {
		if err := s.setAllowed(cidrs); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a, err))
		}
	}
	if len(errs) == 0 {
		l.allowed = cidrs
	}
	return errs
}

func (l *listener) open(f *frontend, a netip.Addr) (socket, error) {
	at := netip.AddrPortFrom(a, f.spec.Port)
	o := vip.Options{Allowed: f.spec.AllowedCIDRs, Free: l.free}
	switch f.spec.Protocol {
	case "TCP", "HTTPS":
		return l.openTCP(at, o)
	case "UDP":
		return l.openUDP(at, o)
	case "HTTP", "TERMINATED_HTTPS":
		return l.openHTTP(at, o)
	}
	return nil, fmt.Errorf("listeners of protocol %s are not carried", f.spec.Protocol)
}

func (l *listener) problemText() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

// counters are what was carried, and what is being carried.
func (l *listener) counters() Counters {
	return l.counts.read(l.limit.count() + l.udpFlows())
}

func (l *listener) udpFlows() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(0)
	for _, s := range l.sockets {
		n += s.active()
	}
	return n
}

// stopListening leaves connections to end by themselves.
func (l *listener) stopListening() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, s := range l.sockets {
		s.close()
		delete(l.sockets, a)
	}
	l.limit.setClosed(true)
}

// drop ends the connections too.
func (l *listener) drop() {
	l.mu.Lock()
	for _, s := range l.sockets {
		s.drop()
	}
	l.mu.Unlock()
	l.stopListening()
	l.mu.Lock()
	sessions := make([]*session, 0, len(l.sessions))
	for s := range l.sessions {
		sessions = append(sessions, s)
	}
	l.mu.Unlock()
	for _, s := range sessions {
		s.abort()
	}
}

// carrying says whether there are connections.
func (l *listener) carrying() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sessions) > 0 || l.limit.count() > 0
}

// close is the end of the listener: with its balancer, or alone, and then established connections go on.
func (l *listener) close(withConnections bool) {
	if withConnections {
		l.cancel()
		l.drop()
		return
	}
	l.stopListening()
	if !l.carrying() {
		l.cancel()
	}
}

// watchSessions looks at the connections now and then: what they carry, and whether they do. It ends when the listener
// has neither sockets nor connections.
func (l *listener) watchSessions() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(min(max(l.conf.Load().idle()/4, 20*time.Millisecond), time.Second))
		select {
		case <-timer.C:
		case <-l.ctx.Done():
			return
		}
		l.mu.Lock()
		if len(l.sockets) == 0 && len(l.sessions) == 0 {
			l.started = false
			l.mu.Unlock()
			return
		}
		now := time.Now()
		var idle []*session
		for s := range l.sessions {
			if s.idle(now) {
				idle = append(idle, s)
			}
		}
		l.mu.Unlock()
		for _, s := range idle {
			s.abort()
		}
	}
}
