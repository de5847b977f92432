package netns

import (
	"context"
	"net/netip"

	"proxylab/lab"
	"proxylab/lab/balancers"
	"proxylab/lab/lbaas/openstack"
	"proxylab/lab/netns/fabric"
)

var _ lab.Balanced = (*Lab)(nil)

// LBaaS says how to reach the load balancers; nil: the lab has none.
func (l *Lab) LBaaS(context.Context) (*lab.LBaaS, error) { return balancers.Describe(l.Name()) }

// balancerNetwork makes the places of the instances, and tells all nodes where VIPs are.
func (m *making) balancerNetwork(context.Context) error {
	if m.state.LBaaS == nil {
		return nil
	}
	return fabric.EnsureBalancers(m.plan(), m.state.LBaaS.Instances())
}

// loadBalancers starts them.
func (m *making) loadBalancers(ctx context.Context) error {
	if m.state.LBaaS == nil {
		return nil
	}
	site := balancers.Site{
		Lab: m.Name(), Executable: m.opts.Executable, Network: vipNetwork(), Spec: m.state.LBaaS.LBaaSSpec, Kubeconfig: m.kubeconfig("agent"),
	}
	for _, b := range fabric.Balancers(m.state.LBaaS.Instances()) {
		site.Instances = append(site.Instances, balancers.Instance{Name: b.Name, NetNS: fabric.BalancerPath(m.Name(), b.Name)})
	}
	return balancers.Start(ctx, site, m.state.LBaaS, func() error { return m.state.save() })
}

// vipNetwork is the fabric as Neutron would describe it: VIPs are given out, and members are nodes.
func vipNetwork() openstack.Network {
	vip4, vip6 := netip.MustParsePrefix(fabric.VIPCIDR4), netip.MustParsePrefix(fabric.VIPCIDR6)
	return openstack.Network{Name: "fabric", Subnets: []openstack.Subnet{
		{Name: "vip", CIDR: vip4, First: netip.MustParseAddr("10.10.1.1"), Last: netip.MustParseAddr("10.10.1.254")},
		{Name: "vip6", CIDR: vip6, First: vip6.Addr().Next(), Last: netip.MustParseAddr("fd00:10:10::1:fffe")},
	}}
}
