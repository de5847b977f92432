package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// holder keeps a local port number for one Service port, also while that has no endpoint. The kernel itself then
// refuses what the rules redirect to it (RST, or port unreachable), which is immediate, and nobody else can get the
// number and with it somebody else's traffic.
//
// The socket of a holder never gets a packet: for TCP it is bound but does not listen; for UDP it is connected to a peer
// that does not exist.
type holder struct {
	fd     int
	port   uint16
	udp    bool
	family services.Family
}

// maxAvoided bounds how many ports hold looks at.
const maxAvoided = 1000

// hold reserves a port that is free and not one of those to avoid. What it may not have it keeps until it has found
// another, or else the kernel might offer it again.
func hold(proto corev1.Protocol, family services.Family, avoid map[uint16]bool) (*holder, error) {
	for range maxAvoided {
		h, err := holdAny(proto, family)
		if err != nil || !avoid[h.port] {
			return h, err
		}
		defer h.close()
	}
	return nil, fmt.Errorf("hold a %s port: rules of an earlier process lead to each of %d free ones", proto, maxAvoided)
}

func holdAny(proto corev1.Protocol, family services.Family) (*holder, error) {
	h := &holder{udp: proto == corev1.ProtocolUDP, family: family}
	domain, kind := unix.AF_INET, unix.SOCK_STREAM
	if family == services.IPv6 {
		domain = unix.AF_INET6
	}
	if h.udp {
		kind = unix.SOCK_DGRAM
	}
	var err error
	if h.fd, err = unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("socket to hold a %s port: %w", proto, err)
	}
	if err := h.bind(); err != nil {
		_ = unix.Close(h.fd)
		return nil, fmt.Errorf("hold a %s port: %w", proto, err)
	}
	return h, nil
}

func (h *holder) bind() error {
	any4, peer4 := &unix.SockaddrInet4{}, &unix.SockaddrInet4{Port: 1, Addr: [4]byte{127, 0, 0, 1}}
	var anyone, peer unix.Sockaddr = any4, peer4
	if h.family == services.IPv6 {
		if err := unix.SetsockoptInt(h.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return err
		}
		anyone, peer = &unix.SockaddrInet6{}, &unix.SockaddrInet6{Port: 1, Addr: [16]byte{15: 1}}
	}
	if err := unix.Bind(h.fd, anyone); err != nil {
		return err
	}
	name, err := unix.Getsockname(h.fd)
	if err != nil {
		return err
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		h.port = uint16(a.Port)
	case *unix.SockaddrInet6:
		h.port = uint16(a.Port)
	default:
		return fmt.Errorf("address of unexpected kind %T", name)
	}
	if h.udp {
		return unix.Connect(h.fd, peer)
	}
	return nil
}

func (h *holder) close() { _ = unix.Close(h.fd) }

// address is where a server for the held port listens.
func (h *holder) address() (network, address string) {
	network, address = "tcp", "0.0.0.0"
	if h.udp {
		network = "udp"
	}
	if h.family == services.IPv6 {
		return network + "6", fmt.Sprintf("[::]:%d", h.port)
	}
	return network + "4", fmt.Sprintf("%s:%d", address, h.port)
}

// listenTCP opens the server's socket; while it is open the port accepts.
func (h *holder) listenTCP(ctx context.Context) (*net.TCPListener, error) {
	network, address := h.address()
	h.admit(true)
	defer h.admit(false)
	l, err := (&net.ListenConfig{Control: h.prepare}).Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// listenUDP is the same for UDP. Datagrams come with the address that they were sent to.
func (h *holder) listenUDP(ctx context.Context) (*net.UDPConn, error) {
	network, address := h.address()
	h.admit(true)
	defer h.admit(false)
	c, err := (&net.ListenConfig{Control: h.prepare}).ListenPacket(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// admit lets another socket that wants it too (SO_REUSEADDR) be bound to the port, or not. It is off otherwise, also
// when the holder is bound: the kernel would then choose a UDP port that is in use.
func (h *holder) admit(yes bool) {
	value := 0
	if yes {
		value = 1
	}
	// Where it fails, so does the bind that it is for, and that is reported.
	_ = unix.SetsockoptInt(h.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, value)
}

// prepare sets a server's socket up before it is bound.
func (h *holder) prepare(_, _ string, raw syscall.RawConn) error {
	var errs error
	err := raw.Control(func(fd uintptr) {
		set := func(level, option int) {
			errs = errors.Join(errs, unix.SetsockoptInt(int(fd), level, option, 1))
		}
		set(unix.SOL_SOCKET, unix.SO_REUSEADDR)
		switch {
		case h.udp && h.family == services.IPv6:
			set(unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO)
		case h.udp:
			set(unix.IPPROTO_IP, unix.IP_PKTINFO)
		}
	})
	return errors.Join(err, errs)
}
