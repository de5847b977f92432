package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"
)

// wantsFloating tells whether the balancer is to be reached from outside its network. There are floating IPs of IPv4 only.
func (p *pass) wantsFloating() bool {
	r := request{service: p.svc, vips: p.vips}
	return p.os != nil && p.os.network != nil && !p.settings.Internal && r.families()[0] == corev1.IPv4Protocol
}

// addresses makes the balancer's floating IP what the Service wants, and tells what to publish.
func (p *pass) addresses(ctx context.Context, b haveBalancer) ([]netip.Addr, error) {
	if p.os.network == nil {
		return b.addresses(), nil
	}
	fip, err := p.floatingAt(ctx, b.PortID)
	if err != nil {
		return nil, err
	}
	wants := p.wantsFloating()
	mine := len(p.others(b)) == 0 && !outside(b, p.clusterID)
	if fip != nil && mine && (!wants || (p.settings.Address.IsValid() && fip.FloatingIP != p.settings.Address.String())) {
		if err := p.release(ctx, *fip); err != nil {
			return nil, err
		}
		fip = nil
	}
	if fip == nil && wants {
		if err := p.obtainFloating(ctx, b); err != nil {
			return nil, err
		}
	}
	return p.published(ctx, b)
}

// floatingAt is the floating IP of a port, nil if it has none.
func (p *pass) floatingAt(ctx context.Context, port string) (*floatingips.FloatingIP, error) {
	if port == "" {
		return nil, nil
	}
	all, err := p.listFloating(ctx, floatingips.ListOpts{PortID: port})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

func (p *pass) listFloating(ctx context.Context, query floatingips.ListOpts) ([]floatingips.FloatingIP, error) {
	page, err := floatingips.List(p.os.network, query).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("floating IPs: %w", readable(err))
	}
	return floatingips.ExtractFloatingIPs(page)
}

// obtainFloating gives the balancer the floating IP that the Service names, one that it had before, or a new one.
func (p *pass) obtainFloating(ctx context.Context, b haveBalancer) error {
	query := floatingips.ListOpts{Description: floatingDescription(p.opts.ClusterName, p.svc)}
	if p.settings.Address.IsValid() {
		query = floatingips.ListOpts{FloatingIP: p.settings.Address.String()}
	}
	there, err := p.listFloating(ctx, query)
	if err != nil {
		return err
	}
	for _, fip := range there {
		if fip.Description != query.Description && !p.settings.Address.IsValid() {
			continue
		}
		if fip.PortID == "" {
			err := floatingips.Update(ctx, p.os.network, fip.ID, floatingips.UpdateOpts{PortID: &b.PortID}).Err
			if err != nil {
				return fmt.Errorf("floating IP %s: %w", fip.FloatingIP, readable(err))
			}
			return nil
		}
		if p.settings.Address.IsValid() {
			return fmt.Errorf("floating IP %s is used by port %s", fip.FloatingIP, fip.PortID)
		}
	}
	return p.createFloating(ctx, b)
}

func (p *pass) createFloating(ctx context.Context, b haveBalancer) error {
	network := p.settings.FloatingNetworkID
	if network == "" {
		var err error
		if network, err = p.externalNetwork(ctx); err != nil {
			return err
		}
		if network == "" {
			p.warn("NoFloatingNetwork", "There is no external network: the load balancer has no floating IP")
			return nil
		}
	}
	from, err := p.floatingSubnets(ctx, network)
	if err != nil {
		return err
	}
	o := floatingips.CreateOpts{
		FloatingNetworkID: network, PortID: b.PortID, Description: floatingDescription(p.opts.ClusterName, p.svc),
	}
	if p.settings.Address.IsValid() {
		o.FloatingIP = p.settings.Address.String()
	}
	for _, o.SubnetID = range from {
		err = floatingips.Create(ctx, p.os.network, o).Err
		if err == nil {
			return nil
		}
		if isUnclear(err) && ctx.Err() == nil {
			if fip, look := p.floatingAt(ctx, b.PortID); look == nil && fip != nil {
				return nil // it was made all the same
			}
		}
		if !isConflict(err) {
			break // another subnet would not help
		}
	}
	return fmt.Errorf("create floating IP: %w", readable(err))
}

// externalNetwork is the first network that has floating IPs; "": there is none.
func (p *pass) externalNetwork(ctx context.Context) (string, error) {
	yes := true
	page, err := networks.List(p.os.network, external.ListOptsExt{ListOptsBuilder: networks.ListOpts{}, External: &yes}).AllPages(ctx)
	if err != nil {
		return "", fmt.Errorf("external networks: %w", readable(err))
	}
	all, err := networks.ExtractNetworks(page)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0].ID, nil
}

// floatingSubnets is where the address may come from, to be tried in order; one that is "" leaves it to Neutron.
func (p *pass) floatingSubnets(ctx context.Context, network string) ([]string, error) {
	s := p.settings
	if s.FloatingSubnetID != "" {
		return []string{s.FloatingSubnetID}, nil
	}
	if s.FloatingSubnet == "" && s.FloatingSubnetTags == "" {
		return []string{""}, nil
	}
	fits, err := subnetPattern(s.FloatingSubnet, s.FloatingSubnetTags)
	if err != nil {
		return nil, err
	}
	page, err := subnets.List(p.os.network, subnets.ListOpts{NetworkID: network}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("subnets of network %s: %w", network, readable(err))
	}
	all, err := subnets.ExtractSubnets(page)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, subnet := range all {
		if fits(subnet) {
			ids = append(ids, subnet.ID)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no subnet of network %s fits name %q and tags %q", network, s.FloatingSubnet, s.FloatingSubnetTags)
	}
	return ids, nil
}

// release takes a floating IP away from a balancer. Only one that was made for this Service is deleted.
func (p *pass) release(ctx context.Context, fip floatingips.FloatingIP) error {
	var err error
	if fip.Description == floatingDescription(p.opts.ClusterName, p.svc) && !p.settings.KeepFloating {
		err = unlessGone(floatingips.Delete(ctx, p.os.network, fip.ID).ExtractErr())
	} else if fip.PortID != "" {
		nowhere := ""
		err = unlessGone(floatingips.Update(ctx, p.os.network, fip.ID, floatingips.UpdateOpts{PortID: &nowhere}).Err)
	}
	if err != nil {
		return fmt.Errorf("floating IP %s: %w", fip.FloatingIP, readable(err))
	}
	return nil
}

func (p *pass) releaseFloating(ctx context.Context, b haveBalancer) error {
	if p.os.network == nil {
		return nil
	}
	fip, err := p.floatingAt(ctx, b.PortID)
	if err != nil || fip == nil {
		return err
	}
	return p.release(ctx, *fip)
}

// lost are floating IPs of this Service whose balancer went without them.
func (p *pass) lost(ctx context.Context) ([]floatingips.FloatingIP, error) {
	if p.os.network == nil || p.settings.KeepFloating {
		return nil, nil
	}
	mine := floatingDescription(p.opts.ClusterName, p.svc)
	all, err := p.listFloating(ctx, floatingips.ListOpts{Description: mine})
	return slices.DeleteFunc(all, func(f floatingips.FloatingIP) bool { return f.PortID != "" || f.Description != mine }), err
}

func (p *pass) releaseLost(ctx context.Context) error {
	all, err := p.lost(ctx)
	for _, fip := range all {
		err = errors.Join(err, p.release(ctx, fip))
	}
	return err
}
