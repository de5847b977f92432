package dialer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Go's net package has no SCTP. A one-to-one SCTP socket (RFC 6458, section 4) is used as a TCP socket is, so that what
// is connected or listening can be handed to it.

func sctpSocket(a netip.Addr) (int, error) {
	family := unix.AF_INET6
	if a.Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_SCTP)
	if err != nil {
		return -1, fmt.Errorf("SCTP socket: %w", err)
	}
	return fd, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func connectSCTP(ctx context.Context, to netip.AddrPort, from netip.Addr, port uint16) (net.Conn, error) {
	fd, err := sctpSocket(to.Addr())
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "sctp")
	defer func() { _ = file.Close() }() // FileConn makes a copy
	if !from.IsValid() && port != 0 {
		from = netip.IPv6Unspecified()
		if to.Addr().Is4() {
			from = netip.IPv4Unspecified()
		}
	}
	if from.IsValid() {
		if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, port))); err != nil {
			return nil, fmt.Errorf("bind: %w", err)
		}
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := awaitConnected(ctx, fd); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return net.FileConn(file)
}

func awaitConnected(ctx context.Context, fd int) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for {
		n, err := unix.Poll(poll, int((20 * time.Millisecond).Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err == nil && code != 0 {
				err = unix.Errno(code)
			}
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func listenSCTP(at netip.AddrPort) (net.Listener, error) {
	fd, err := sctpSocket(at.Addr())
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "sctp")
	defer func() { _ = file.Close() }()
	if err := unix.Bind(fd, sockaddr(at)); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(fd, 128); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return net.FileListener(file)
}
