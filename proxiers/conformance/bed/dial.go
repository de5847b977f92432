package bed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

// Answer is what a backend said: its own name and the client's address as it saw it.
type Answer struct {
	Pod    string
	Client netip.AddrPort
}

// Kinds of failure, see Kind.
const (
	KindRefused  = "refused"  // RST, or ICMP port unreachable
	KindTimeout  = "timeout"  // no answer within Bed.Timeout: dropped
	KindNoRoute  = "no-route" // host or network unreachable
	KindReset    = "reset"    // an established connection was reset
	KindEOF      = "eof"      // closed before it answered
	KindBusyPort = "busy"     // the local address is in use: a mistake of the test
	KindOther    = "other"
)

// Kind says how an attempt failed, "" when it did not.
func Kind(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return KindRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return KindNoRoute
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return KindReset
	case errors.Is(err, syscall.EADDRINUSE):
		return KindBusyPort
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return KindEOF
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return KindTimeout
	}
	return KindOther
}

// From says where a connection starts.
type From struct {
	Place string
	Addr  netip.Addr // source address; zero: the kernel's choice
	Port  uint16     // source port; 0: any
}

// DialTCP connects from a place, reads who answered, and closes.
func (b *Bed) DialTCP(place string, to netip.AddrPort) (Answer, error) {
	return b.DialTCPFrom(From{Place: place}, to)
}

// DialTCPFrom is DialTCP from a given source address or port.
func (b *Bed) DialTCPFrom(from From, to netip.AddrPort) (Answer, error) {
	c, err := b.OpenTCP(from, to)
	if err != nil {
		return Answer{}, err
	}
	return c.Answer, c.Close()
}

// TCP is an open connection to a backend.
type TCP struct {
	Answer
	conn    net.Conn
	reader  *bufio.Reader
	timeout time.Duration
}

// OpenTCP connects and reads who answered. The connection stays open until the caller closes it.
func (b *Bed) OpenTCP(from From, to netip.AddrPort) (*TCP, error) {
	var conn net.Conn
	err := b.RunIn(from.Place, func() (err error) {
		d := net.Dialer{Timeout: b.Timeout, KeepAlive: -1}
		if from.Addr.IsValid() || from.Port != 0 {
			d.LocalAddr = &net.TCPAddr{IP: from.Addr.AsSlice(), Port: int(from.Port)}
		}
		conn, err = d.Dial("tcp", to.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("from %s: %w", from.Place, err)
	}
	c := &TCP{conn: conn, reader: bufio.NewReader(conn), timeout: b.Timeout}
	line, err := c.readLine()
	if err == nil {
		c.Answer, _, err = parseAnswer(line)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("from %s: read who answered at %s: %w", from.Place, to, err)
	}
	return c, nil
}

// Echo sends a line and fails unless it comes back.
func (c *TCP) Echo(text string) error {
	if _, err := io.WriteString(c.conn, text+"\n"); err != nil {
		return err
	}
	line, err := c.readLine()
	if err == nil && line != text {
		err = fmt.Errorf("sent %q, got back %q", text, line)
	}
	return err
}

// Close closes the connection.
func (c *TCP) Close() error { return c.conn.Close() }

func (c *TCP) readLine() (string, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return "", err
	}
	line, err := c.reader.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// DialUDP sends one datagram from a source port (0: any) and waits for its answer.
func (b *Bed) DialUDP(place string, to netip.AddrPort, fromPort uint16) (Answer, error) {
	u, err := b.OpenUDP(From{Place: place, Port: fromPort}, to)
	if err != nil {
		return Answer{}, err
	}
	defer u.Close()
	return u.Ask()
}

// UDP is a flow of datagrams from one source port.
type UDP struct {
	conn    net.Conn
	timeout time.Duration
	asked   int
}

// OpenUDP opens a flow; nothing is sent yet.
func (b *Bed) OpenUDP(from From, to netip.AddrPort) (*UDP, error) {
	u := &UDP{timeout: b.Timeout}
	err := b.RunIn(from.Place, func() (err error) {
		var local *net.UDPAddr
		if from.Addr.IsValid() || from.Port != 0 {
			local = &net.UDPAddr{IP: from.Addr.AsSlice(), Port: int(from.Port)}
		}
		u.conn, err = net.DialUDP("udp", local, net.UDPAddrFromAddrPort(to))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("from %s: %w", from.Place, err)
	}
	return u, nil
}

// Ask sends one datagram and waits for its answer; late answers to earlier ones are skipped.
func (u *UDP) Ask() (Answer, error) {
	u.asked++
	payload := fmt.Sprintf("question %d", u.asked)
	if err := u.conn.SetDeadline(time.Now().Add(u.timeout)); err != nil {
		return Answer{}, err
	}
	// EPERM: a rule of this very place stopped the datagram. Whether it also said so is what a refusal differs from a
	// drop by, and comes in as an ICMP error.
	if _, err := io.WriteString(u.conn, payload); err != nil && !errors.Is(err, syscall.EPERM) {
		return Answer{}, err
	}
	buf := make([]byte, 2048)
	for {
		n, err := u.conn.Read(buf)
		if err != nil {
			return Answer{}, err
		}
		if a, echo, err := parseAnswer(string(buf[:n])); err != nil || echo == payload {
			return a, err
		}
	}
}

// Close closes the flow's socket.
func (u *UDP) Close() error { return u.conn.Close() }

// parseAnswer splits "<pod> <address:port>[ <payload>]".
func parseAnswer(s string) (a Answer, rest string, err error) {
	parts := strings.SplitN(s, " ", 3)
	if len(parts) < 2 {
		return a, "", fmt.Errorf("not an answer of a backend: %q", s)
	}
	if len(parts) == 3 {
		rest = parts[2]
	}
	a.Pod = parts[0]
	a.Client, err = netip.ParseAddrPort(parts[1])
	return a, rest, err
}
