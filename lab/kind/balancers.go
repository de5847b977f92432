package kind

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/lab"
	"proxylab/lab/balancers"
	"proxylab/lab/lbaas/openstack"
)

var _ lab.Balanced = (*Lab)(nil)

// LBaaS says how to reach the load balancers; nil: the lab has none.
func (l *Lab) LBaaS(context.Context) (*lab.LBaaS, error) { return balancers.Describe(l.Name()) }

// takeBalancers takes on the load balancers that are asked for. A cluster that was there gets none: what makes load balancers there,
// if anything does, would be at odds with ours, and Services would keep what ours had written into them.
func (m *making) takeBalancers(s *state) (err error) {
	asked := m.opts.LBaaS
	if s.Adopted && asked != nil {
		m.log.Warn("a cluster that was there before gets no load balancers")
		asked = nil
	}
	s.LBaaS, err = balancers.Take(s.LBaaS, asked)
	return err
}

// loadBalancers starts them, each instance in the network of a container beside the nodes.
func (m *making) loadBalancers(ctx context.Context) error {
	if m.state.LBaaS == nil {
		return nil
	}
	site := balancers.Site{Lab: m.Name(), Executable: m.opts.Executable, Spec: m.state.LBaaS.LBaaSSpec, Kubeconfig: m.Kubeconfig()}
	for _, name := range lab.BalancerNames(m.state.LBaaS.Instances()) {
		c, err := m.place(ctx, name)
		if err != nil {
			return err
		}
		if m.state.VIPs == nil {
			if err := m.chooseVIPs(ctx, c); err != nil {
				return err
			}
		}
		site.Instances = append(site.Instances, balancers.Instance{Name: name, NetNS: c.ns("net")})
	}
	site.Network = *m.state.VIPs
	if err := m.includeControlPlanes(ctx); err != nil {
		return err
	}
	return balancers.Start(ctx, site, m.state.LBaaS, func() error { return m.state.save() })
}

// chooseVIPs takes a part of the network that nobody else takes: of its blocks, from the last one down, that with the number of
// the first instance's address. Docker gives addresses from the first one up, each to one container, and other labs are in the same
// network.
func (m *making) chooseVIPs(ctx context.Context, first container) error {
	subnets, err := m.docker.subnets(ctx)
	if err != nil {
		return err
	}
	n := openstack.Network{Name: network}
	for _, subnet := range subnets {
		name, own := "vip", first.address(subnet.Addr().Is6())
		if subnet.Addr().Is6() {
			name = "vip6"
		}
		if !subnet.Contains(own) {
			continue
		}
		low, high, err := vipBlock(subnet, own)
		if err != nil {
			return err
		}
		n.Subnets = append(n.Subnets, openstack.Subnet{Name: name, CIDR: subnet, First: low, Last: high})
	}
	if len(n.Subnets) == 0 {
		return errors.New("the network of Docker has no addresses to give to load balancers")
	}
	m.state.VIPs = &n
	return m.state.save()
}

// vipBlock is the block that belongs to an address of a network: of 256 addresses, or fewer in a network of less than 65,536. Its
// first and last one are not used.
func vipBlock(subnet netip.Prefix, own netip.Addr) (low, high netip.Addr, err error) {
	number := func(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }
	bits := subnet.Addr().BitLen() - subnet.Bits()
	size := int64(1) << min(bits/2, 8)
	begin := number(subnet.Masked().Addr())
	block := new(big.Int).Sub(number(own), begin)
	from := new(big.Int).Lsh(big.NewInt(1), uint(bits)) // one beyond the network, as blocks are counted from its end
	from.Add(from, begin).Sub(from, block.Add(block, big.NewInt(1)).Mul(block, big.NewInt(size)))
	if size < 4 || from.Cmp(number(own)) <= 0 {
		return low, high, fmt.Errorf("network %s of Docker has no room for VIPs of load balancers beside %s: go without (--lbaas=false), or remove it (docker network rm %s) where Docker has larger pools (default-address-pools)", subnet, own, network)
	}
	address := func(offset int64) netip.Addr {
		bytes := make([]byte, subnet.Addr().BitLen()/8)
		a, _ := netip.AddrFromSlice(new(big.Int).Add(from, big.NewInt(offset)).FillBytes(bytes)) // of 4 or 16 bytes
		return a
	}
	return address(1), address(size - 2), nil
}

// includeControlPlanes has load balancers lead to nodes with a control plane, too, as these run pods in a lab. kubeadm keeps them
// away from there, unless there is no other node.
func (m *making) includeControlPlanes(ctx context.Context) error {
	c, err := m.api()
	if err != nil {
		return err
	}
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: corev1.LabelNodeExcludeBalancers})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		if err := c.label(ctx, n.Name, corev1.LabelNodeExcludeBalancers, nil); err != nil {
			return err
		}
	}
	return nil
}
