package octavia

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

// draft is an object of a balancer that is about to be made, or one that is about to be changed.
type draft struct {
	lb      *object
	parent  string         // where it hangs
	attrs   map[string]any // of the whole object
	touched []*object      // what goes to PENDING_UPDATE with it, the balancer apart
	locked  *object        // must be ACTIVE as well as the balancer; nil: nothing
	// late is checked after the states, as Octavia does; nil: nothing.
	late func() error
	// link is done once the object is there; nil: nothing.
	link func(*object)
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Microsecond) }

// create answers POST on a collection.
func (s *Service) create(c *call) (*answer, error) {
	k := s.kinds[c.kind]
	sent, err := c.read(k, k.post)
	if err != nil {
		return nil, err
	}
	switch {
	case k.flat:
		return s.createFlat(c, k, sent)
	case k.name == kindBalancer:
		return s.createBalancer(c, k, sent)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.draft(c, k, sent)
	if err != nil {
		return nil, err
	}
	if err := s.admit(k, d.lb.Project, 1); err != nil {
		return nil, err
	}
	if err := d.mutable(); err != nil {
		return nil, err
	}
	if d.late != nil {
		if err := d.late(); err != nil {
			return nil, err
		}
	}
	o := s.insert(k, d.lb, d.parent, d.attrs)
	if d.link != nil {
		d.link(o)
	}
	s.pend(d.lb, d.touched, nil, "")
	s.begin(Operation{Name: c.op, Balancer: d.lb.ID, Resource: o.ID, Project: o.Project})
	return &answer{http.StatusCreated, fields{{k.name, s.render(s.db.get(k.name, o.ID))}}}, nil
}

// draft looks at a new child of a balancer: its parents, the caller's rights, what it says.
func (s *Service) draft(c *call, k *kind, sent map[string]any) (*draft, error) {
	switch k.name {
	case kindListener:
		return s.draftListener(c, sent)
	case kindPool:
		return s.draftPool(c, sent)
	case kindMember:
		return s.draftMember(c, sent)
	case kindMonitor:
		return s.draftMonitor(c, sent)
	case kindPolicy:
		return s.draftPolicy(c, sent)
	}
	return s.draftRule(c, sent)
}

// mutable says whether the balancer, and what else is asked for, may be written below.
func (d *draft) mutable() error {
	if d.locked != nil && d.locked.Prov != active {
		return immutable(map[string]string{kindPool: "Pool", kindPolicy: "L7Policy"}[d.locked.Kind], d.locked.ID)
	}
	if d.lb.Prov != active {
		return immutable("Load Balancer", d.lb.ID)
	}
	return nil
}

// admit says whether a project may have more objects of a kind, and the service too.
func (s *Service) admit(k *kind, project string, more int) error {
	if s.db.count(k.name)+more > s.opts.Limits.Objects {
		return quotaMet(k.title)
	}
	if quota := s.quotaOf(project, k.name); s.knobs.EnforceQuotas && quota >= 0 && s.db.owned[project][k.name]+more > quota {
		return quotaMet(k.title)
	}
	return nil
}

// insert makes an object in PENDING_CREATE.
func (s *Service) insert(k *kind, lb *object, parent string, attrs map[string]any) *object {
	o := s.newObject(k, attrs)
	o.Balancer, o.Parent, o.Project = lb.ID, parent, lb.Project
	if k.name == kindMember && s.db.monitorOf(parent) == nil {
		o.Oper = noMonitor
	}
	s.db.add(o)
	s.dirty()
	s.changed(o, "provisioning_status", "", o.Prov)
	return o
}

// newObject has what an answer shows and nothing else of what was sent.
func (s *Service) newObject(k *kind, attrs map[string]any) *object {
	o := &object{Kind: k.name, ID: uuid.NewString(), Created: s.now(), Attrs: map[string]any{}}
	if !k.flat {
		o.Prov, o.Oper = pendingCreate, offline
	}
	for name, v := range attrs {
		if slices.Contains(k.show, name) && !isComputed(name) {
			o.Attrs[name] = v
		}
	}
	return o
}

// isComputed says that an answer's key is no attribute of its own.
func isComputed(name string) bool {
	switch name {
	case "project_id", "tenant_id", "listeners", "pools", "members", "l7policies", "rules", "healthmonitor_id",
		"vip_address", "vip_port_id", "vip_subnet_id", "vip_network_id", "additional_vips":
		return true
	}
	return false
}

// pend puts the balancer and others in PENDING_UPDATE, and one object in a state of its own.
func (s *Service) pend(lb *object, touched []*object, own *object, state string) {
	for _, o := range append([]*object{lb}, touched...) {
		if own == nil || o.ID != own.ID {
			s.touch(o, pendingUpdate)
		}
	}
	if own != nil {
		s.touch(own, state)
	}
}

func (s *Service) touch(o *object, state string) {
	e := s.db.edit(s.db.get(o.Kind, o.ID))
	e.Updated = s.now()
	s.setProv(e, state)
}

// showOne answers GET of an object.
func (s *Service) showOne(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.find(c, actRead)
	if err != nil {
		return nil, err
	}
	return &answer{http.StatusOK, fields{{o.Kind, s.render(o).only(fieldsOf(c.query))}}}, nil
}

// find gives the object of a path, if the caller may.
func (s *Service) find(c *call, do action) (*object, error) {
	k := s.kinds[c.kind]
	o := s.db.get(k.name, c.id)
	if k.flat {
		if do == actWrite || k.name == kindFlavorProfile || k.name == kindZoneProfile {
			do = actAdmin
		} else {
			do = actReadAny
		}
	}
	if o == nil || o.Parent != c.parent && c.parent != "" {
		return nil, notFound(k.title, c.id)
	}
	return o, c.who.permit(do, o.Project)
}

// update answers PUT of an object.
func (s *Service) update(c *call) (*answer, error) {
	k := s.kinds[c.kind]
	sent, err := c.read(k, k.put)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.find(c, actWrite)
	if err != nil {
		return nil, err
	}
	if k.flat {
		return s.updateFlat(k, o, sent)
	}
	lb := s.db.get(kindBalancer, o.Balancer)
	sent = k.put.reset(sent, k.post)
	if err := s.validateUpdate(lb, o, sent); err != nil {
		return nil, err
	}
	touched, err := s.lockable(lb, o)
	if err != nil {
		return nil, err
	}
	e := s.db.edit(o)
	maps.Copy(e.Attrs, sent)
	s.pend(lb, touched, e, pendingUpdate)
	if k.name == kindPolicy {
		s.place(o.Parent, o.ID)
	}
	s.dirty()
	s.begin(Operation{Name: c.op, Balancer: lb.ID, Resource: o.ID, Project: o.Project})
	return &answer{http.StatusOK, fields{{k.name, s.render(s.db.get(k.name, o.ID))}}}, nil
}

// lockable says whether an object may be written, and what is touched with it.
func (s *Service) lockable(lb, o *object) ([]*object, error) {
	if o.Kind == kindBalancer {
		if o.Prov != active {
			return nil, invalidState(o.Prov, o.ID)
		}
		return nil, nil
	}
	d := draft{lb: lb, touched: s.above(o)}
	if o.Kind == kindMember || o.Kind == kindMonitor || o.Kind == kindRule {
		d.locked = s.db.any(o.Parent)
	}
	return d.touched, d.mutable()
}

// above gives what a write of an object puts in PENDING_UPDATE too, the balancer apart.
func (s *Service) above(o *object) []*object {
	switch o.Kind {
	case kindPool:
		return s.db.listenersOf(o)
	case kindMember, kindMonitor:
		pool := s.db.get(kindPool, o.Parent)
		return append([]*object{pool}, s.db.listenersOf(pool)...)
	case kindPolicy:
		return []*object{s.db.get(kindListener, o.Parent)}
	case kindRule:
		policy := s.db.get(kindPolicy, o.Parent)
		return []*object{policy, s.db.get(kindListener, policy.Parent)}
	}
	return nil
}

// remove answers DELETE of an object.
func (s *Service) remove(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.find(c, actWrite)
	if err != nil {
		return nil, err
	}
	if s.kinds[o.Kind].flat {
		return s.removeFlat(o)
	}
	lb := s.db.get(kindBalancer, o.Balancer)
	var touched []*object
	switch o.Kind {
	case kindBalancer:
		err = s.removable(c, o)
	case kindPool:
		if err = s.unused(o); err == nil {
			touched, err = s.lockable(lb, o)
		}
	default:
		touched, err = s.lockable(lb, o)
	}
	if err != nil {
		return nil, err
	}
	if o.Kind == kindBalancer {
		s.touch(o, pendingDelete)
	} else {
		s.pend(lb, touched, o, pendingDelete)
	}
	s.dirty()
	s.begin(Operation{Name: c.op, Balancer: lb.ID, Resource: o.ID, Project: o.Project})
	return &answer{status: http.StatusNoContent}, nil
}

// removable says whether a balancer may go: with children only by cascade, and not while something else is pending.
func (s *Service) removable(c *call, lb *object) error {
	cascade, _ := pyBool(c.query.Get("cascade")) // whatever is no boolean is a no
	if !cascade && len(s.db.children[lb.ID]) > 0 {
		return validation("Cannot delete Load Balancer %s - it has children", lb.ID)
	}
	if lb.Prov != active && lb.Prov != failed {
		return invalidState(lb.Prov, lb.ID)
	}
	return nil
}

// unused says whether a pool may go: no policy may redirect to it.
func (s *Service) unused(pool *object) error {
	for _, l := range s.db.below(pool.Balancer, kindListener) {
		for _, p := range s.db.below(l.ID, kindPolicy) {
			if p.text("redirect_pool_id") == pool.ID {
				return fault(http.StatusConflict, "Pool %s is in use by L7 policy %s", pool.ID, p.ID)
			}
		}
	}
	return nil
}
