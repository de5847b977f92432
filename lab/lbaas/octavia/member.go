package octavia

import (
	"maps"
	"net/http"
	"net/netip"
)

func (s *Service) draftMember(c *call, sent map[string]any) (*draft, error) {
	attrs := s.kinds[kindMember].post.fill(sent)
	if err := validateMember(attrs); err != nil {
		return nil, err
	}
	pool := s.db.get(kindPool, c.parent)
	if pool == nil {
		return nil, lookupFailed("Pool", c.parent)
	}
	if err := c.who.permit(actWrite, pool.Project); err != nil {
		return nil, err
	}
	d := &draft{lb: s.db.get(kindBalancer, pool.Balancer), parent: pool.ID, attrs: attrs, locked: pool,
		touched: append([]*object{pool}, s.db.listenersOf(pool)...)}
	d.late = func() error {
		if m := s.memberAt(pool.ID, endpointOf(attrs)); m != nil {
			return duplicateMember(endpointOf(attrs))
		}
		return nil
	}
	return d, nil
}

// validateMember refuses addresses that no member can have.
func validateMember(attrs map[string]any) error {
	text, _ := attrs["address"].(string)
	if a, err := netip.ParseAddr(text); err == nil && a == netip.AddrFrom4([4]byte{169, 254, 169, 254}) {
		return invalidOption(text, "member address")
	}
	return nil
}

// endpoint is what makes a member one of its pool.
type endpoint struct {
	address netip.Addr
	port    int
}

func endpointOf(attrs map[string]any) endpoint {
	text, _ := attrs["address"].(string)
	a, _ := netip.ParseAddr(text) // checked when it came
	port, _ := attrs["protocol_port"].(int)
	return endpoint{a, port}
}

func (s *Service) memberAt(pool string, at endpoint) *object {
	for _, m := range s.db.below(pool, kindMember) {
		if endpointOf(m.Attrs) == at {
			return m
		}
	}
	return nil
}

func duplicateMember(at endpoint) *Error {
	return fault(http.StatusConflict, "Another member on this pool is already using ip %s on protocol_port %d", at.address, at.port)
}

// batchUpdate answers PUT on a pool's members: the set becomes what is sent, or with additive_only grows to it.
func (s *Service) batchUpdate(c *call) (*answer, error) {
	body, err := c.object("members_")
	if err != nil {
		return nil, err
	}
	k := s.kinds[kindMember]
	wrapper := class{{name: "members", check: nested(&k.post, true), required: true}}
	read, err := wrapper.read(body)
	if err != nil {
		return nil, named(err, "members_")
	}
	sent, _ := read["members"].([]map[string]any)
	s.mu.Lock()
	defer s.mu.Unlock()
	pool := s.db.get(kindPool, c.parent)
	if pool == nil {
		return nil, lookupFailed("Pool", c.parent)
	}
	if err := c.who.permit(actWrite, pool.Project); err != nil {
		return nil, err
	}
	for _, one := range sent {
		if err := validateMember(one); err != nil {
			return nil, err
		}
	}
	lb := s.db.get(kindBalancer, pool.Balancer)
	if p, err := s.providerLocked(lb.text("provider")); err != nil {
		return nil, err
	} else if p.NoBatchMembers {
		return nil, unsupportedAction(p.Name, "This provider does not support batch updating members.")
	}
	d := draft{lb: lb, locked: pool, touched: append([]*object{pool}, s.db.listenersOf(pool)...)}
	if err := d.mutable(); err != nil {
		return nil, err
	}
	additive, _ := pyBool(c.query.Get("additive_only"))
	if err := s.replaceMembers(pool, lb, sent, additive); err != nil {
		return nil, err
	}
	s.pend(lb, d.touched, nil, "")
	s.dirty()
	s.begin(Operation{Name: c.op, Balancer: lb.ID, Resource: pool.ID, Project: pool.Project})
	return &answer{status: http.StatusAccepted}, nil
}

// replaceMembers makes, changes and takes away members; nothing is done when something is wrong.
func (s *Service) replaceMembers(pool, lb *object, sent []map[string]any, additive bool) error {
	k := s.kinds[kindMember]
	have := map[endpoint]*object{}
	for _, m := range s.db.below(pool.ID, kindMember) {
		have[endpointOf(m.Attrs)] = m
	}
	wanted := map[endpoint]bool{}
	var fresh []map[string]any
	for _, one := range sent {
		at := endpointOf(one)
		if have[at] == nil {
			if wanted[at] {
				return duplicateMember(at)
			}
			fresh = append(fresh, one)
		}
		wanted[at] = true
	}
	if err := s.admit(k, pool.Project, len(fresh)); err != nil {
		return err
	}
	for _, one := range fresh {
		s.insert(k, lb, pool.ID, k.post.fill(one))
	}
	for _, one := range sent {
		if m := have[endpointOf(one)]; m != nil {
			s.changeMember(s.db.get(kindMember, m.ID), one)
		}
	}
	for at, m := range have {
		if !wanted[at] && !additive {
			s.touch(m, pendingDelete)
		}
	}
	return nil
}

// changeMember takes what a batch says of a member that is there. What it does not mention stays, but for what has a
// default: that is reset, as by Octavia.
func (s *Service) changeMember(m *object, sent map[string]any) {
	change := map[string]any{"weight": 1, "backup": false, "admin_state_up": true}
	maps.Copy(change, sent)
	change = s.kinds[kindMember].put.reset(change, s.kinds[kindMember].post)
	for _, fixed := range []string{"address", "protocol_port", "project_id", "tenant_id", "subnet_id"} {
		delete(change, fixed)
	}
	e := s.db.edit(m)
	maps.Copy(e.Attrs, change)
	s.touch(e, pendingUpdate)
}

// providerLocked is provider for those who hold the lock.
func (s *Service) providerLocked(name string) (Provider, error) {
	for _, p := range s.opts.Providers {
		if p.Name == name {
			if now, changed := s.knobs.Providers[name]; changed {
				now.Name, now.Description = p.Name, p.Description
				return now, nil
			}
			return p, nil
		}
	}
	return Provider{}, notEnabled(name)
}
