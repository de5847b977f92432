package echo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// Listener opens a server's sockets: in a pod's network namespace, or here (Local).
type Listener interface {
	Listen(network, address string) (net.Listener, error)
	ListenPacket(network, address string) (net.PacketConn, error)
}

// Local opens sockets in the network namespace of the caller.
type Local struct {
	Host    string // address to listen at; empty: all, of both families
	AnyPort bool   // let the kernel choose the ports (for tests); see Server.Addrs
}

func (l Local) address(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address // net.Listen says what is wrong
	}
	if l.AnyPort {
		port = "0"
	}
	return net.JoinHostPort(l.Host, port)
}

// Listen is net.Listen.
func (l Local) Listen(network, address string) (net.Listener, error) {
	return net.Listen(network, l.address(address))
}

// ListenPacket is net.ListenPacket.
func (l Local) ListenPacket(network, address string) (net.PacketConn, error) {
	return net.ListenPacket(network, l.address(address))
}

// Addrs are the addresses a server listens at; nil: off.
type Addrs struct {
	HTTP, TCP, UDP, Stream net.Addr
}

// Server is a running echo server.
type Server struct {
	opts    Options
	addrs   Addrs
	started time.Time

	ctx     context.Context // of the connections
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closers map[closer]struct{} // listeners and connections; nil once closed
}

type closer interface{ Close() error }

// Serve opens the sockets that the options ask for and answers on them until ctx ends or Close is called. It returns
// as soon as all of them are open; when one cannot be opened it opens none.
func Serve(ctx context.Context, o Options, listen Listener) (*Server, error) {
	s := &Server{opts: o, started: time.Now(), closers: map[closer]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := s.open(listen); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	context.AfterFunc(s.ctx, s.closeAll)
	return s, nil
}

func (s *Server) open(listen Listener) error {
	for _, l := range []struct {
		name  string
		port  uint16
		addr  *net.Addr
		serve func(net.Listener)
	}{
		{"http", s.opts.HTTP, &s.addrs.HTTP, s.serveHTTP},
		{"tcp", s.opts.TCP, &s.addrs.TCP, func(l net.Listener) { s.accept(l, s.echo) }},
		{"stream", s.opts.Stream, &s.addrs.Stream, func(l net.Listener) { s.accept(l, s.stream) }},
	} {
		if l.port == 0 {
			continue
		}
		ln, err := listen.Listen("tcp", address(l.port))
		if err != nil {
			return fmt.Errorf("%s server: %w", l.name, err)
		}
		*l.addr = ln.Addr()
		s.track(ln)
		s.running.Go(func() { l.serve(ln) })
	}
	if s.opts.UDP == 0 {
		return nil
	}
	pc, err := listen.ListenPacket("udp", address(s.opts.UDP))
	if err != nil {
		return fmt.Errorf("udp server: %w", err)
	}
	s.addrs.UDP = pc.LocalAddr()
	s.track(pc)
	return s.openUDP(pc)
}

func address(port uint16) string { return ":" + strconv.Itoa(int(port)) }

// Addrs says where the server listens.
func (s *Server) Addrs() Addrs { return s.addrs }

// Ready says whether the server calls itself ready: not when its options say never, not before its slow start is over.
func (s *Server) Ready() bool {
	return !s.opts.NotReady && time.Since(s.started) >= s.opts.SlowStart
}

// Close closes listeners and connections, as the kernel does for a killed process, and waits for all that ran.
func (s *Server) Close() error {
	s.cancel()
	s.closeAll()
	s.running.Wait()
	return nil
}

func (s *Server) closeAll() {
	s.mu.Lock()
	all := s.closers
	s.closers = nil
	s.mu.Unlock()
	for c := range all {
		_ = c.Close() // the other side may have been faster
	}
}

// track has c closed with the server. It says false when the server is closed already, and c then too.
func (s *Server) track(c closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closers == nil {
		_ = c.Close()
		return false
	}
	s.closers[c] = struct{}{}
	return true
}

func (s *Server) untrack(c closer) {
	s.mu.Lock()
	delete(s.closers, c)
	s.mu.Unlock()
	_ = c.Close()
}

// accept hands each connection to handle, until the listener is closed. A lack of file descriptors passes: it waits.
func (s *Server) accept(l net.Listener, handle func(*net.TCPConn)) {
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
		case s.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			slog.Debug("accept", "pod", s.opts.Pod, "error", err)
			if !s.pause(10 * time.Millisecond) {
				return
			}
			continue
		}
		if !s.track(c) {
			return
		}
		s.running.Go(func() {
			defer s.untrack(c)
			handle(c.(*net.TCPConn))
		})
	}
}

// pause waits, and says false when the server was closed meanwhile.
func (s *Server) pause(d time.Duration) bool {
	if d <= 0 {
		return s.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// fails draws whether this request is one of those that fail.
func (s *Server) fails() bool { return s.opts.Fail > 0 && rand.Float64() < s.opts.Fail }
