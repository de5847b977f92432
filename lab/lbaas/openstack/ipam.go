package openstack

import (
	"net/http"
	"net/netip"
)

// defaultPools is what Neutron gives out of a subnet: all but the network's and broadcast's addresses and the gateway.
func defaultPools(cidr netip.Prefix, gateway string) []any {
	first, last := cidr.Addr(), lastOf(cidr)
	if cidr.Addr().Is4() && cidr.Bits() < 31 {
		first, last = first.Next(), last.Prev()
	} else if cidr.Addr().Is6() && cidr.Bits() < 127 {
		first = first.Next()
	}
	span := func(from, to netip.Addr) []any {
		if to.Less(from) {
			return nil
		}
		return []any{map[string]any{"start": from.String(), "end": to.String()}}
	}
	g, err := netip.ParseAddr(gateway)
	if err != nil || !cidr.Contains(g) || g.Less(first) || last.Less(g) {
		return span(first, last)
	}
	return append(span(first, g.Prev()), span(g.Next(), last)...)
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := range b {
		if host := 8*(i+1) - p.Bits(); host >= 8 {
			b[i] = 0xff
		} else if host > 0 {
			b[i] |= 1<<host - 1
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// taken are the addresses of a subnet that ports and floating IPs have.
func (c *Cloud) taken(subnet item) map[string]bool {
	used := map[string]bool{}
	for p := range c.tables["port"].all {
		for _, ip := range p.list("fixed_ips") {
			if ip.text("subnet_id") == subnet.text("id") {
				used[ip.text("ip_address")] = true
			}
		}
	}
	for f := range c.tables["floatingip"].all {
		if f.text("floating_network_id") == subnet.text("network_id") {
			used[f.text("floating_ip_address")] = true
		}
	}
	return used
}

// mostProbed bounds the search for a free address: a pool can be larger than memory.
const mostProbed = 1 << 17

// free finds an address of a subnet that nobody has.
func (c *Cloud) free(subnet item, also map[string]bool) (string, bool) {
	used, probed := c.taken(subnet), 0
	for _, pool := range subnet.list("allocation_pools") {
		start, err1 := netip.ParseAddr(pool.text("start"))
		end, err2 := netip.ParseAddr(pool.text("end"))
		if err1 != nil || err2 != nil {
			continue
		}
		for a := start; !end.Less(a) && probed < mostProbed; a = a.Next() {
			if s := a.String(); !used[s] && !also[s] {
				return s, true
			}
			probed++
		}
	}
	return "", false
}

// claim checks that an address can be had in a subnet.
func (c *Cloud) claim(subnet item, address string, keep map[string]bool) error {
	cidr, err := netip.ParsePrefix(subnet.text("cidr"))
	if err != nil {
		return err
	}
	a, err := netip.ParseAddr(address)
	if err != nil || !cidr.Contains(a) {
		return badRequest("IP address %s is not a valid IP for the specified subnet.", address)
	}
	if c.taken(subnet)[address] && !keep[address] {
		return problemf(http.StatusConflict, "IpAddressAlreadyAllocated", "IP address %s already allocated in subnet %s", address, subnet.text("id"))
	}
	return nil
}
