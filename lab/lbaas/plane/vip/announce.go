package vip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// Announce tells the neighbours of the link that it has these addresses: gratuitous ARP for IPv4, an unsolicited
// neighbour advertisement for IPv6. A link without hardware addresses has no neighbours to tell.
func (l *Link) Announce(vips []netip.Addr) error {
	hw := l.link.Attrs().HardwareAddr
	if len(vips) == 0 || len(hw) != 6 {
		return nil
	}
	var errs []error
	var v4 []netip.Addr
	for _, a := range vips {
		if a.Is4() {
			v4 = append(v4, a)
		} else {
			errs = append(errs, l.advertise(a, hw))
		}
	}
	if len(v4) > 0 {
		errs = append(errs, l.gratuitousARP(v4, hw))
	}
	return errors.Join(errs...)
}

func (l *Link) gratuitousARP(vips []netip.Addr, hw net.HardwareAddr) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket for gratuitous ARP: %w", err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{
		Protocol: binary.NativeEndian.Uint16([]byte{unix.ETH_P_ARP >> 8, unix.ETH_P_ARP & 0xff}),
		Ifindex:  l.link.Attrs().Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
	var errs []error
	for _, a := range vips {
		if err := unix.Sendto(fd, arpRequest(a, hw), 0, to); err != nil {
			errs = append(errs, fmt.Errorf("gratuitous ARP for %s: %w", a, err))
		}
	}
	return errors.Join(errs...)
}

// arpRequest asks for an address in the name of that same address.
func arpRequest(a netip.Addr, hw net.HardwareAddr) []byte {
	p := []byte{0, 1, 8, 0, 6, 4, 0, 1} // Ethernet, IPv4, lengths of addresses, request
	p = append(p, hw...)
	p = append(p, a.AsSlice()...)
	p = append(p, make([]byte, 6)...)
	return append(p, a.AsSlice()...)
}

func (l *Link) advertise(a netip.Addr, hw net.HardwareAddr) error {
	at := l.link.Attrs()
	c, err := icmp.ListenPacket("ip6:ipv6-icmp", a.String())
	if err != nil {
		return fmt.Errorf("socket for neighbour advertisement: %w", err)
	}
	defer c.Close()
	p := c.IPv6PacketConn()
	if err := errors.Join(p.SetMulticastHopLimit(255), p.SetMulticastInterface(&net.Interface{Index: at.Index})); err != nil {
		return fmt.Errorf("neighbour advertisement: %w", err)
	}
	body := []byte{0x20, 0, 0, 0} // override what was known; not a router, not asked for
	body = append(body, a.AsSlice()...)
	body = append(body, 2, 1) // option: target link-layer address
	body = append(body, hw...)
	b, err := (&icmp.Message{Type: ipv6.ICMPTypeNeighborAdvertisement, Body: &icmp.RawBody{Data: body}}).Marshal(nil)
	if err != nil {
		return fmt.Errorf("neighbour advertisement: %w", err)
	}
	if _, err := c.WriteTo(b, &net.IPAddr{IP: net.IPv6linklocalallnodes, Zone: at.Name}); err != nil {
		return fmt.Errorf("neighbour advertisement for %s: %w", a, err)
	}
	return nil
}
