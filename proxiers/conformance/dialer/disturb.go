package dialer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// jump is how far the sequence number of a disturbing packet is off: further than any window reaches.
const jump = 0x3000_0000

// disturb sees an IPv4 TCP packet with data or an acknowledgement leave from r.To's port to r.From (any, if that is not
// given), and sends a copy whose sequence number is off. Its acknowledgement number stays right: a reset that answers
// the copy carries it as its own sequence number, and hits the connection if it gets there.
func disturb(ctx context.Context, r Request) error {
	const anyProtocol = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	tap, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, anyProtocol)
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	defer func() { _ = unix.Close(tap) }()
	out, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("raw socket: %w", err)
	}
	defer func() { _ = unix.Close(out) }()
	wait := unix.NsecToTimeval((50 * time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(tap, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	deadline := time.Now().Add(r.Timeout)
	buf := make([]byte, 65536)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		n, from, err := unix.Recvfrom(tap, buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("packet socket: %w", err)
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype != unix.PACKET_OUTGOING {
			continue
		}
		if packet, to, ok := disturbing(buf[:n], r); ok {
			if err := unix.Sendto(out, packet, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
				return fmt.Errorf("send to %s: %w", to, err)
			}
			return nil
		}
	}
	return fmt.Errorf("no packet left from port %d within %s", r.To.Port(), r.Timeout)
}

// disturbing makes the copy of a packet that is of the connection asked for.
func disturbing(p []byte, r Request) (packet []byte, to netip.Addr, ok bool) {
	const minIP, minTCP, flagSYN, flagRST, flagACK = 20, 20, 0x02, 0x04, 0x10
	if len(p) < minIP || p[0]>>4 != 4 || p[9] != unix.IPPROTO_TCP {
		return nil, to, false
	}
	header := int(p[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(p[2:]))
	if header < minIP || len(p) < total || total < header+minTCP {
		return nil, to, false
	}
	tcp := p[header:total]
	to = netip.AddrFrom4([4]byte(p[16:20]))
	flags := tcp[13]
	if binary.BigEndian.Uint16(tcp) != r.To.Port() || flags&flagACK == 0 || flags&(flagSYN|flagRST) != 0 ||
		r.From.IsValid() && to != r.From {
		return nil, to, false
	}
	packet = append([]byte(nil), p[:total]...)
	tcp = packet[header:]
	binary.BigEndian.PutUint32(tcp[4:], binary.BigEndian.Uint32(tcp[4:])+jump)
	binary.BigEndian.PutUint16(tcp[16:], 0)
	binary.BigEndian.PutUint16(tcp[16:], checksum(packet[12:20], tcp))
	return packet, to, true
}

// checksum is that of a TCP segment (RFC 9293, section 3.1) between two IPv4 addresses.
func checksum(addresses, segment []byte) uint16 {
	sum := uint32(unix.IPPROTO_TCP) + uint32(len(segment))
	add := func(b []byte) {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	add(addresses)
	add(segment)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
