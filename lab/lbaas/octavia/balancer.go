package octavia

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
)

// createBalancer makes a balancer, with all that was sent below it. Its VIP is allocated without the lock.
func (s *Service) createBalancer(c *call, k *kind, sent map[string]any) (*answer, error) {
	project := owner(sent, c.who.ProjectID)
	if project == "" {
		return nil, validation("Missing project ID in request where one is required. An administrator should check the keystone settings in the Octavia configuration.")
	}
	if err := c.who.permit(actWrite, project); err != nil {
		return nil, err
	}
	requests, err := vipRequests(sent)
	if err != nil {
		return nil, err
	}
	attrs := k.post.fill(sent)
	if err := s.chooseProvider(attrs); err != nil {
		return nil, err
	}
	lb := s.newObject(k, attrs)
	lb.Balancer, lb.Project = lb.ID, project
	s.mu.Lock()
	err = s.admit(k, project, 1) // before anything is allocated; looked at again below
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if lb.VIPs, err = s.allocate(c.r.Context(), lb, requests); err != nil {
		return nil, err
	}
	a, err := s.addBalancer(c, k, lb, sent)
	if err != nil {
		s.release(lb.VIPs)
	}
	return a, err
}

// owner is the project that a new balancer belongs to: tenant_id is an old name.
func owner(sent map[string]any, caller string) string {
	for _, name := range []string{"project_id", "tenant_id"} {
		if p, _ := sent[name].(string); p != "" {
			return p
		}
	}
	return caller
}

func (s *Service) addBalancer(c *call, k *kind, lb *object, sent map[string]any) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(k, lb.Project, 1); err != nil {
		return nil, err
	}
	if err := s.flavorAndZone(lb.Attrs); err != nil { // it may have gone meanwhile
		return nil, err
	}
	tree, err := s.stageTree(lb, sent)
	if err != nil {
		return nil, err
	}
	s.db.add(lb)
	s.changed(lb, "provisioning_status", "", lb.Prov)
	tree.commit()
	s.dirty()
	s.begin(Operation{Name: c.op, Balancer: lb.ID, Resource: lb.ID, Project: lb.Project})
	return &answer{http.StatusCreated, fields{{k.name, s.renderTree(lb)}}}, nil
}

// vipRequests says what to allocate: the VIP, then the additional ones.
func vipRequests(sent map[string]any) ([]VIPRequest, error) {
	text := func(m map[string]any, name string) string { v, _ := m[name].(string); return v }
	first := VIPRequest{PortID: text(sent, "vip_port_id"), NetworkID: text(sent, "vip_network_id"),
		SubnetID: text(sent, "vip_subnet_id")}
	if first.PortID == "" && first.NetworkID == "" && first.SubnetID == "" {
		return nil, validation("VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.")
	}
	first.Address, _ = netip.ParseAddr(text(sent, "vip_address")) // checked when it came
	requests := []VIPRequest{first}
	more, _ := sent["additional_vips"].([]map[string]any)
	seen := []string{first.SubnetID}
	for _, v := range more {
		subnet := text(v, "subnet_id")
		if slices.Contains(seen, subnet) {
			return nil, validation("Duplicate VIP subnet(s) specified. Only one IP can be bound per subnet.")
		}
		seen = append(seen, subnet)
		one := VIPRequest{SubnetID: subnet, Additional: true}
		one.Address, _ = netip.ParseAddr(text(v, "ip_address"))
		requests = append(requests, one)
	}
	return requests, nil
}

// chooseProvider finds the driver, from the flavor if there is one, and looks at flavor and zone.
func (s *Service) chooseProvider(attrs map[string]any) error {
	name, _ := attrs["provider"].(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		name = s.opts.Providers[0].Name
	}
	if _, err := s.providerLocked(name); err != nil {
		return err
	}
	attrs["provider"] = name
	return s.flavorAndZone(attrs)
}

// flavorAndZone says whether a balancer may have the ones it asks for. It needs the lock.
func (s *Service) flavorAndZone(attrs map[string]any) error {
	if id, ok := attrs["flavor_id"].(string); ok {
		flavor := s.db.get(kindFlavor, id)
		if flavor == nil {
			return validation("Invalid flavor_id.")
		}
		if !flavor.flag("enabled") {
			return validation("The selected flavor is not allowed in this deployment: %s", id)
		}
		if p := s.db.get(kindFlavorProfile, flavor.text("flavor_profile_id")); p != nil && p.text("provider_name") != attrs["provider"] {
			return fault(http.StatusBadRequest, "Flavor '%s' is not compatible with provider '%s'", id, attrs["provider"])
		}
	}
	if id, ok := attrs["availability_zone"].(string); ok {
		zone := s.db.get(kindZone, id)
		if zone == nil {
			return validation("Invalid availability zone.")
		}
		if !zone.flag("enabled") {
			return validation("The selected availability zone is not allowed in this deployment: %s", id)
		}
	}
	return nil
}

// allocate gets the ports of a balancer, all or none.
func (s *Service) allocate(ctx context.Context, lb *object, requests []VIPRequest) ([]VIP, error) {
	var vips []VIP
	for _, r := range requests {
		r.Balancer, r.Name, r.Project = lb.ID, lb.name(), lb.Project
		v, err := s.opts.Network.Allocate(ctx, r)
		if err != nil {
			s.release(vips)
			return nil, err
		}
		vips = append(vips, v)
	}
	return vips, nil
}

// release gives ports back. It must not be called with the lock.
func (s *Service) release(vips []VIP) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.opts.ApplyTimeout)
	defer cancel()
	for _, v := range vips {
		if err := s.opts.Network.Release(ctx, v); err != nil {
			s.opts.Log.Error("release of a VIP", "address", v.Address, "port", v.PortID, "error", err)
		}
	}
}

// status answers GET .../status.
func (s *Service) status(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lb, err := s.find(c, actRead)
	if err != nil {
		return nil, err
	}
	return &answer{http.StatusOK, fields{{"statuses", fields{{"loadbalancer", s.renderStatus(lb)}}}}}, nil
}

// stats answers GET .../stats of a balancer or a listener.
func (s *Service) stats(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.find(c, actRead)
	if err != nil {
		return nil, err
	}
	sum := s.counters[o.ID]
	for _, l := range s.db.below(o.ID, kindListener) {
		n := s.counters[l.ID]
		sum.BytesIn += n.BytesIn
		sum.BytesOut += n.BytesOut
		sum.ActiveConnections += n.ActiveConnections
		sum.TotalConnections += n.TotalConnections
		sum.RequestErrors += n.RequestErrors
	}
	return &answer{http.StatusOK, fields{{"stats", fields{{"bytes_in", sum.BytesIn}, {"bytes_out", sum.BytesOut},
		{"active_connections", sum.ActiveConnections}, {"total_connections", sum.TotalConnections},
		{"request_errors", sum.RequestErrors}}}}}, nil
}

// failover answers PUT .../failover.
func (s *Service) failover(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lb, err := s.find(c, actRead)
	if err != nil {
		return nil, err
	}
	if err := c.who.permit(actAdmin, lb.Project); err != nil {
		return nil, err
	}
	if lb.Prov != active && lb.Prov != failed {
		return nil, invalidState(lb.Prov, lb.ID)
	}
	s.touch(lb, pendingUpdate)
	s.dirty()
	s.begin(Operation{Name: c.op, Balancer: lb.ID, Resource: lb.ID, Project: lb.Project})
	return &answer{status: http.StatusAccepted}, nil
}
