package octavia

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
)

// What happens behind the API's back: other people's hands, and what tests need.

// Edit changes attributes of an object: no validation against other objects, no PENDING state. The data plane follows.
// The attributes are those of the API, by their names; a member's address and port are among them.
func (s *Service) Edit(id string, attributes map[string]any) error {
	data, err := json.Marshal(attributes)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data)) // numbers as they come from a client
	d.UseNumber()
	var sent map[string]any
	if err := d.Decode(&sent); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.db.any(id)
	if o == nil {
		return fmt.Errorf("octavia: there is no object %s", id)
	}
	k := s.kinds[o.Kind]
	editable := optional(k.post.without("project_id", "tenant_id", "loadbalancer_id", "listener_id", "pool_id", "listeners",
		"pools", "members", "rules", "l7policies", "healthmonitor", "default_pool", "redirect_pool", "additional_vips",
		"vip_address", "vip_port_id", "vip_subnet_id", "vip_network_id", "provider"))
	read, err := editable.read(sent)
	if err != nil {
		return named(err, id)
	}
	maps.Copy(s.db.edit(o).Attrs, editable.reset(read, k.post))
	s.follow(o.Balancer)
	return nil
}

// Remove deletes an object and what is below it. The data plane follows.
func (s *Service) Remove(id string) error {
	s.mu.Lock()
	o := s.db.any(id)
	if o == nil {
		s.mu.Unlock()
		return fmt.Errorf("octavia: there is no object %s", id)
	}
	s.drop(o)
	if p := s.ops[id]; p != nil && o.Kind == kindBalancer {
		p.halt()
		delete(s.ops, id)
		if !p.queued { // else the worker has it, and ends it
			close(p.done)
		}
	}
	s.follow(o.Balancer)
	s.mu.Unlock()
	s.release(o.VIPs)
	return nil
}

// SetProvisioningStatus sets an object's state to ACTIVE or ERROR. It is an error while its balancer waits for an
// operation: Settle ends that.
func (s *Service) SetProvisioningStatus(id, status string) error {
	if status != active && status != failed {
		return fmt.Errorf("octavia: %q is none of ACTIVE, ERROR", status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.db.any(id)
	switch {
	case o == nil || s.kinds[o.Kind].flat:
		return fmt.Errorf("octavia: there is no object %s with a state", id)
	case s.ops[o.Balancer] != nil:
		return fmt.Errorf("octavia: balancer %s waits for an operation", o.Balancer)
	}
	s.setProv(s.db.edit(o), status)
	s.dirty()
	return nil
}

// ForceMember makes a member's operating status what it says, whatever the data plane sees, until it is called with "".
// A member forced to ERROR or OFFLINE gets no traffic.
func (s *Service) ForceMember(id, status string) error {
	known := []string{"", online, offline, failed, draining, noMonitor}
	if !slices.Contains(known, status) {
		return fmt.Errorf("octavia: %q is none of ONLINE, OFFLINE, ERROR, DRAINING, NO_MONITOR", status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.db.get(kindMember, id)
	if o == nil {
		return fmt.Errorf("octavia: there is no member %s", id)
	}
	if status == "" {
		delete(s.forced, id)
	} else {
		s.forced[id] = status
	}
	s.derive(o.Balancer)
	s.follow(o.Balancer)
	return nil
}

// follow lets the data plane hear of a balancer, if it knows it. It needs the lock.
func (s *Service) follow(lb string) {
	s.dirty()
	if s.running(lb) && !s.closed {
		s.queue(&pending{Operation: Operation{Name: resync, Balancer: lb}, done: make(chan struct{})})
	}
}

// Find gives the IDs of the objects of a kind ("loadbalancer", "listener", "pool", "member", "healthmonitor", "l7policy",
// "rule") that have this ID, or a name that is it or that it fits as a pattern ("kube_*", as path.Match), in order of creation.
func (s *Service) Find(kind, name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, o := range s.db.all(kind) {
		fits, err := path.Match(name, o.name())
		if o.ID == name || o.name() == name || err == nil && fits {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// VIPs gives those of all balancers, by the balancer's ID.
func (s *Service) VIPs() map[string][]VIP {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]VIP{}
	for _, o := range s.db.all(kindBalancer) {
		out[o.ID] = slices.Clone(o.VIPs)
	}
	return out
}

// Pending gives the operations that have not ended, by balancer.
func (s *Service) Pending() map[string]Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Operation{}
	for id, p := range s.ops {
		out[id] = p.Operation
	}
	return out
}
