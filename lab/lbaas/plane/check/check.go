// Package check asks a server once whether it works, in the ways of Octavia's health monitors.
package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Types of probes, Octavia's names.
const (
	TCP        = "TCP"
	HTTP       = "HTTP"
	HTTPS      = "HTTPS"
	Ping       = "PING"
	UDPConnect = "UDP-CONNECT"
	TLSHello   = "TLS-HELLO"
)

// Spec is a probe.
type Spec struct {
	Type   string
	Target netip.AddrPort // the port does not matter for Ping
	// Preface goes first on a TCP connection: a PROXY protocol header.
	Preface []byte
	// The rest is of HTTP and HTTPS.
	Method        string  // "": GET
	Path          string  // "": /
	ExpectedCodes string  // "200", "200,202", "200-204"; "": 200
	HTTPVersion   float64 // 1.0 or 1.1; 0: 1.0
	DomainName    string  // Host of HTTP/1.1
}

// silence is how long a UDP server is given to refuse; one that says nothing works.
const silence = time.Second

// Probe returns nil when the server works. It takes no longer than ctx.
func Probe(ctx context.Context, s Spec) error {
	switch s.Type {
	case TCP:
		return probeTCP(ctx, s)
	case HTTP, HTTPS:
		return probeHTTP(ctx, s)
	case TLSHello:
		return probeTLS(ctx, s)
	case UDPConnect:
		return probeUDP(ctx, s)
	case Ping:
		return probePing(ctx, s.Target.Addr())
	}
	return fmt.Errorf("monitors of type %q are not supported", s.Type)
}

// Supported says whether Probe knows the type.
func Supported(kind string) bool {
	switch kind {
	case TCP, HTTP, HTTPS, Ping, UDPConnect, TLSHello:
		return true
	}
	return false
}

// dial connects and sends the preface. The connection ends with ctx.
func dial(ctx context.Context, s Spec) (*net.TCPConn, error) {
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", s.Target.String())
	if err != nil {
		return nil, err
	}
	c := conn.(*net.TCPConn)
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	_ = c.SetLinger(0) // a probe leaves no TIME_WAIT behind
	if len(s.Preface) > 0 {
		if _, err := c.Write(s.Preface); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

func probeTCP(ctx context.Context, s Spec) error {
	c, err := dial(ctx, s)
	if err != nil {
		return err
	}
	return c.Close()
}

func probeTLS(ctx context.Context, s Spec) error {
	c, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	return tls.Client(c, tlsConfig(s)).HandshakeContext(ctx)
}

// tlsConfig asks for an answer, not for a proof.
func tlsConfig(s Spec) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: s.DomainName, MinVersion: tls.VersionTLS10} //nolint:gosec // as Octavia: verify none
}

// probeUDP sends an empty datagram. A closed port is told by ICMP, and anything else counts as working.
func probeUDP(ctx context.Context, s Spec) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", s.Target.String())
	if err != nil {
		return err
	}
	defer c.Close()
	wait := time.Now().Add(silence)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(wait) {
		wait = deadline
	}
	_ = c.SetReadDeadline(wait)
	if _, err := c.Write(nil); err != nil {
		return err
	}
	if _, err = c.Read(make([]byte, 1)); errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) {
		return err
	}
	return nil
}
