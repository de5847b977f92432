package openstack

import (
	"net/http"
	"strings"
)

// many answers with a collection.
func (q *call) many(plural string, all any) error {
	reply(q.w, http.StatusOK, map[string]any{plural: all, "links": map[string]any{
		"next": nil, "previous": nil, "self": base(q.Request) + Prefix(q.Request) + q.URL.Path,
	}})
	return nil
}

// one answers with an item.
func (q *call) one(status int, name string, it item) error {
	reply(q.w, status, map[string]any{name: q.public(name, it)})
	return nil
}

// public is an item as others may see it.
func (q *call) public(name string, it item) item {
	out := it.with(item{"links": map[string]any{"self": base(q.Request) + Prefix(q.Request) + "/v3/" + name + "s/" + it.text("id")}})
	delete(out, "password")
	return out
}

func noSuch(name, id string) error {
	return &authProblem{http.StatusNotFound, "Could not find " + name + ": " + id + "."}
}

// mine says whether an item is one that a user without rights may look at.
func (q *call) mine(name, id string) bool {
	return q.who.Admin() || name == "project" && id == q.who.ProjectID || name == "user" && id == q.who.UserID
}

func (k *keystone) list(name string) func(*call) error {
	return func(q *call) error {
		if !q.who.Admin() && name != "role" {
			return forbiddenAction("list_" + name + "s")
		}
		filters := q.URL.Query()
		out := []item{}
		for it := range k.c.tables[name].all {
			fits := true
			for _, key := range []string{"name", "domain_id", "enabled", "parent_id", "default_project_id"} {
				if v, asked := filters[key]; asked && !(key == "domain_id" && name == "role") {
					fits = fits && matches(it, key, v)
				}
			}
			if fits {
				out = append(out, q.public(name, it))
			}
		}
		return q.many(name+"s", out)
	}
}

func (k *keystone) show(name string) func(*call) error {
	return func(q *call) error {
		id := q.PathValue("id")
		if !q.mine(name, id) && name != "role" {
			return forbiddenAction("get_" + name)
		}
		it, ok := k.c.tables[name].items[id]
		if !ok {
			return noSuch(name, id)
		}
		return q.one(http.StatusOK, name, it)
	}
}

// editable are the fields that clients may set.
var editable = map[string]check{
	"name": isText(255), "description": orNull(isText(255)), "enabled": isBool, "default_project_id": orNull(isText(64)), "email": orNull(isText(255)),
	"password": func(v any) (any, error) {
		s, err := isText(255)(v)
		if err != nil {
			return nil, err
		}
		return hash(s.(string)), nil
	},
}

// fields reads what a request sets.
func (q *call) fields(name string) (item, error) {
	in, err := body(q.Request, name)
	if err != nil {
		return nil, err
	}
	out := item{}
	for key, v := range in {
		c, ok := editable[key]
		if !ok {
			continue // options, tags, parents: there is one domain, and projects are not nested
		}
		if out[key], err = c(v); err != nil {
			return nil, badRequest("Invalid input for field '%s': %v", key, err)
		}
	}
	return out, nil
}

func (k *keystone) add(name string) func(*call) error {
	return func(q *call) error {
		if !q.who.Admin() {
			return forbiddenAction("create_" + name)
		}
		given, err := q.fields(name)
		if err != nil {
			return err
		}
		if given.text("name") == "" {
			return badRequest("'name' is a required property")
		}
		if _, there := k.c.named(name, "", given.text("name")); there {
			return &authProblem{http.StatusConflict, "Conflict occurred attempting to store " + name + " - Duplicate entry found with name " + given.text("name") + " at domain ID default."}
		}
		if len(k.c.tables[name].items) >= k.c.o.MaxItems {
			return &authProblem{http.StatusForbidden, "Unable to create another " + name + ", limit exceeded."}
		}
		it := item{"id": newHex(), "domain_id": domainID, "enabled": true, "description": "", "options": map[string]any{}}
		switch name {
		case "project":
			it = it.with(item{"parent_id": domainID, "is_domain": false, "tags": []any{}})
		case "user":
			it["password_expires_at"] = nil
		case "role":
			it["domain_id"], it["id"] = nil, stableHex("role", given.text("name"))
		}
		it = it.with(given)
		k.c.tables[name].put(it)
		k.c.changed()
		return q.one(http.StatusCreated, name, it)
	}
}

func (k *keystone) edit(name string) func(*call) error {
	return func(q *call) error {
		if !q.who.Admin() {
			return forbiddenAction("update_" + name)
		}
		it, ok := k.c.tables[name].items[q.PathValue("id")]
		if !ok {
			return noSuch(name, q.PathValue("id"))
		}
		given, err := q.fields(name)
		if err != nil {
			return err
		}
		it = it.with(given)
		k.c.tables[name].put(it)
		k.c.changed()
		return q.one(http.StatusOK, name, it)
	}
}

func (k *keystone) drop(name string) func(*call) error {
	return func(q *call) error {
		id := q.PathValue("id")
		if !q.who.Admin() {
			return forbiddenAction("delete_" + name)
		}
		if _, ok := k.c.tables[name].items[id]; !ok {
			return noSuch(name, id)
		}
		k.c.tables[name].remove(id)
		for _, g := range k.c.tables["grant"].where(func(g item) bool { return g.text(name+"_id") == id }) {
			k.c.tables["grant"].remove(g.text("id"))
		}
		k.c.changed()
		reply(q.w, http.StatusNoContent, nil)
		return nil
	}
}

func (k *keystone) myProjects(q *call) error { return k.projects(q, q.who.UserID) }

func (k *keystone) projectsOfUser(q *call) error {
	if !q.mine("user", q.PathValue("id")) {
		return forbiddenAction("list_user_projects")
	}
	return k.projects(q, q.PathValue("id"))
}

func (k *keystone) projects(q *call, user string) error {
	out := []item{}
	for _, p := range k.c.projectsOf(user) {
		out = append(out, q.public("project", p))
	}
	return q.many("projects", out)
}

func domain() item {
	return item{"id": domainID, "name": "Default", "enabled": true, "description": "The default domain", "options": map[string]any{}}
}

func (k *keystone) domain(q *call) error {
	if id := q.PathValue("id"); id != domainID {
		return noSuch("domain", id)
	}
	return q.one(http.StatusOK, "domain", domain())
}

func (k *keystone) services(q *call) error {
	out := []item{}
	for _, s := range services {
		if t := q.URL.Query().Get("type"); t == "" || t == s[0] {
			out = append(out, q.public("service", item{"id": stableHex("service", s[1]), "type": s[0], "name": s[1], "enabled": true, "description": ""}))
		}
	}
	return q.many("services", out)
}

func (k *keystone) endpoints(q *call) error {
	out := []item{}
	for _, s := range services {
		for _, e := range k.c.endpoints(q.Request, s) {
			out = append(out, q.public("endpoint", e))
		}
	}
	return q.many("endpoints", out)
}

// assignments lists who has which role where, filtered as clients do.
func (k *keystone) assignments(q *call) error {
	if !q.who.Admin() && q.URL.Query().Get("user.id") != q.who.UserID {
		return forbiddenAction("list_role_assignments")
	}
	user, project, role := q.URL.Query().Get("user.id"), q.URL.Query().Get("scope.project.id"), q.URL.Query().Get("role.id")
	names := q.URL.Query().Has("include_names")
	out := []any{}
	for g := range k.c.tables["grant"].all {
		if user != "" && g.text("user_id") != user || project != "" && g.text("project_id") != project {
			continue
		}
		for _, name := range g.texts("roles") {
			if id := stableHex("role", name); role == "" || role == id {
				out = append(out, k.assignment(g, name, names))
			}
		}
	}
	return q.many("role_assignments", out)
}

func (k *keystone) assignment(g item, role string, names bool) map[string]any {
	r, _ := k.c.named("role", "", role)
	parts := map[string]item{"role": {"id": r["id"]}, "user": {"id": g["user_id"]}, "project": {"id": g["project_id"]}}
	if names {
		d := map[string]any{"id": domainID, "name": "Default"}
		parts["role"]["name"] = role
		for _, p := range []string{"user", "project"} {
			parts[p]["name"], parts[p]["domain"] = k.c.tables[p].items[g.text(p+"_id")].text("name"), d
		}
	}
	return map[string]any{"role": parts["role"], "user": parts["user"], "scope": map[string]any{"project": parts["project"]}, "links": map[string]any{}}
}

// grantee reads a path's user, project and role (by its name).
func (k *keystone) grantee(q *call) (user, project, role string, err error) {
	user, project = q.PathValue("user"), q.PathValue("project")
	if _, ok := k.c.tables["user"].items[user]; !ok {
		return "", "", "", noSuch("user", user)
	}
	if _, ok := k.c.tables["project"].items[project]; !ok {
		return "", "", "", noSuch("project", project)
	}
	if id := q.PathValue("role"); id != "" {
		r, ok := k.c.tables["role"].items[id]
		if !ok {
			return "", "", "", noSuch("role", id)
		}
		role = r.text("name")
	}
	return user, project, role, nil
}

func (k *keystone) rolesHeld(q *call) error {
	if !q.mine("user", q.PathValue("user")) {
		return forbiddenAction("list_grants")
	}
	user, project, _, err := k.grantee(q)
	if err != nil {
		return err
	}
	out := []item{}
	for _, name := range k.c.tables["grant"].items[grantID(user, project)].texts("roles") {
		if r, ok := k.c.named("role", "", name); ok {
			out = append(out, q.public("role", r))
		}
	}
	return q.many("roles", out)
}

func (k *keystone) roleHeld(q *call) error {
	user, project, role, err := k.grantee(q)
	if err != nil {
		return err
	}
	if !q.mine("user", user) {
		return forbiddenAction("check_grant")
	}
	if !k.c.hasRole(user, project, role) {
		return noSuch("role assignment", strings.Join([]string{role, user, project}, " "))
	}
	reply(q.w, http.StatusNoContent, nil)
	return nil
}

func (k *keystone) grant(on bool) func(*call) error {
	return func(q *call) error {
		if !q.who.Admin() {
			return forbiddenAction("create_grant")
		}
		user, project, role, err := k.grantee(q)
		if err != nil {
			return err
		}
		if !on && !k.c.hasRole(user, project, role) {
			return noSuch("role assignment", strings.Join([]string{role, user, project}, " "))
		}
		k.c.setRole(user, project, role, on)
		reply(q.w, http.StatusNoContent, nil)
		return nil
	}
}
