package openstack

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// kind is what is particular about a sort of resource; everything else is the same for all of them.
type kind struct {
	name, plural string
	missing      string // class of the error for one that does not exist
	missingText  string // its text, with the id
	attrs        []attr
	// create completes an item whose attributes are checked. It comes before the item is kept; where it changes others,
	// nothing may fail after that. update does the same for a change: now is old with what was given.
	create func(c *Cloud, who Identity, it item) error
	update func(c *Cloud, who Identity, old, now, given item) error
	remove func(c *Cloud, who Identity, it item) error // refuses, or takes down what hangs on it
	view   func(c *Cloud, it item) item                // what depends on others
	public func(c *Cloud, it item) bool                // everybody sees it
}

func (k *kind) notFound(id string) *problem {
	return problemf(http.StatusNotFound, k.missing, k.missingText, id)
}

// attribute finds one by name.
func (k *kind) attribute(name string) *attr {
	if i := slices.IndexFunc(k.attrs, func(a attr) bool { return a.name == name }); i >= 0 {
		return &k.attrs[i]
	}
	return nil
}

// standard are attributes of everything in Neutron.
func standard(more ...attr) []attr {
	return append([]attr{
		{name: "name", check: isText(255), value: ""},
		{name: "description", check: isText(255), value: ""},
	}, more...)
}

// given checks what a request gives, all but what is required.
func (k *kind) given(in item, who Identity, creating bool) (item, error) {
	out := item{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		a := k.attribute(name)
		switch {
		case a == nil && creating && (name == "project_id" || name == "tenant_id"):
			continue
		case a == nil && name == "tags" && creating: // as the tag extension on creation does
			a = &attr{name: "tags", check: isList(isText(60))}
		case a == nil:
			return nil, badRequest("Unrecognized attribute(s) '%s'", name)
		case !creating && a.fixed:
			return nil, badRequest("Cannot update read-only attribute %s", name)
		case a.admin && !who.Admin():
			return nil, forbidden(k, creating, name)
		}
		v, err := a.check(in[name])
		if err != nil {
			return nil, badRequest("Invalid input for %s. Reason: %v.", name, err)
		}
		out[name] = v
	}
	return out, nil
}

func forbidden(k *kind, creating bool, name string) *problem {
	verb := "update"
	if creating {
		verb = "create"
	}
	what := verb + "_" + k.name
	return problemf(http.StatusForbidden, "PolicyNotAuthorized", "(rule:%s and rule:%s:%s) is disallowed by policy", what, what, name)
}

// make is a new item, complete but for what the kind's own create adds.
func (c *Cloud) make(k *kind, in item, who Identity) (item, error) {
	it, err := k.given(in, who, true)
	if err != nil {
		return nil, err
	}
	for _, a := range k.attrs {
		if _, ok := it[a.name]; ok {
			continue
		}
		if a.required {
			return nil, badRequest("Failed to parse request. Required attribute '%s' not specified", a.name)
		}
		it[a.name] = a.value
	}
	project, err := owner(in, who)
	if err != nil {
		return nil, err
	}
	now := c.now().UTC().Format(time.RFC3339)
	it = it.with(item{"id": newID(), "project_id": project, "tenant_id": project, "created_at": now, "updated_at": now, "revision_number": 1})
	if it["tags"] == nil {
		it["tags"] = []any{}
	}
	return it, nil
}

// owner is the project that a new item belongs to: only an administrator makes one for others.
func owner(in item, who Identity) (string, error) {
	project := in.text("project_id")
	if project == "" {
		project = in.text("tenant_id")
	}
	switch {
	case project == "":
		return who.ProjectID, nil
	case project != who.ProjectID && !who.Admin():
		return "", problemf(http.StatusForbidden, "PolicyNotAuthorized", "rule:create is disallowed by policy: the project %s is another one", project)
	}
	return project, nil
}

// sees says whether an item exists, as far as somebody can know.
func (k *kind) sees(c *Cloud, who Identity, it item) bool {
	return who.Admin() || it.text("project_id") == who.ProjectID || k.public != nil && k.public(c, it)
}

func (c *Cloud) find(k *kind, who Identity, id string) (item, error) {
	it, ok := c.tables[k.name].items[id]
	if !ok || !k.sees(c, who, it) {
		return nil, k.notFound(id)
	}
	return it, nil
}

// own finds an item that who may change.
func (c *Cloud) own(k *kind, who Identity, id string) (item, error) {
	it, err := c.find(k, who, id)
	if err != nil {
		return nil, err
	}
	if !who.Admin() && it.text("project_id") != who.ProjectID {
		return nil, problemf(http.StatusForbidden, "PolicyNotAuthorized", "(rule:update_%s) is disallowed by policy", k.name)
	}
	return it, nil
}

// The methods below are called with the lock held.

func (c *Cloud) create(k *kind, who Identity, in item) (item, error) {
	it, err := c.make(k, in, who)
	if err != nil {
		return nil, err
	}
	if err := c.quotaFor(k.name, it.text("project_id")); err != nil {
		return nil, err
	}
	if k.create != nil {
		if err := k.create(c, who, it); err != nil {
			return nil, err
		}
	}
	c.tables[k.name].put(it)
	c.changed()
	return it, nil
}

func (c *Cloud) update(k *kind, who Identity, id string, in item) (item, error) {
	old, err := c.own(k, who, id)
	if err != nil {
		return nil, err
	}
	given, err := k.given(in, who, false)
	if err != nil {
		return nil, err
	}
	now := old.with(given)
	if k.update != nil {
		if err := k.update(c, who, old, now, given); err != nil {
			return nil, err
		}
	}
	c.replace(k.name, now)
	return now, nil
}

// replace keeps a changed item.
func (c *Cloud) replace(kind string, it item) {
	revision, _ := number(it["revision_number"])
	it["revision_number"] = revision + 1
	it["updated_at"] = c.now().UTC().Format(time.RFC3339)
	c.tables[kind].put(it)
	c.changed()
}

func (c *Cloud) remove(k *kind, who Identity, id string) error {
	it, err := c.own(k, who, id)
	if err != nil {
		return err
	}
	if k.remove != nil {
		if err := k.remove(c, who, it); err != nil {
			return err
		}
	}
	c.tables[k.name].remove(id)
	c.changed()
	return nil
}

// list is what of a kind somebody sees, as answers show it.
func (c *Cloud) list(k *kind, who Identity, q query) ([]item, bool, error) {
	var all []item
	for it := range c.tables[k.name].all {
		if k.sees(c, who, it) {
			all = append(all, c.show(k, it))
		}
	}
	return q.apply(all)
}

func (c *Cloud) show(k *kind, it item) item {
	if k.view == nil {
		return it
	}
	return it.with(k.view(c, it))
}
