package userspace

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// udpIdle ends a flow that no datagram passed for so long, in either direction: as conntrack does with one that
	// has answers (nf_conntrack_udp_timeout_stream is 120 s).
	udpIdle = 120 * time.Second
	// mostFlows bounds the sockets that the clients of one Service port can make this process open.
	mostFlows = 8192
)

// udpServer takes the datagrams of one Service port. Each client address has a socket of its own to its endpoint.
type udpServer struct {
	hold     *holder
	balancer *balancer
	conns    *connections
	log      *slog.Logger
	idle     time.Duration
	conn     *net.UDPConn // nil: does not listen

	mu    sync.Mutex
	flows map[flowKey]*flow
	full  bool // said so
}

// flowKey is a client and the address of this node that its datagrams were redirected to.
type flowKey struct {
	client netip.AddrPort
	local  netip.Addr
}

type flow struct {
	key      flowKey
	endpoint netip.AddrPort
	backend  *net.UDPConn
	source   []byte       // control message: answers leave from flowKey.local
	seen     atomic.Int64 // UnixNano of the client's last datagram
}

func (s *udpServer) start() error {
	if s.conn != nil {
		return nil
	}
	c, err := s.hold.listenUDP(s.conns.ctx)
	if err != nil {
		return err
	}
	s.conn = c
	s.conns.wg.Go(func() { s.read(c) })
	return nil
}

// stop has the kernel refuse what comes; the flows end, because they answer through the same socket.
func (s *udpServer) stop() {
	if s.conn == nil {
		return
	}
	_ = s.conn.Close()
	s.conn = nil
	s.drop(func(netip.AddrPort) bool { return true })
}

// drop ends the flows to the endpoints that dead says. Their clients' next datagram goes to another.
func (s *udpServer) drop(dead func(netip.AddrPort) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := 0
	for key, f := range s.flows {
		if dead(f.endpoint) {
			_ = f.backend.Close() // ends its goroutine
			delete(s.flows, key)
			dropped++
		}
	}
	return dropped
}

func (s *udpServer) read(c *net.UDPConn) {
	buf, oob := make([]byte, 64<<10), make([]byte, 128)
	for {
		n, noob, _, client, err := c.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // an ICMP error for an answer of ours, say
			s.log.Debug("receive failed", "port", s.hold.port, "error", err)
			continue
		}
		local, ok := destination(oob[:noob])
		if !ok {
			continue
		}
		f := s.flow(c, flowKey{client, local.addr}, local)
		if f == nil {
			continue
		}
		f.seen.Store(time.Now().UnixNano())
		if _, err := f.backend.Write(buf[:n]); err != nil {
			s.end(f)
		}
	}
}

// flow finds the client's flow or makes one; nil when there is no endpoint to make it to.
func (s *udpServer) flow(c *net.UDPConn, key flowKey, local localAddr) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flows[key]; f != nil {
		return f
	}
	if len(s.flows) >= mostFlows {
		if !s.full {
			s.log.Warn("too many flows, datagrams of new clients are dropped", "port", s.hold.port, "flows", len(s.flows))
		}
		s.full = true
		return nil
	}
	s.full = false
	endpoint, ok := s.balancer.pick(key.client.Addr().Unmap(), nil)
	if !ok {
		return nil
	}
	backend, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(endpoint))
	if err != nil {
		s.log.Warn("no socket for a flow", "endpoint", endpoint, "error", err)
		return nil
	}
	f := &flow{key: key, endpoint: endpoint, backend: backend, source: local.control()}
	f.seen.Store(time.Now().UnixNano())
	s.flows[key] = f
	s.conns.wg.Go(func() { s.answer(c, f) })
	return f
}

// answer passes on what the endpoint says until the flow is idle or dropped, or the endpoint refuses.
func (s *udpServer) answer(c *net.UDPConn, f *flow) {
	if !s.conns.add(f.backend) {
		return
	}
	defer s.conns.remove(f.backend)
	defer s.end(f)
	buf := make([]byte, 64<<10)
	heard := time.Now()
	for {
		last := time.Unix(0, f.seen.Load())
		if heard.After(last) {
			last = heard
		}
		if err := f.backend.SetReadDeadline(last.Add(s.idle)); err != nil {
			return
		}
		n, err := f.backend.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if time.Since(time.Unix(0, f.seen.Load())) >= s.idle {
				return
			}
			continue
		case err != nil: // refused: the next datagram gets another endpoint
			return
		}
		heard = time.Now()
		if _, _, err := c.WriteMsgUDPAddrPort(buf[:n], f.source, f.key.client); errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (s *udpServer) end(f *flow) {
	_ = f.backend.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flows[f.key] == f {
		delete(s.flows, f.key)
	}
}

// localAddr is where a datagram was sent to, with the interface where the address needs it.
type localAddr struct {
	addr  netip.Addr
	index uint32
}

// destination reads the address that the kernel put beside a datagram.
func destination(oob []byte) (localAddr, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return localAddr{}, false
	}
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= 12:
			return localAddr{addr: netip.AddrFrom4([4]byte(m.Data[8:12]))}, true // struct in_pktinfo: index, spec_dst, addr
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 20:
			l := localAddr{addr: netip.AddrFrom16([16]byte(m.Data[:16]))} // struct in6_pktinfo: addr, index
			if l.addr.IsLinkLocalUnicast() {
				l.index = binary.NativeEndian.Uint32(m.Data[16:20])
			}
			return l, true
		}
	}
	return localAddr{}, false
}

// control is the control message that makes a datagram leave from this address.
func (l localAddr) control() []byte {
	if l.addr.Is4() {
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: l.addr.As4()})
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: l.addr.As16(), Ifindex: l.index})
}
