package bed

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
)

// serve starts a pod's servers. Each says who it is and which client it saw, "<pod> <address:port>":
// TCP as a first line, before it echoes; UDP in front of each datagram's payload.
func (b *Bed) serve(pod Pod) error {
	return b.ServeAt(pod.Name, TCPPort, UDPPort)
}

// ServeAt starts the servers of a backend at any place, which answer with the place's name. A port 0 is left out.
func (b *Bed) ServeAt(place string, tcpPort, udpPort int) error {
	s := &servers{name: place, conns: map[net.Conn]struct{}{}}
	err := b.RunIn(place, func() (err error) {
		if tcpPort != 0 {
			if s.tcp, err = net.Listen("tcp", fmt.Sprintf(":%d", tcpPort)); err != nil {
				return err
			}
		}
		if udpPort != 0 {
			s.udp, err = net.ListenUDP("udp", &net.UDPAddr{Port: udpPort})
		}
		return err
	})
	b.closer = append(b.closer, s.close)
	if err != nil {
		return fmt.Errorf("servers of %s: %w", place, err)
	}
	if s.tcp != nil {
		s.wg.Go(s.serveTCP)
	}
	if s.udp != nil {
		s.wg.Go(s.serveUDP)
	}
	return nil
}

type servers struct {
	name string
	tcp  net.Listener
	udp  *net.UDPConn
	wg   sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func (s *servers) serveTCP() {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			return // closed
		}
		if !s.keep(conn) {
			_ = conn.Close()
			return
		}
		s.wg.Go(func() {
			defer s.drop(conn)
			client := unmap(conn.RemoteAddr().(*net.TCPAddr).AddrPort())
			if _, err := fmt.Fprintf(conn, "%s %s\n", s.name, client); err == nil {
				_, _ = io.Copy(conn, conn) // ends when the client does, however
			}
		})
	}
}

func (s *servers) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.conns[c] = struct{}{}
	}
	return !s.closed
}

func (s *servers) drop(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *servers) serveUDP() {
	buf := make([]byte, 64<<10)
	for {
		n, client, err := s.udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			return // closed
		}
		answer := fmt.Appendf(nil, "%s %s ", s.name, unmap(client))
		_, _ = s.udp.WriteToUDPAddrPort(append(answer, buf[:n]...), client) // the client may be gone: its matter
	}
}

func (s *servers) close() {
	if s.tcp != nil {
		_ = s.tcp.Close()
	}
	if s.udp != nil {
		_ = s.udp.Close()
	}
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
