package echo

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// openUDP answers on a socket that is bound to all addresses. The kernel tells with each datagram which of them it
// was sent to, and takes the same note back with the answer: otherwise a reply could leave from another address.
func (s *Server) openUDP(pc net.PacketConn) error {
	c, ok := pc.(*net.UDPConn)
	if !ok {
		return fmt.Errorf("udp server: cannot serve on %T", pc)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("udp server: %w", err)
	}
	var opt error
	if err := raw.Control(func(fd uintptr) {
		v6 := unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1)
		if v6 != nil { // an IPv4 socket
			opt = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_PKTINFO, 1)
		}
	}); err != nil || opt != nil {
		return fmt.Errorf("udp server: ask for destination addresses: %w", errors.Join(err, opt))
	}
	_ = c.SetReadBuffer(1 << 20) // a burst may wait; a smaller buffer only loses more
	s.running.Go(func() { s.answerUDP(c) })
	return nil
}

func (s *Server) answerUDP(c *net.UDPConn) {
	buf, oob := make([]byte, 65536), make([]byte, 256)
	for {
		n, on, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			slog.Debug("receive", "pod", s.opts.Pod, "error", err)
			if !s.pause(time.Millisecond) {
				return
			}
			continue
		}
		if s.fails() {
			continue
		}
		client := netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		answer := append(append(s.identity(client.String()), ' '), buf[:n]...)
		if len(answer) > 65507 { // the largest datagram IPv4 carries
			answer = answer[:65507]
		}
		source := replySource(oob[:on])
		if s.opts.Delay <= 0 {
			_, _, _ = c.WriteMsgUDPAddrPort(answer, source, from) // UDP: lost is lost
			continue
		}
		s.running.Go(func() {
			if s.pause(s.opts.Delay) {
				_, _, _ = c.WriteMsgUDPAddrPort(answer, source, from)
			}
		})
	}
}

// replySource turns the note about a received datagram's destination into the note that makes it an answer's source:
// the same address, but any interface, since the route back may be another one. Link-local addresses keep theirs.
func replySource(oob []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			info := unix.Inet6Pktinfo{Addr: [16]byte(m.Data[:16])}
			if a := netip.AddrFrom16(info.Addr); a.Is6() && a.IsLinkLocalUnicast() {
				return nil // the scope of the client's address says it already
			}
			return unix.PktInfo6(&info)
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte(m.Data[8:12])})
		}
	}
	return nil
}
