package plane

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab/lbaas/plane/vip"
	"proxylab/lab/procs"
)

// tcpSocket passes connections on without looking into them.
type tcpSocket struct {
	*net.TCPListener
	at netip.AddrPort
}

func (s tcpSocket) close()        { _ = s.Close() }
func (s tcpSocket) drop()         {}
func (s tcpSocket) active() int64 { return 0 }

func (s tcpSocket) setAllowed(allowed []netip.Prefix) error {
	return vip.SetAllowed(s.TCPListener, allowed, s.at.Addr().Is6())
}

func (l *listener) openTCP(at netip.AddrPort, o vip.Options) (socket, error) {
	ln, err := vip.ListenTCP(l.ctx, at, o)
	if err != nil {
		return nil, err
	}
	s := tcpSocket{ln, at}
	go l.acceptTCP(s)
	return s, nil
}

func (l *listener) acceptTCP(s tcpSocket) {
	for {
		conn, err := s.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors or memory: those that wait keep waiting
			_ = procs.Sleep(l.ctx, 10*time.Millisecond)
			continue
		}
		// A connection above the limit has been established by the kernel, as all in the backlog are, and waits here.
		if !l.limit.acquire() {
			_ = conn.Close()
			return
		}
		go l.serveTCP(conn, s.at)
	}
}

// session is an established connection through the balancer.
type session struct {
	l              *listener
	client, member *net.TCPConn

	in, out int64 // bytes counted so far; the watcher's until the end
	moved   int64
	since   time.Time // when moved changed last
}

func (l *listener) serveTCP(client *net.TCPConn, at netip.AddrPort) {
	defer l.limit.release()
	l.counts.connections.Add(1)
	f := l.conf.Load()
	from := client.RemoteAddr().(*net.TCPAddr).AddrPort()
	member, c, err := f.connectTo(l.ctx, f.pool, from, at)
	if err != nil {
		_ = client.Close()
		return
	}
	defer c.release()
	s := &session{l: l, client: client, member: member, since: time.Now()}
	if !l.begin(s) {
		return
	}
	in, out := s.relay()
	l.end(s, in, out)
}

// begin says false when the listener was closed meanwhile, with all its connections.
func (l *listener) begin(s *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		s.abort()
		return false
	}
	l.sessions[s] = struct{}{}
	return true
}

func (l *listener) end(s *session, in, out int64) {
	l.mu.Lock()
	delete(l.sessions, s)
	l.mu.Unlock()
	l.counts.in.Add(in - s.in) // the watcher has let go of s
	l.counts.out.Add(out - s.out)
}

func (s *session) abort() {
	_ = s.client.Close()
	_ = s.member.Close()
}

// relay carries bytes both ways until both have ended, or one has failed, and returns how many came from the client and
// how many went to it.
func (s *session) relay() (in, out int64) {
	var back sync.WaitGroup
	back.Go(func() { out = s.carry(s.client, s.member) })
	in = s.carry(s.member, s.client)
	back.Wait()
	s.abort()
	return in, out
}

// carry moves bytes from src to dst; an end is passed on, an error ends the connection.
func (s *session) carry(dst, src *net.TCPConn) int64 {
	n, err := s.l.buffers.copy(dst, src)
	if err != nil {
		if src == s.client && errors.Is(err, syscall.ECONNRESET) {
			s.l.counts.errors.Add(1)
		}
		s.abort()
		return n
	}
	if dst.CloseWrite() != nil {
		s.abort()
	}
	return n
}

// idle counts what the connection has carried, by the kernel's own figures, and says whether that has been nothing for
// too long.
func (s *session) idle(now time.Time) bool {
	info, err := tcpInfo(s.client)
	if err != nil {
		return false // it is ending
	}
	in, out := int64(info.Bytes_received), int64(info.Bytes_acked)
	s.l.counts.in.Add(in - s.in)
	s.l.counts.out.Add(out - s.out)
	s.in, s.out = in, out
	if in+out != s.moved {
		s.moved, s.since = in+out, now
		return false
	}
	return now.Sub(s.since) >= s.l.conf.Load().idle()
}

func tcpInfo(c syscall.Conn) (*unix.TCPInfo, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var info *unix.TCPInfo
	var inner error
	if err := raw.Control(func(fd uintptr) { info, inner = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil {
		return nil, err
	}
	return info, inner
}
