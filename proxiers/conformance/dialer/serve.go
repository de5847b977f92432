package dialer

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// stand is a server that answers as a pod of package echo does.
type stand struct {
	name   string
	socket io.Closer
	mu     sync.Mutex
	conns  map[net.Conn]struct{} // nil: closed
}

func (s *server) serve(r Request) error {
	st := &stand{name: r.Name, conns: map[net.Conn]struct{}{}}
	var run func()
	switch r.Network {
	case UDP:
		pc, err := net.ListenPacket("udp", r.To.String())
		if err != nil {
			return err
		}
		st.socket, run = pc, func() { st.packets(pc) }
	case TCP, SCTP:
		l, err := listen(r)
		if err != nil {
			return err
		}
		st.socket, run = l, func() { s.accept(st, l) }
	default:
		return fmt.Errorf("cannot serve %q", r.Network)
	}
	if err := s.keep(r.Flow, st); err != nil {
		_ = st.socket.Close()
		return err
	}
	s.running.Go(run)
	return nil
}

func listen(r Request) (net.Listener, error) {
	if r.Network == SCTP {
		return listenSCTP(r.To)
	}
	return net.Listen("tcp", r.To.String())
}

func (st *stand) packets(pc net.PacketConn) {
	buf := make([]byte, 65536)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return // closed
		}
		_, _ = pc.WriteTo(fmt.Appendf(nil, "%s - %s %s", st.name, from, buf[:n]), from)
	}
}

func (s *server) accept(st *stand, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		if !st.track(conn) {
			return
		}
		s.running.Go(func() {
			defer st.untrack(conn)
			if _, err := fmt.Fprintf(conn, "%s - %s\n", st.name, conn.RemoteAddr()); err == nil {
				_, _ = io.Copy(conn, conn)
			}
		})
	}
}

func (st *stand) track(c net.Conn) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.conns == nil {
		_ = c.Close()
		return false
	}
	st.conns[c] = struct{}{}
	return true
}

func (st *stand) untrack(c net.Conn) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.conns, c)
	_ = c.Close()
}

func (st *stand) close(bool) Tally {
	_ = st.socket.Close()
	st.mu.Lock()
	defer st.mu.Unlock()
	for c := range st.conns {
		_ = c.Close()
	}
	st.conns = nil
	return Tally{}
}
