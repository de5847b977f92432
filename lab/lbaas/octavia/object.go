package octavia

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// States of provisioning.
const (
	active        = "ACTIVE"
	failed        = "ERROR"
	pendingCreate = "PENDING_CREATE"
	pendingUpdate = "PENDING_UPDATE"
	pendingDelete = "PENDING_DELETE"
	deleted       = "DELETED"
)

func isPending(state string) bool {
	return state == pendingCreate || state == pendingUpdate || state == pendingDelete
}

// object is one thing of the API. An object that is in the database is never changed: database.edit puts a copy there, so
// whoever has got a pointer may go on reading without the lock.
type object struct {
	Kind     string         `json:"kind"`
	ID       string         `json:"id"`
	Project  string         `json:"project,omitempty"`
	Balancer string         `json:"balancer,omitempty"` // its own ID for a balancer
	Parent   string         `json:"parent,omitempty"`   // a listener's and pool's balancer, a member's pool, ...
	Seq      uint64         `json:"seq"`                // order of creation
	Created  time.Time      `json:"created"`
	Updated  time.Time      `json:"updated,omitzero"`
	Prov     string         `json:"prov,omitempty"`
	Oper     string         `json:"oper,omitempty"`
	Ran      bool           `json:"ran,omitempty"` // it was ACTIVE once: the data plane knows it
	Attrs    map[string]any `json:"attrs"`
	VIPs     []VIP          `json:"vips,omitempty"` // a balancer's; the first is the VIP, the others additional
}

func (o *object) text(name string) string {
	s, _ := o.Attrs[name].(string)
	return s
}

func (o *object) number(name string) int {
	n, _ := o.Attrs[name].(int)
	return n
}

func (o *object) flag(name string) bool {
	b, _ := o.Attrs[name].(bool)
	return b
}

func (o *object) list(name string) []string {
	l, _ := o.Attrs[name].([]string)
	return l
}

func (o *object) name() string { return o.text("name") }

// database holds the objects. Its user locks.
type database struct {
	kinds    map[string]map[string]*object // kind -> ID
	children map[string][]string           // ID -> IDs of what is below it, in order of creation
	owned    map[string]map[string]int     // project -> kind -> how many
	where    map[string]string             // ID -> kind
	seq      uint64
}

func newDatabase() *database {
	return &database{
		kinds: map[string]map[string]*object{}, children: map[string][]string{},
		owned: map[string]map[string]int{}, where: map[string]string{},
	}
}

func (d *database) get(kind, id string) *object { return d.kinds[kind][id] }

// any gives an object of whatever kind.
func (d *database) any(id string) *object { return d.kinds[d.where[id]][id] }

func (d *database) count(kind string) int { return len(d.kinds[kind]) }

// add puts a new object in. Its Seq is given unless it has one already.
func (d *database) add(o *object) {
	if o.Seq == 0 {
		d.seq++
		o.Seq = d.seq
	}
	d.seq = max(d.seq, o.Seq)
	if d.kinds[o.Kind] == nil {
		d.kinds[o.Kind] = map[string]*object{}
	}
	d.kinds[o.Kind][o.ID] = o
	d.where[o.ID] = o.Kind
	if o.Parent != "" {
		d.children[o.Parent] = append(d.children[o.Parent], o.ID)
	}
	if d.owned[o.Project] == nil {
		d.owned[o.Project] = map[string]int{}
	}
	d.owned[o.Project][o.Kind]++
}

// edit gives a copy of an object, to be changed before the lock is given back.
func (d *database) edit(o *object) *object {
	c := *o
	c.Attrs = maps.Clone(o.Attrs)
	d.kinds[o.Kind][o.ID] = &c
	return &c
}

// remove takes one object out; what is below it has gone before.
func (d *database) remove(o *object) {
	delete(d.kinds[o.Kind], o.ID)
	delete(d.where, o.ID)
	delete(d.children, o.ID)
	if o.Parent != "" {
		left := slices.DeleteFunc(slices.Clone(d.children[o.Parent]), func(id string) bool { return id == o.ID })
		if len(left) == 0 {
			delete(d.children, o.Parent)
		} else {
			d.children[o.Parent] = left
		}
	}
	if d.owned[o.Project][o.Kind]--; d.owned[o.Project][o.Kind] == 0 {
		delete(d.owned[o.Project], o.Kind)
	}
	if len(d.owned[o.Project]) == 0 {
		delete(d.owned, o.Project)
	}
}

// below gives the children of a kind, in order of creation.
func (d *database) below(parent, kind string) []*object {
	var out []*object
	for _, id := range d.children[parent] {
		if o := d.kinds[kind][id]; o != nil {
			out = append(out, o)
		}
	}
	return out
}

// tree gives an object and everything below it, parents first.
func (d *database) tree(id string) []*object {
	o := d.any(id)
	if o == nil {
		return nil
	}
	out := []*object{o}
	for _, child := range d.children[id] {
		out = append(out, d.tree(child)...)
	}
	return out
}

// all gives the objects of a kind in order of creation.
func (d *database) all(kind string) []*object {
	out := make([]*object, 0, len(d.kinds[kind]))
	for _, o := range d.kinds[kind] {
		out = append(out, o)
	}
	slices.SortFunc(out, bySeq)
	return out
}

func bySeq(a, b *object) int { return cmp.Compare(a.Seq, b.Seq) }

// monitorOf gives a pool's monitor, or nil.
func (d *database) monitorOf(pool string) *object {
	if m := d.below(pool, kindMonitor); len(m) > 0 {
		return m[0]
	}
	return nil
}

// policiesOf gives a listener's policies by position.
func (d *database) policiesOf(listener string) []*object {
	p := d.below(listener, kindPolicy)
	slices.SortStableFunc(p, func(a, b *object) int { return a.number("position") - b.number("position") })
	return p
}

// sends says whether a listener sends to a pool, by default or by a policy.
func (d *database) sends(listener, pool *object) bool {
	return listener.text("default_pool_id") == pool.ID || slices.ContainsFunc(d.below(listener.ID, kindPolicy), func(p *object) bool {
		return p.text("redirect_pool_id") == pool.ID
	})
}

// listenersOf gives the listeners that send to a pool.
func (d *database) listenersOf(pool *object) []*object {
	return slices.DeleteFunc(d.below(pool.Balancer, kindListener), func(l *object) bool { return !d.sends(l, pool) })
}

// poolsOf gives the pools that a listener sends to.
func (d *database) poolsOf(listener *object) []*object {
	return slices.DeleteFunc(d.below(listener.Balancer, kindPool), func(p *object) bool { return !d.sends(listener, p) })
}
