package iptables

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/proxiers/conformance/bed"
)

// A packet of the server that conntrack finds INVALID is not translated back. It must not reach the client, which would
// reset a connection that it does not know, and so end the good one. https://issues.k8s.io/74839
func TestInvalidPacketsDoNotEndConnections(t *testing.T) {
	eachOf(t, backends, func(n *node) {
		for _, liberal := range []string{"0", "1"} {
			n.MustExec(bed.Node, "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_be_liberal="+liberal)
			if _, err := n.Running.Sync(t.Context(), n.Snapshot(web("remote1"))); err != nil { // a full pass reads it
				t.Fatal(err)
			}
			for _, v6 := range both {
				c := n.open(bed.Client, vip(1, v6))
				n.forge("remote1", c)
				if err := c.echo(); err != nil {
					t.Errorf("%s, be_liberal %s, IPv6 %v: after a packet from outside the window: %v", n.variant, liberal, v6, err)
				}
			}
		}
		// Without the rule it does, so the test tests something.
		n.MustExec(bed.Node, "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_be_liberal=0")
		n.MustExec(bed.Node, n.tool(""), "-F", chainForward)
		c := n.open(bed.Client, vip(1, false))
		n.forge("remote1", c)
		if err := c.echo(); err == nil {
			t.Errorf("%s: the forged packet does no harm without the rule against it either", n.variant)
		}
	})
}

// conn is a client's connection with what a forger has to know of it.
type conn struct {
	*net.TCPConn
	backend           netip.AddrPort
	sent, received    uint32 // sequence numbers of the next byte
	endOfGreetingRead bool
}

func (n *node) open(from string, to netip.AddrPort) *conn {
	n.t.Helper()
	c := &conn{backend: netip.AddrPortFrom(n.Pod("remote1").Addr(to.Addr().Is6()), bed.TCPPort)}
	err := n.RunIn(from, func() error {
		d, err := net.DialTimeout("tcp", to.String(), n.Timeout)
		if err == nil {
			c.TCPConn = d.(*net.TCPConn)
		}
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	if err := c.echo(); err != nil {
		n.t.Fatal(err)
	}
	if c.sent, c.received, err = c.sequence(); err != nil {
		n.t.Fatal(err)
	}
	return c
}

// echo sends a line and waits for it; the first time the server's greeting comes before.
func (c *conn) echo() error {
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "x\n"); err != nil {
		return err
	}
	line := make([]byte, 1)
	for lines := 0; lines < 1 || lines < 2 && !c.endOfGreetingRead; {
		if _, err := io.ReadFull(c, line); err != nil {
			return err
		}
		if line[0] == '\n' {
			lines++
		}
	}
	c.endOfGreetingRead = true
	return nil
}

// sequence reads the connection's sequence numbers by putting the socket into repair mode for a moment.
func (c *conn) sequence() (sent, received uint32, err error) {
	const repairOffSilently, receiveQueue, sendQueue = -1, 1, 2
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		set := func(option, value int) {
			if failed == nil {
				failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, value)
			}
		}
		get := func() uint32 {
			v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
			if failed == nil {
				failed = err
			}
			return uint32(v)
		}
		set(unix.TCP_REPAIR, 1)
		set(unix.TCP_REPAIR_QUEUE, sendQueue)
		sent = get()
		set(unix.TCP_REPAIR_QUEUE, receiveQueue)
		received = get()
		set(unix.TCP_REPAIR, repairOffSilently)
	})
	if err == nil {
		err = failed
	}
	return sent, received, err
}

// forge has a backend send a packet of the connection that is far outside the window, but acknowledges rightly: the reset
// that would answer it is one that the backend believes. It returns when the packet, and what answers it, has been there.
func (n *node) forge(from string, c *conn) {
	n.t.Helper()
	client := netip.MustParseAddrPort(c.LocalAddr().String())
	packet := segment(c.backend, client, c.received+100_000_000, c.sent)
	err := n.RunIn(from, func() error {
		domain := unix.AF_INET
		var to unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte(client.Addr().AsSlice()[:4])}
		if client.Addr().Is6() {
			domain, to = unix.AF_INET6, &unix.SockaddrInet6{Addr: client.Addr().As16()}
		}
		fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		if err != nil {
			return fmt.Errorf("raw socket: %w", err)
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packet, 0, to)
	})
	if err != nil {
		n.t.Fatal(err)
	}
	// Packets of a pod pass in order, so what is asked afterwards comes back afterwards.
	place := bed.Client
	if _, err := n.DialTCP(from, netip.AddrPortFrom(n.Pod(place).Addr(client.Addr().Is6()), 9)); err != nil && bed.Kind(err) != bed.KindRefused {
		n.t.Fatal(err)
	}
}

// segment is a TCP segment of one byte.
func segment(from, to netip.AddrPort, seq, ack uint32) []byte {
	const header, acknowledges, pushes = 20, 0x10, 0x08
	b := make([]byte, header+1)
	binary.BigEndian.PutUint16(b, from.Port())
	binary.BigEndian.PutUint16(b[2:], to.Port())
	binary.BigEndian.PutUint32(b[4:], seq)
	binary.BigEndian.PutUint32(b[8:], ack)
	b[12], b[13] = header/4<<4, acknowledges|pushes
	binary.BigEndian.PutUint16(b[14:], 1000)
	b[header] = '?'
	pseudo := append(append([]byte{}, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(b)))
	pseudo = append(append(pseudo, 0, 0, 0, unix.IPPROTO_TCP), b...)
	binary.BigEndian.PutUint16(b[16:], checksum(pseudo))
	return b
}

// checksum is that of the Internet, RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		sum += word
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
