package services

import (
	"net/netip"
	"slices"
	"strings"
)

// parseAddr reads an address as old API objects may hold it: with leading zeros in an IPv4 address, read as decimal, or
// IPv4 mapped into IPv6, which is IPv4.
func parseAddr(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		if a, err = netip.ParseAddr(trimZeros(s)); err != nil {
			return netip.Addr{}, false
		}
	}
	return a.Unmap(), a.Zone() == ""
}

// trimZeros removes leading zeros from the parts of a dotted address.
func trimZeros(s string) string {
	parts := strings.Split(s, ".")
	for i, p := range parts {
		if p = strings.TrimLeft(p, "0"); p == "" && parts[i] != "" {
			p = "0"
		}
		parts[i] = p
	}
	return strings.Join(parts, ".")
}

// parsePrefix reads a CIDR in the same tolerant way, and with blanks around it, which API validation lets pass in
// loadBalancerSourceRanges.
func parsePrefix(s string) (netip.Prefix, bool) {
	s = strings.TrimSpace(s)
	p, err := netip.ParsePrefix(s)
	if err != nil {
		addr, bits, found := strings.Cut(s, "/")
		if !found {
			return netip.Prefix{}, false
		}
		if p, err = netip.ParsePrefix(trimZeros(addr) + "/" + bits); err != nil {
			return netip.Prefix{}, false
		}
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// addrsOf parses and sorts the addresses of one family, without duplicates. What is no address is left out: such
// lists were not always validated by the API.
func addrsOf(family Family, texts []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range texts {
		if a, ok := parseAddr(s); ok && familyOf(a) == family {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// prefixesOf does the same for CIDRs.
func prefixesOf(family Family, texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		if p, ok := parsePrefix(s); ok && familyOf(p.Addr()) == family {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
