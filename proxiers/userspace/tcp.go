package userspace

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// dialTimeouts are how long the first, second, ... endpoint may take to accept. They grow: an endpoint that is merely
// slow is not given up on for good.
var dialTimeouts = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}

// mostTries bounds how many endpoints are tried for one connection.
const mostTries = 16

// tcpServer accepts the connections of one Service port.
type tcpServer struct {
	hold     *holder
	balancer *balancer
	conns    *connections
	log      *slog.Logger
	listener *net.TCPListener // nil: does not accept
}

func (s *tcpServer) start() error {
	if s.listener != nil {
		return nil
	}
	l, err := s.hold.listenTCP(s.conns.ctx)
	if err != nil {
		return err
	}
	s.listener = l
	s.conns.wg.Go(func() { s.accept(l) })
	return nil
}

// stop refuses new connections; those that are open go on.
func (s *tcpServer) stop() {
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
	}
}

func (s *tcpServer) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, most likely: there will be some again
			s.log.Warn("accept failed", "port", s.hold.port, "error", err)
			if !s.conns.sleep(100 * time.Millisecond) {
				return
			}
			continue
		}
		s.conns.wg.Go(func() { s.serve(c) })
	}
}

func (s *tcpServer) serve(client *net.TCPConn) {
	if !s.conns.add(client) {
		return
	}
	defer s.conns.remove(client)
	backend := s.dial(client)
	if backend == nil {
		reset(client)
		return
	}
	if !s.conns.add(backend) {
		return
	}
	defer s.conns.remove(backend)
	relay(client, backend)
}

// dial connects to an endpoint, to another when that does not answer in time or refuses, and so on; nil when none is
// left to try.
func (s *tcpServer) dial(client *net.TCPConn) *net.TCPConn {
	from := client.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	var tried []netip.AddrPort
	for try := range mostTries {
		endpoint, ok := s.balancer.pick(from, tried)
		if !ok || try >= len(dialTimeouts) && contains(tried, endpoint) {
			return nil
		}
		timeout := dialTimeouts[min(try, len(dialTimeouts)-1)]
		ctx, cancel := context.WithTimeout(s.conns.ctx, timeout)
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", endpoint.String())
		cancel()
		if err == nil {
			return c.(*net.TCPConn)
		}
		if s.conns.ctx.Err() != nil {
			return nil
		}
		s.log.Debug("endpoint does not accept", "endpoint", endpoint, "client", from, "error", err)
		tried = append(tried, endpoint)
	}
	return nil
}

func contains(list []netip.AddrPort, e netip.AddrPort) bool {
	for _, l := range list {
		if l == e {
			return true
		}
	}
	return false
}

// relay moves bytes both ways until both directions have ended. The end of one direction is passed on and leaves the
// other open; a broken connection breaks the other.
func relay(a, b *net.TCPConn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		move(a, b)
	}()
	move(b, a)
	<-done
}

// move copies from src to dst until src ends. The standard library does it with splice(2) between two TCP connections,
// so that the bytes never enter this process.
func move(dst, src *net.TCPConn) {
	if _, err := io.Copy(dst, src); err != nil {
		reset(dst)
		reset(src)
		return
	}
	if err := dst.CloseWrite(); err != nil {
		reset(src) // nobody is there to read it
	}
}

// reset ends a connection with RST: the peer must not take what it got for all there was.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
