package vip

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Link is a network interface that VIPs are added to. Every address of one host (/32 or /128) on it is taken for a VIP.
type Link struct {
	link   netlink.Link
	handle *netlink.Handle
}

// Open finds the link by name, in this process's network namespace.
func Open(name string) (*Link, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	l, err := h.LinkByName(name)
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	return &Link{link: l, handle: h}, nil
}

// Close leaves the addresses as they are.
func (l *Link) Close() { l.handle.Close() }

// Set makes these the VIPs of the link and announces those that are new. It goes on after an error and returns all.
func (l *Link) Set(vips []netip.Addr) error {
	have, err := l.vips()
	if err != nil {
		return err
	}
	var errs []error
	var added []netip.Addr
	for a, addr := range have {
		if !slices.Contains(vips, a) {
			errs = append(errs, l.remove(addr))
		}
	}
	for _, a := range vips {
		if _, there := have[a]; there {
			continue
		}
		if err := l.add(a); err != nil {
			errs = append(errs, err)
			continue
		}
		added = append(added, a)
	}
	return errors.Join(append(errs, l.Announce(added))...)
}

func (l *Link) vips() (map[netip.Addr]netlink.Addr, error) {
	var addrs []netlink.Addr
	var err error
	for range 5 { // a dump that was interrupted by a change is incomplete
		if addrs, err = l.handle.AddrList(l.link, netlink.FAMILY_ALL); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", l.link.Attrs().Name, err)
	}
	found := map[netip.Addr]netlink.Addr{}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		ones, bits := a.Mask.Size()
		if ok && ones == bits {
			found[ip.Unmap()] = a
		}
	}
	return found, nil
}

func (l *Link) add(a netip.Addr) error {
	bits := a.BitLen()
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, bits)}}
	if a.Is6() {
		// Nobody else has it, so there is nothing to detect; and it is no source for connections to members: deprecated
		// addresses come last.
		addr.Flags = unix.IFA_F_NODAD
		addr.ValidLft, addr.PreferedLft = math.MaxUint32, 0
	}
	if err := l.handle.AddrAdd(l.link, addr); err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("add VIP %s to %s: %w", a, l.link.Attrs().Name, err)
	}
	return nil
}

func (l *Link) remove(addr netlink.Addr) error {
	err := l.handle.AddrDel(l.link, &addr)
	if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("remove VIP %s from %s: %w", addr.IP, l.link.Attrs().Name, err)
	}
	return nil
}
