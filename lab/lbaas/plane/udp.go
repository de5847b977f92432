package plane

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"proxylab/lab/lbaas/plane/vip"
)

const (
	// flowLife is how long a flow lasts that carries nothing, as in LVS.
	flowLife = 300 * time.Second
	// maxFlows of one VIP of a listener; above it one of the longest silent makes room.
	maxFlows = 16 * 1024
	// retellFlows is how often another instance is told of a flow again.
	retellFlows = flowLife / 3
	maxDatagram = 64 << 10
)

// udpSocket passes datagrams on, as LVS does by address translation: each client has a socket of its own towards its
// member, so that answers find their way back.
type udpSocket struct {
	l      *listener
	conn   *net.UDPConn
	at     netip.AddrPort
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	room  int // flows at most
	flows map[netip.AddrPort]*flow
}

// flow is what a client and a member say to one another.
type flow struct {
	client netip.AddrPort
	pool   *pool
	choice choice
	conn   *net.UDPConn
	used   atomic.Int64 // Unix nanoseconds
	told   time.Time    // the sweeper's
}

func (l *listener) openUDP(at netip.AddrPort, o vip.Options) (socket, error) {
	conn, err := vip.ListenUDP(l.ctx, at, o)
	if err != nil {
		return nil, err
	}
	s := &udpSocket{l: l, conn: conn, at: at, room: maxFlows, flows: map[netip.AddrPort]*flow{}}
	s.ctx, s.cancel = context.WithCancel(l.ctx)
	context.AfterFunc(s.ctx, s.end)
	go s.run()
	go s.sweep()
	return s, nil
}

func (s *udpSocket) close() { s.cancel() }
func (s *udpSocket) drop()  { s.cancel() }

func (s *udpSocket) active() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.flows))
}

func (s *udpSocket) setAllowed(allowed []netip.Prefix) error {
	return vip.SetAllowed(s.conn, allowed, s.at.Addr().Is6())
}

// end closes everything: there are no connections that could go on by themselves.
func (s *udpSocket) end() {
	_ = s.conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows {
		s.remove(f)
	}
}

func (s *udpSocket) run() {
	buf := make([]byte, maxDatagram)
	for {
		n, client, err := s.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // what an ICMP message told of an earlier answer
		}
		s.l.counts.in.Add(int64(n))
		f := s.flowOf(client)
		if f == nil {
			s.l.counts.errors.Add(1)
			continue
		}
		f.used.Store(time.Now().UnixNano())
		_, _ = f.conn.Write(buf[:n]) // a member that refuses is its monitor's business
	}
}

// flowOf finds the client's flow, or makes one. nil: there is no member, or no room.
func (s *udpSocket) flowOf(client netip.AddrPort) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	conf := s.l.conf.Load()
	if f := s.flows[client]; f != nil {
		if f.pool == conf.pool && f.pool.works(f.choice.member) {
			return f
		}
		s.remove(f) // its member is gone, or down: the client gets another one
	}
	if conf.pool == nil || s.ctx.Err() != nil || conf.spec.ConnectionLimit > 0 && len(s.flows) >= conf.spec.ConnectionLimit {
		return nil
	}
	if len(s.flows) >= s.room {
		s.makeRoom()
	}
	c, err := s.choose(conf.pool, client)
	if err != nil {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(s.ctx, "udp", c.address)
	if err != nil {
		c.release()
		return nil
	}
	f := &flow{client: client, pool: conf.pool, choice: c, conn: conn.(*net.UDPConn), told: time.Now()}
	f.used.Store(f.told.UnixNano())
	s.flows[client] = f
	s.l.counts.connections.Add(1)
	s.l.learned(s.learnedOf(f, c.id))
	go s.back(f)
	return f
}

// choose takes the member that another instance had for this flow, else asks the pool.
func (s *udpSocket) choose(p *pool, client netip.AddrPort) (choice, error) {
	if id, ok := s.l.flows.take(flowKey{s.at.Addr(), client}); ok {
		if c, ok := p.chooseKnown(id); ok {
			return c, nil
		}
	}
	c, err := p.choose(client, "")
	if err == nil {
		p.remember(client, c.id)
	}
	return c, err
}

func (s *udpSocket) learnedOf(f *flow, member string) learned {
	return learned{Listener: s.l.id, VIP: s.at.Addr(), Client: f.client, Member: member}
}

// makeRoom ends the flow that is silent for longest among some: Go goes through a map in random order.
func (s *udpSocket) makeRoom() {
	var oldest *flow
	seen := 0
	for _, f := range s.flows {
		if oldest == nil || f.used.Load() < oldest.used.Load() {
			oldest = f
		}
		if seen++; seen == 16 {
			break
		}
	}
	s.remove(oldest)
}

// remove ends a flow; its goroutine notices. The caller holds the lock.
func (s *udpSocket) remove(f *flow) {
	delete(s.flows, f.client)
	_ = f.conn.Close()
	f.choice.release()
	s.l.learned(s.learnedOf(f, ""))
}

// back carries the member's answers to the client until the flow ends.
func (s *udpSocket) back(f *flow) {
	buf := make([]byte, maxDatagram)
	for {
		n, err := f.conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // refused: told by ICMP
		}
		f.used.Store(time.Now().UnixNano())
		if n, err = s.conn.WriteToUDPAddrPort(buf[:n], f.client); err == nil {
			s.l.counts.out.Add(int64(n))
		}
	}
}

// sweep ends flows that carry nothing and tells the other instance of those that do.
func (s *udpSocket) sweep() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var now time.Time
		select {
		case now = <-tick.C:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		for _, f := range s.flows {
			used := time.Unix(0, f.used.Load())
			switch {
			case now.Sub(used) > flowLife:
				s.remove(f)
			case now.Sub(f.told) > retellFlows && used.After(f.told):
				f.told = now
				s.l.learned(s.learnedOf(f, f.choice.id))
			}
		}
		s.mu.Unlock()
	}
}
