package openstack

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

const domainID = "default"

var roleNames = []string{"admin", "member", "reader", "load-balancer_admin", "load-balancer_member", "load-balancer_observer",
	"load-balancer_global_observer", "load-balancer_quota_admin"}

// hash is how passwords and secrets are kept.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// people makes the roles, projects and users that are there from the beginning, where they are not kept already.
func (c *Cloud) people() {
	for _, name := range roleNames {
		c.role(name)
	}
	for _, u := range c.o.Users {
		user := item{"id": stableHex("user", u.Name), "name": u.Name, "domain_id": domainID, "enabled": true, "password": hash(u.Password),
			"password_expires_at": nil, "options": map[string]any{}}
		for i, g := range u.Grants {
			project := stableHex("project", g.Project)
			if i == 0 {
				user["default_project_id"] = project
			}
			c.first("project", item{"id": project, "name": g.Project, "domain_id": domainID, "parent_id": domainID, "enabled": true, "is_domain": false,
				"description": "", "options": map[string]any{}, "tags": []any{}})
			roles := make([]any, len(g.Roles))
			for j, r := range g.Roles {
				c.role(r)
				roles[j] = r
			}
			c.first("grant", item{"id": grantID(user.text("id"), project), "user_id": user["id"], "project_id": project, "roles": roles})
		}
		c.first("user", user)
	}
}

func (c *Cloud) role(name string) {
	c.first("role", item{"id": stableHex("role", name), "name": name, "domain_id": nil, "description": nil, "options": map[string]any{}})
}

// first adds an item that is not there yet.
func (c *Cloud) first(table string, it item) {
	if _, there := c.tables[table].items[it.text("id")]; !there {
		c.tables[table].put(it)
	}
}

// named finds an item by id, or by name.
func (c *Cloud) named(table, id, name string) (item, bool) {
	if id != "" {
		it, ok := c.tables[table].items[id]
		return it, ok
	}
	for it := range c.tables[table].all {
		if name != "" && it.text("name") == name {
			return it, true
		}
	}
	return nil, false
}

// projectsOf are those in which a user has a role.
func (c *Cloud) projectsOf(user string) []item {
	return c.tables["project"].where(func(p item) bool {
		return len(c.tables["grant"].items[grantID(user, p.text("id"))].texts("roles")) > 0
	})
}

// setRole gives a user a role in a project, or takes it.
func (c *Cloud) setRole(user, project, role string, on bool) {
	id := grantID(user, project)
	have := c.tables["grant"].items[id].texts("roles")
	roles := []any{}
	for _, r := range have {
		if r != role {
			roles = append(roles, r)
		}
	}
	if on {
		roles = append(roles, role)
	}
	c.tables["grant"].put(item{"id": id, "user_id": user, "project_id": project, "roles": roles})
	c.changed()
}

func (c *Cloud) hasRole(user, project, role string) bool {
	return slices.Contains(c.tables["grant"].items[grantID(user, project)].texts("roles"), role)
}
