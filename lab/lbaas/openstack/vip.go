package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"proxylab/lab/lbaas/octavia"
)

// vipOwner is the device_owner of ports that belong to load balancers.
const vipOwner = "Octavia"

// VIPs gives load balancers their ports in the networks of this cloud.
type VIPs struct{ c *Cloud }

// VIPs gives load balancers their ports.
func (c *Cloud) VIPs() *VIPs { return &VIPs{c} }

var _ octavia.Network = (*VIPs)(nil)

// Allocate makes the port of a VIP, or takes the one that is asked for. Errors are an *octavia.Error.
func (v *VIPs) Allocate(_ context.Context, q octavia.VIPRequest) (octavia.VIP, error) {
	c := v.c
	c.mu.Lock()
	defer c.mu.Unlock()
	// The service itself acts for the project, as Octavia does with an account of its own.
	who := Identity{ProjectID: q.Project, Roles: []string{"admin"}}
	if q.PortID != "" {
		return c.adopt(q)
	}
	in, err := c.portFor(q)
	if err != nil {
		return octavia.VIP{}, err
	}
	port, err := c.create(c.kindOf("port"), who, in)
	if err != nil {
		return octavia.VIP{}, vipError(err)
	}
	ip := port.list("fixed_ips")[0]
	address, err := netip.ParseAddr(ip.text("ip_address"))
	return octavia.VIP{Address: address, PortID: port.text("id"), SubnetID: ip.text("subnet_id"), NetworkID: port.text("network_id")}, err
}

// portFor is the port that a VIP needs: in the subnet that is asked for, or in the first of the network that fits.
func (c *Cloud) portFor(q octavia.VIPRequest) (item, error) {
	subnet, network := q.SubnetID, q.NetworkID
	if subnet != "" {
		s, ok := c.tables["subnet"].items[subnet]
		if !ok {
			return nil, &octavia.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("Subnet %s not found.", subnet)}
		}
		network = s.text("network_id")
	}
	if _, ok := c.tables["network"].items[network]; !ok {
		return nil, &octavia.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("Network %s not found.", network)}
	}
	if subnet == "" {
		s, err := c.subnetOfVIP(network, q.Address)
		if err != nil {
			return nil, err
		}
		subnet = s
	}
	ip := map[string]any{"subnet_id": subnet}
	if q.Address.IsValid() {
		ip["ip_address"] = q.Address.String()
	}
	return item{
		"network_id": network, "fixed_ips": []any{ip}, "name": "octavia-lb-" + q.Balancer, "device_owner": vipOwner, "device_id": "lb-" + q.Balancer,
		"project_id": q.Project, "security_groups": []any{},
	}, nil
}

// subnetOfVIP chooses: the one with the address, else the first of IPv4, else the first.
func (c *Cloud) subnetOfVIP(network string, address netip.Addr) (string, error) {
	subnets := c.subnetsOf(network)
	for _, s := range subnets {
		cidr, err := netip.ParsePrefix(s.text("cidr"))
		if err == nil && (address.IsValid() && cidr.Contains(address) || !address.IsValid() && cidr.Addr().Is4()) {
			return s.text("id"), nil
		}
	}
	if address.IsValid() || len(subnets) == 0 {
		return "", &octavia.Error{Status: http.StatusBadRequest, Message: "Supplied network does not contain a subnet for VIP allocation."}
	}
	return subnets[0].text("id"), nil
}

// adopt takes a port that somebody has made for a VIP.
func (c *Cloud) adopt(q octavia.VIPRequest) (octavia.VIP, error) {
	port, ok := c.tables["port"].items[q.PortID]
	if !ok {
		return octavia.VIP{}, &octavia.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("Port %s not found.", q.PortID)}
	}
	if port.text("device_id") != "" {
		return octavia.VIP{}, &octavia.Error{Status: http.StatusConflict, Message: fmt.Sprintf("VIP port's %s is already used by %s.", q.PortID, port.text("device_id"))}
	}
	for _, ip := range port.list("fixed_ips") {
		address, err := netip.ParseAddr(ip.text("ip_address"))
		if err != nil || q.SubnetID != "" && ip.text("subnet_id") != q.SubnetID || q.Address.IsValid() && q.Address != address {
			continue
		}
		c.replace("port", port.with(item{"device_owner": vipOwner, "device_id": "lb-" + q.Balancer, "status": "ACTIVE"}))
		return octavia.VIP{Address: address, PortID: q.PortID, SubnetID: ip.text("subnet_id"), NetworkID: port.text("network_id"), Adopted: true}, nil
	}
	return octavia.VIP{}, &octavia.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("Port %s has no IP address that fits the VIP.", q.PortID)}
}

// Release ends what Allocate has made.
func (v *VIPs) Release(_ context.Context, vip octavia.VIP) error {
	c := v.c
	c.mu.Lock()
	defer c.mu.Unlock()
	port, ok := c.tables["port"].items[vip.PortID]
	if !ok {
		return nil // somebody else has deleted it
	}
	if vip.Adopted {
		c.replace("port", port.with(item{"device_owner": "", "device_id": "", "status": "DOWN"}))
		return nil
	}
	return c.remove(c.kindOf("port"), Identity{Roles: []string{"admin"}}, vip.PortID)
}

// Reconcile makes the ports of VIPs agree with the balancers that there are, after an end in which one was written down and the
// other was not: vips gives them by the balancer's ID. It is asked twice, for balancers may go meanwhile.
func (v *VIPs) Reconcile(vips func() map[string][]octavia.VIP) {
	c := v.c
	for balancer, list := range vips() {
		for _, vip := range list {
			c.restore(balancer, vip)
		}
	}
	now := vips()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.tables["port"].where(func(p item) bool { return p.text("device_owner") == vipOwner }) {
		if _, there := now[strings.TrimPrefix(p.text("device_id"), "lb-")]; !there {
			c.tables["port"].remove(p.text("id"))
			c.changed()
		}
	}
}

// restore makes the port of a VIP that lacks one.
func (c *Cloud) restore(balancer string, vip octavia.VIP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.tables["port"].items[vip.PortID]; there || vip.PortID == "" {
		return
	}
	port, err := c.make(c.kindOf("port"), item{"network_id": vip.NetworkID, "name": "octavia-lb-" + balancer, "device_owner": vipOwner,
		"device_id": "lb-" + balancer, "security_groups": []any{}}, Identity{Roles: []string{"admin"}})
	if err != nil { // it is as the kind wants
		return
	}
	port["id"] = vip.PortID
	port["fixed_ips"] = []any{map[string]any{"subnet_id": vip.SubnetID, "ip_address": vip.Address.String()}}
	port["status"], port["mac_address"] = portStatus(port), mac(vip.PortID)
	c.tables["port"].put(port)
	c.changed()
}

// FloatingOf lists the floating IPs that stand for a fixed address.
func (c *Cloud) FloatingOf(fixed netip.Addr) []netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []netip.Addr
	for f := range c.tables["floatingip"].all {
		if f.text("fixed_ip_address") != fixed.String() {
			continue
		}
		if a, err := netip.ParseAddr(f.text("floating_ip_address")); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// vipError is how Octavia tells of what Neutron refuses.
func vipError(err error) error {
	var p *problem
	if !errors.As(err, &p) {
		return err
	}
	status := p.status
	if status == http.StatusConflict && p.kind == "IpAddressAlreadyAllocated" {
		return &octavia.Error{Status: http.StatusConflict, Message: "The IP address is already in use: " + p.message}
	}
	return &octavia.Error{Status: status, Message: p.message}
}
