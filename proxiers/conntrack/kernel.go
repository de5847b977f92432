package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"proxylab/proxiers/services"
)

// kernel is the table of the network namespace of the calling thread.
type kernel struct{}

// maxDumps bounds how often a listing that the kernel interrupted is taken again.
const maxDumps = 5

func (kernel) deleteIf(ctx context.Context, f services.Family, stale func(Flow) bool) (removed int, err error) {
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("open netlink to conntrack: %w", err)
	}
	defer h.Close()
	family := netlink.InetFamily(unix.AF_INET)
	if f == services.IPv6 {
		family = unix.AF_INET6
	}
	for range maxDumps {
		n, err := h.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter(stale))
		removed += int(n)
		if err == nil {
			return removed, nil
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) || ctx.Err() != nil {
			return removed, fmt.Errorf("remove stale %s flows from conntrack: %w", f, err)
		}
	}
	return removed, fmt.Errorf("remove stale %s flows from conntrack: the table changed during each of %d listings", f, maxDumps)
}

// filter adapts a function to netlink's filters.
type filter func(Flow) bool

func (f filter) MatchConntrackFlow(c *netlink.ConntrackFlow) bool {
	if c.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	return f(Flow{addrPort(c.Forward.DstIP, c.Forward.DstPort), addrPort(c.Reverse.SrcIP, c.Reverse.SrcPort)})
}

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip) // the zero address if the kernel gave none; no Service has it
	return netip.AddrPortFrom(a.Unmap(), port)
}

func (kernel) localAddrs(f services.Family) ([]netip.Addr, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink to list addresses: %w", err)
	}
	defer h.Close()
	family := netlink.FAMILY_V4
	if f == services.IPv6 {
		family = netlink.FAMILY_V6
	}
	for range maxDumps {
		list, err := h.AddrList(nil, family)
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		addrs := make([]netip.Addr, 0, len(list))
		for _, a := range list {
			addrs = append(addrs, addrPort(a.IP, 0).Addr())
		}
		return addrs, nil
	}
	return nil, fmt.Errorf("list addresses: they changed during each of %d listings", maxDumps)
}
