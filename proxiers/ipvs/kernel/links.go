package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// links are those of the calling thread's network namespace.
type links struct{}

func find(name string) (netlink.Link, error) {
	l, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for link %s: %w", name, err)
	}
	return l, nil
}

// must is find for a link that has to be there.
func must(name string) (netlink.Link, error) {
	l, err := find(name)
	if err == nil && l == nil {
		err = fmt.Errorf("there is no link %s", name)
	}
	return l, err
}

// Ensure leaves the link down, as kube-proxy does: addresses on it are local all the same, and nothing is ever sent there.
func (links) Ensure(name string) error {
	err := netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add dummy link %s: %w", name, err)
	}
	return nil
}

func (links) Remove(name string) error {
	l, err := find(name)
	if err != nil || l == nil {
		return err
	}
	if err := netlink.LinkDel(l); err != nil {
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	return nil
}

// addrList repeats a listing that a change interrupted.
func addrList(l netlink.Link) (list []netlink.Addr, err error) {
	for range 5 {
		if list, err = netlink.AddrList(l, netlink.FAMILY_ALL); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

func (links) Addrs(name string) ([]netip.Addr, bool, error) {
	l, err := find(name)
	if err != nil || l == nil {
		return nil, false, err
	}
	list, err := addrList(l)
	if err != nil {
		return nil, true, fmt.Errorf("list addresses of %s: %w", name, err)
	}
	out := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok && !addr.Unmap().IsLinkLocalUnicast() {
			out = append(out, addr.Unmap())
		}
	}
	return out, true, nil
}

func (links) LocalAddrs(except string) (map[netip.Addr]string, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	names := map[int]string{}
	for _, l := range all {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	list, err := addrList(nil)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	out := map[netip.Addr]string{}
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP)
		addr = addr.Unmap()
		if ok && names[a.LinkIndex] != except && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
			out[addr] = names[a.LinkIndex]
		}
	}
	return out, nil
}

func hostAddr(a netip.Addr) *netlink.Addr {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
	if a.Is6() {
		addr.Flags = unix.IFA_F_NODAD // nobody can answer on a dummy: usable at once
	}
	return addr
}

func (links) AddAddr(name string, a netip.Addr) error {
	l, err := must(name)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(l, hostAddr(a)); errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add %s to %s: %w", a, name, ErrExists)
	} else if err != nil {
		return fmt.Errorf("add %s to %s: %w", a, name, err)
	}
	return nil
}

// DeleteAddr takes it as done when the address is not there.
func (links) DeleteAddr(name string, a netip.Addr) error {
	l, err := find(name)
	if err != nil || l == nil {
		return err
	}
	if err := netlink.AddrDel(l, hostAddr(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove %s from %s: %w", a, name, err)
	}
	return nil
}

func (links) Note(name string) (string, error) {
	l, err := find(name)
	if err != nil || l == nil {
		return "", err
	}
	return l.Attrs().Alias, nil
}

func (links) SetNote(name, text string) error {
	l, err := must(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetAlias(l, text); err != nil {
		return fmt.Errorf("note on link %s: %w", name, err)
	}
	return nil
}
