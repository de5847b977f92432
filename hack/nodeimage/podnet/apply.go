package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	cniFile = "/etc/cni/net.d/10-podnet.conflist"
	// protocol marks our routes, so that those that are no longer wanted are found.
	protocol   = netlink.RouteProtocol(112)
	nftTimeout = 30 * time.Second
)

// apply brings routes, rules and the runtime's configuration to what the plan says. The runtime's configuration comes
// last: it makes the node ready.
func (p plan) apply(ctx context.Context) error {
	if err := p.applyRoutes(); err != nil {
		return err
	}
	if err := applyRules(ctx, p.rules()); err != nil {
		return err
	}
	mtu, err := mtuOf(p.self)
	if err != nil {
		return err
	}
	config, err := p.cni(mtu)
	if err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return replace(cniFile, config)
}

// applyRoutes adds the plan's routes and removes the others that carry our protocol.
func (p plan) applyRoutes() error {
	wanted := map[netip.Prefix]bool{}
	var errs []error
	for _, r := range p.routes {
		wanted[r.to] = true
		err := netlink.RouteReplace(&netlink.Route{Dst: ipNet(r.to), Gw: r.via.AsSlice(), Protocol: protocol})
		if err != nil {
			errs = append(errs, fmt.Errorf("route to %v via %v: %w", r.to, r.via, err))
		}
	}
	ours, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("listing routes: %w", err))...)
	}
	for _, r := range ours {
		if r.Dst != nil && wanted[prefix(r.Dst)] {
			continue
		}
		if err := netlink.RouteDel(&r); err != nil {
			errs = append(errs, fmt.Errorf("removing the route to %v: %w", r.Dst, err))
		}
	}
	return errors.Join(errs...)
}

func applyRules(ctx context.Context, rules string) error {
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft -f -: %w: %s\n%s", err, bytes.TrimSpace(out), rules)
	}
	return nil
}

// mtuOf returns the MTU, in bytes, of the link that carries the address.
func mtuOf(address netip.Addr) (int, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return 0, fmt.Errorf("listing links: %w", err)
	}
	for _, link := range links {
		addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return 0, fmt.Errorf("addresses of %s: %w", link.Attrs().Name, err)
		}
		for _, a := range addresses {
			if a.IP.Equal(address.AsSlice()) {
				return link.Attrs().MTU, nil
			}
		}
	}
	return 0, fmt.Errorf("no link has the node's address %v", address)
}

// replace writes the file where it differs, in one step: the runtime watches it.
func replace(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	// The runtime reads names that end in .conf, .conflist and .json.
	temporary := filepath.Join(filepath.Dir(path), ".podnet.new")
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// prefix is ipNet's inverse.
func prefix(n *net.IPNet) netip.Prefix {
	address, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits)
}
