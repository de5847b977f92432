// Package vip is where a load balancer meets its clients: sockets on VIPs, who may reach them, and the VIPs as addresses of
// a link.
package vip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options of a socket.
type Options struct {
	Allowed []netip.Prefix // who may come, others are dropped; empty: everyone
	Free    bool           // the address need not be this machine's yet
}

// ListenTCP listens at a VIP.
func ListenTCP(ctx context.Context, at netip.AddrPort, o Options) (*net.TCPListener, error) {
	lc := config(at, o)
	l, err := lc.Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// ListenUDP is the same for datagrams.
func ListenUDP(ctx context.Context, at netip.AddrPort, o Options) (*net.UDPConn, error) {
	lc := config(at, o)
	c, err := lc.ListenPacket(ctx, "udp", at.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

func config(at netip.AddrPort, o Options) net.ListenConfig {
	lc := net.ListenConfig{
		KeepAlive: -1, // as haproxy without option clitcpka
		Control: func(_, _ string, c syscall.RawConn) error {
			return control(c, func(fd int) error { return prepare(fd, at.Addr().Is6(), o) })
		},
	}
	lc.SetMultipathTCP(false) // filters and TCP_INFO are of plain TCP
	return lc
}

// prepare works on a socket that is not bound yet, so that no packet comes by before there is a filter.
func prepare(fd int, v6 bool, o Options) error {
	if o.Free {
		level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
		if v6 {
			level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
		}
		if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
			return fmt.Errorf("bind freely: %w", err)
		}
	}
	if len(o.Allowed) == 0 {
		return nil
	}
	return attach(fd, o.Allowed, v6)
}
