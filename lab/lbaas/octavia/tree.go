package octavia

import "slices"

// staged is a tree that is about to be added below a balancer.
type staged struct {
	s       *Service
	lb      *object
	pools   []map[string]any // whole ones
	ids     map[string]string
	objects []*object
	counts  map[string]int
}

// stageTree makes the objects below a new balancer from what was sent; the database is not changed yet.
func (s *Service) stageTree(lb *object, sent map[string]any) (*staged, error) {
	t := &staged{s: s, lb: lb, ids: map[string]string{}, counts: map[string]int{}}
	listeners, _ := sent["listeners"].([]map[string]any)
	t.pools, _ = sent["pools"].([]map[string]any)
	t.pools = slices.Clone(t.pools)
	if err := t.collectPools(listeners); err != nil {
		return nil, err
	}
	for _, p := range t.pools {
		if err := t.pool(p); err != nil {
			return nil, err
		}
	}
	for _, l := range listeners {
		if err := t.listener(l); err != nil {
			return nil, err
		}
	}
	for kind, n := range t.counts {
		if err := s.admit(s.kinds[kind], lb.Project, n); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// commit adds them.
func (t *staged) commit() {
	for _, o := range t.objects {
		t.s.db.add(o)
		t.s.changed(o, "provisioning_status", "", o.Prov)
	}
	for _, o := range t.objects {
		if o.Kind == kindListener {
			t.s.place(o.ID, "")
		}
	}
}

// collectPools finds the pools that listeners and policies describe or name. Every one has a name, by which it is found.
func (t *staged) collectPools(listeners []map[string]any) error {
	var named []string
	refer := func(v any) error {
		p, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		if !set(p, "name") {
			return validation("Pools must be named when creating a fully populated loadbalancer.")
		}
		named = append(named, p["name"].(string))
		if len(p) > 1 {
			t.pools = append(t.pools, p)
		}
		return nil
	}
	for _, l := range listeners {
		if err := refer(l["default_pool"]); err != nil {
			return err
		}
		policies, _ := l["l7policies"].([]map[string]any)
		for _, p := range policies {
			if err := refer(p["redirect_pool"]); err != nil {
				return err
			}
		}
	}
	have := map[string]bool{}
	for _, p := range t.pools {
		if !set(p, "name") {
			return validation("Pools must be named when creating a fully populated loadbalancer.")
		}
		name := p["name"].(string)
		if have[name] {
			return validation("Pool names must be unique when creating a fully populated loadbalancer.")
		}
		have[name] = true
	}
	for _, name := range named {
		if !have[name] {
			return validation("Pool '%s' was referenced but no full definition was found.", name)
		}
	}
	return nil
}

// stage makes one object.
func (t *staged) stage(kind, parent string, attrs map[string]any) *object {
	o := t.s.newObject(t.s.kinds[kind], attrs)
	o.Balancer, o.Parent, o.Project = t.lb.ID, parent, t.lb.Project
	t.objects = append(t.objects, o)
	t.counts[kind]++
	return o
}

func (t *staged) pool(sent map[string]any) error {
	for _, name := range []string{"protocol", "lb_algorithm"} {
		if !set(sent, name) {
			return validation("Pool definition for '%s' missing required attribute: %s", pyStr(sent["name"]), name)
		}
	}
	attrs := t.s.kinds[kindPool].post.fill(sent)
	protocol := attrs["protocol"].(string)
	if err := t.s.supports(t.lb, protocol); err != nil {
		return err
	}
	if err := validatePersistenceOf(attrs["session_persistence"], protocol); err != nil {
		return err
	}
	if err := validatePool(attrs); err != nil {
		return err
	}
	pool := t.stage(kindPool, t.lb.ID, attrs)
	t.ids[pool.name()] = pool.ID
	monitored, err := t.monitor(pool, sent["healthmonitor"])
	if err != nil {
		return err
	}
	return t.members(pool, sent["members"], monitored)
}

func (t *staged) monitor(pool *object, v any) (bool, error) {
	sent, ok := v.(map[string]any)
	if !ok {
		return false, nil
	}
	if p, err := t.s.providerLocked(t.lb.text("provider")); err != nil {
		return false, err
	} else if p.NoMonitors {
		return false, unsupportedOption(p.Name, "health monitors are not supported.")
	}
	attrs := t.s.kinds[kindMonitor].post.fill(sent)
	if err := validateMonitor(attrs); err != nil {
		return false, err
	}
	if err := matchMonitor(attrs, pool.text("protocol")); err != nil {
		return false, err
	}
	t.stage(kindMonitor, pool.ID, attrs)
	return true, nil
}

func (t *staged) members(pool *object, v any, monitored bool) error {
	list, _ := v.([]map[string]any)
	have := map[endpoint]bool{}
	for _, sent := range list {
		if err := validateMember(sent); err != nil {
			return err
		}
		at := endpointOf(sent)
		if have[at] {
			return duplicateMember(at)
		}
		have[at] = true
		m := t.stage(kindMember, pool.ID, t.s.kinds[kindMember].post.fill(sent))
		if !monitored {
			m.Oper = noMonitor
		}
	}
	return nil
}

// staged gives the objects of a kind that are there so far.
func (t *staged) of(kind string) []*object {
	var out []*object
	for _, o := range t.objects {
		if o.Kind == kind {
			out = append(out, o)
		}
	}
	return out
}

func (t *staged) poolByName(v any) *object {
	p, _ := v.(map[string]any)
	id := t.ids[pyStr(p["name"])]
	for _, o := range t.of(kindPool) {
		if o.ID == id {
			return o
		}
	}
	return nil
}

func (t *staged) listener(sent map[string]any) error {
	attrs := t.s.kinds[kindListener].post.fill(sent)
	protocol := attrs["protocol"].(string)
	if err := t.s.supports(t.lb, protocol); err != nil {
		return err
	}
	if id := attrs["default_pool_id"]; id != nil { // no pool of a new balancer can have an ID yet
		return notFound("Pool", pyStr(id))
	}
	pool := t.poolByName(attrs["default_pool"])
	if pool != nil {
		if err := matchProtocols(protocol, pool.text("protocol")); err != nil {
			return err
		}
		attrs["default_pool_id"] = pool.ID
	}
	if err := validateListener(attrs, t.lb.VIPs, t.of(kindListener)); err != nil {
		return err
	}
	o := t.stage(kindListener, t.lb.ID, attrs)
	if pool != nil {
		o.Updated = o.Created // its pool came a moment later
	}
	policies, _ := sent["l7policies"].([]map[string]any)
	for _, p := range policies {
		if err := t.policy(o, p); err != nil {
			return err
		}
	}
	return nil
}

func (t *staged) policy(listener *object, sent map[string]any) error {
	if p := listener.text("protocol"); p != "HTTP" && p != "TERMINATED_HTTPS" {
		return validation("L7 policies are only supported on HTTP and TERMINATED_HTTPS listeners, not on %s.", p)
	}
	attrs := t.s.kinds[kindPolicy].post.fill(sent)
	attrs["listener_id"] = listener.ID
	if pool := t.poolByName(attrs["redirect_pool"]); pool != nil {
		if err := matchProtocols(listener.text("protocol"), pool.text("protocol")); err != nil {
			return err
		}
		attrs["redirect_pool_id"] = pool.ID
	}
	if err := cleanPolicy(attrs); err != nil {
		return err
	}
	policy := t.stage(kindPolicy, listener.ID, attrs)
	rules, _ := sent["rules"].([]map[string]any)
	for _, r := range rules {
		r = t.s.kinds[kindRule].post.fill(r)
		if err := validateRule(r); err != nil {
			return err
		}
		t.stage(kindRule, policy.ID, r)
	}
	return nil
}
