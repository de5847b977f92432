package octavia

import (
	"fmt"
	"slices"
)

// broken says what of the state cannot be; nothing when all is well.
func (s *Service) broken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	owned := map[string]map[string]int{}
	for kind, objects := range s.db.kinds {
		for id, o := range objects {
			if o.ID != id || o.Kind != kind || s.db.where[id] != kind {
				bad("%s %s is kept as %s %s", o.Kind, o.ID, kind, id)
			}
			if owned[o.Project] == nil {
				owned[o.Project] = map[string]int{}
			}
			owned[o.Project][kind]++
			if !s.kinds[kind].flat {
				s.brokenObject(o, bad)
			}
		}
	}
	if fmt.Sprint(owned) != fmt.Sprint(s.db.owned) {
		bad("counted %v, kept %v", owned, s.db.owned)
	}
	for parent, children := range s.db.children {
		for _, id := range children {
			if c := s.db.any(id); c == nil || c.Parent != parent {
				bad("%s is not below %s", id, parent)
			}
		}
	}
	for id := range s.seen {
		if s.db.get(kindMember, id) == nil {
			bad("a state was kept of member %s, which is not there", id)
		}
	}
	for lb, p := range s.ops {
		if o := s.db.get(kindBalancer, lb); o == nil || !isPending(o.Prov) {
			bad("%s waits for %s", lb, p.Name)
		}
	}
	return out
}

func (s *Service) brokenObject(o *object, bad func(string, ...any)) {
	lb := s.db.get(kindBalancer, o.Balancer)
	if lb == nil {
		bad("orphan: %s %s of balancer %s", o.Kind, o.ID, o.Balancer)
		return
	}
	if !slices.Contains([]string{active, failed, pendingCreate, pendingUpdate, pendingDelete}, o.Prov) {
		bad("%s %s is %q", o.Kind, o.ID, o.Prov)
	}
	if !slices.Contains([]string{online, offline, failed, degraded, draining, noMonitor}, o.Oper) {
		bad("%s %s is %q", o.Kind, o.ID, o.Oper)
	}
	if isPending(o.Prov) && s.ops[lb.ID] == nil {
		bad("%s %s is %s for ever", o.Kind, o.ID, o.Prov)
	}
	if isPending(o.Prov) && !isPending(lb.Prov) {
		bad("%s %s is %s, its balancer %s", o.Kind, o.ID, o.Prov, lb.Prov)
	}
	if o.Project != lb.Project {
		bad("%s %s belongs to another project than its balancer", o.Kind, o.ID)
	}
	if o.Kind == kindBalancer {
		s.brokenBalancer(o, bad)
		return
	}
	parent := s.db.any(o.Parent)
	if parent == nil || parent.Kind != s.kinds[o.Kind].parent || !slices.Contains(s.db.children[o.Parent], o.ID) {
		bad("orphan: %s %s below %s", o.Kind, o.ID, o.Parent)
	}
	switch o.Kind {
	case kindListener, kindPolicy:
		name := map[string]string{kindListener: "default_pool_id", kindPolicy: "redirect_pool_id"}[o.Kind]
		if pool := o.text(name); pool != "" {
			if p := s.db.get(kindPool, pool); p == nil || p.Balancer != lb.ID {
				bad("%s %s sends to pool %s, which is not there", o.Kind, o.ID, pool)
			}
		}
	case kindPool:
		s.brokenPool(o, bad)
	}
}

func (s *Service) brokenBalancer(lb *object, bad func(string, ...any)) {
	ports := map[string]bool{}
	for _, l := range s.db.below(lb.ID, kindListener) {
		at := fmt.Sprint(transport(l.text("protocol")), l.number("protocol_port"))
		if ports[at] {
			bad("two listeners of %s at %s", lb.ID, at)
		}
		ports[at] = true
		for i, p := range s.db.policiesOf(l.ID) {
			if p.number("position") != i+1 {
				bad("policy %s has position %d, is number %d", p.ID, p.number("position"), i+1)
			}
		}
	}
	if len(lb.VIPs) == 0 {
		bad("balancer %s has no VIP", lb.ID)
	}
}

func (s *Service) brokenPool(p *object, bad func(string, ...any)) {
	members := map[endpoint]bool{}
	for _, m := range s.db.below(p.ID, kindMember) {
		at := endpointOf(m.Attrs)
		if members[at] {
			bad("two members of %s at %v", p.ID, at)
		}
		members[at] = true
	}
	if n := len(s.db.below(p.ID, kindMonitor)); n > 1 {
		bad("%d monitors of pool %s", n, p.ID)
	}
}
