package lbaas

import (
	"net/netip"

	"proxylab/lab/lbaas/openstack"
)

// StandaloneNetworks are the networks of a server on its own. All of 127.0.0.0/8 is this machine's already, so that
// VIPs carry traffic without an address being added to it; there is no such range of IPv6, and VIPs of private6-subnet are seen in the
// API alone. The address of a floating IP carries the traffic of its balancer too.
func StandaloneNetworks() []openstack.Network {
	private := netip.MustParsePrefix("127.200.0.0/16")
	private6 := netip.MustParsePrefix("fd00:127:200::/64")
	public := netip.MustParsePrefix("127.201.0.0/16")
	members := netip.MustParsePrefix("127.0.0.0/16")
	return []openstack.Network{
		{Name: "private", Subnets: []openstack.Subnet{
			{Name: "private-subnet", CIDR: private, Gateway: private.Addr().Next()},
			{Name: "private6-subnet", CIDR: private6, Gateway: private6.Addr().Next()},
		}},
		{Name: "public", External: true, Subnets: []openstack.Subnet{{Name: "public-subnet", CIDR: public, Gateway: public.Addr().Next()}}},
		{Name: "members", Subnets: []openstack.Subnet{{Name: "members-subnet", CIDR: members}}},
	}
}
