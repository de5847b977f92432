package openstack

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
)

// tags are those of any resource: /{kind}/{id}/tags and, with rest, one of them.
func (n *neutron) tags(w http.ResponseWriter, r *http.Request, who Identity, k *kind, id string, rest []string) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	it, err := n.c.find(k, who, id)
	if err != nil {
		return err
	}
	have := it.texts("tags")
	if r.Method == http.MethodGet {
		return readTags(w, have, rest)
	}
	if err := mayWrite(who, "update_"+k.name+"_tags"); err != nil {
		return err
	}
	if it, err = n.c.own(k, who, id); err != nil {
		return err
	}
	now, err := newTags(r, have, rest)
	if err != nil {
		return err
	}
	kept := make([]any, len(now))
	for i, t := range now {
		kept[i] = t
	}
	n.c.replace(k.name, it.with(item{"tags": kept}))
	switch {
	case r.Method == http.MethodDelete:
		reply(w, http.StatusNoContent, nil)
	case len(rest) == 1:
		reply(w, http.StatusCreated, nil)
	default:
		reply(w, http.StatusOK, map[string]any{"tags": kept})
	}
	return nil
}

func readTags(w http.ResponseWriter, have, rest []string) error {
	if len(rest) == 0 {
		reply(w, http.StatusOK, map[string]any{"tags": slices.Concat([]string{}, have)})
		return nil
	}
	if !slices.Contains(have, rest[0]) {
		return problemf(http.StatusNotFound, "TagNotFound", "Tag %s could not be found.", rest[0])
	}
	reply(w, http.StatusNoContent, nil)
	return nil
}

const mostTags = 50 // of a resource, as in Neutron

// newTags are a resource's tags after a request.
func newTags(r *http.Request, have, rest []string) ([]string, error) {
	now := slices.Clone(have)
	switch {
	case r.Method == http.MethodDelete && len(rest) == 0:
		now = nil
	case r.Method == http.MethodDelete:
		i := slices.Index(now, rest[0])
		if i < 0 {
			return nil, problemf(http.StatusNotFound, "TagNotFound", "Tag %s could not be found.", rest[0])
		}
		now = slices.Delete(now, i, i+1)
	case r.Method == http.MethodPut && len(rest) == 1:
		if !slices.Contains(now, rest[0]) {
			now = append(now, rest[0])
		}
	case r.Method == http.MethodPut:
		var in struct {
			Tags []string `json:"tags"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, largestBody)).Decode(&in); err != nil {
			return nil, badRequest("Invalid tags body")
		}
		now = in.Tags
	default:
		return nil, errMethod
	}
	if len(now) > mostTags {
		return nil, badRequest("The number of tags exceed the per-resource limit of %d", mostTags)
	}
	for _, t := range now {
		if t == "" || len(t) > 255 {
			return nil, badRequest("Invalid input for operation: '%s' is no tag.", t)
		}
	}
	return now, nil
}

// extensionNames are the extensions whose attributes and paths are here.
var extensionNames = map[string]string{
	"security-group": "security-group", "external-net": "Neutron external network", "router": "Neutron L3 Router", "quotas": "Quota management support",
	"quota_details": "Quota details management support", "allowed-address-pairs": "Allowed Address Pairs", "binding": "Port Binding",
	"port-security": "Port Security", "standard-attr-description": "standard-attr-description", "standard-attr-tag": "Tag support for resources with standard attribute",
	"standard-attr-timestamp": "Resource timestamps", "standard-attr-revisions": "Resource revision numbers", "pagination": "Pagination support",
	"sorting": "Sorting support", "project-id": "project_id field enabled", "subnet_allocation": "Subnet Allocation", "net-mtu": "Network MTU",
	"fip-port-details": "Floating IP Port Details Extension", "extra_dhcp_opt": "Neutron Extra DHCP options",
}

func extension(alias string) map[string]any {
	return map[string]any{"alias": alias, "name": extensionNames[alias], "description": extensionNames[alias], "links": []any{}, "updated": "2016-01-01T00:00:00-00:00"}
}

func extensions(w http.ResponseWriter, r *http.Request, path []string) error {
	if r.Method != http.MethodGet {
		return errMethod
	}
	if len(path) == 0 {
		all := []any{}
		for _, alias := range slices.Sorted(maps.Keys(extensionNames)) {
			all = append(all, extension(alias))
		}
		reply(w, http.StatusOK, map[string]any{"extensions": all})
		return nil
	}
	if extensionNames[path[0]] == "" {
		return problemf(http.StatusNotFound, "HTTPNotFound", "Extension with alias %s does not exist", path[0])
	}
	reply(w, http.StatusOK, map[string]any{"extension": extension(path[0])})
	return nil
}

// defaultQuota is Neutron's own; -1: no limit.
var defaultQuota = map[string]int{
	"network": 100, "subnet": 100, "port": 500, "floatingip": 50, "security_group": 10, "security_group_rule": 100,
	"router": 10, "subnetpool": -1, "rbac_policy": 10, "trunk": -1,
}

// quotaOf is a project's limits.
func (c *Cloud) quotaOf(project string) map[string]int {
	out := map[string]int{}
	own := c.tables["quota"].items[project]
	for name, limit := range defaultQuota {
		out[name] = limit
		if n, ok := number(own[name]); ok {
			out[name] = n
		}
	}
	return out
}

// quotaFor refuses what is more than a project may have, or than this server keeps.
func (c *Cloud) quotaFor(kind, project string) error {
	limit, limited := c.quotaOf(project)[kind]
	if len(c.tables[kind].items) >= c.o.MaxItems {
		limit, limited = 0, true
	}
	if !limited || limit < 0 {
		return nil
	}
	if c.used(kind, project) >= limit {
		return problemf(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['%s'].", kind)
	}
	return nil
}

func (c *Cloud) used(kind, project string) int {
	n := 0
	for it := range c.tables[kind].all {
		// The ports of VIPs belong to the load balancer service, whose own quota counts them.
		if it.text("project_id") == project && it.text("device_owner") != vipOwner {
			n++
		}
	}
	return n
}

func (n *neutron) quotas(w http.ResponseWriter, r *http.Request, who Identity, path []string) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	project := who.ProjectID
	if len(path) > 0 {
		project = path[0]
	}
	if project != who.ProjectID && !who.Admin() {
		return problemf(http.StatusForbidden, "PolicyNotAuthorized", "rule:get_quota is disallowed by policy")
	}
	last := ""
	if len(path) > 1 {
		last = path[1]
	}
	switch {
	case r.Method == http.MethodGet && len(path) == 0:
		all := []any{}
		for it := range n.c.tables["quota"].all {
			all = append(all, quotaItem(n.c.quotaOf(it.text("id")), it.text("id")))
		}
		reply(w, http.StatusOK, map[string]any{"quotas": all})
	case r.Method == http.MethodGet && (last == "details" || last == "details.json"):
		out := item{}
		for name, limit := range n.c.quotaOf(project) {
			used := 0
			if n.c.tables[name] != nil {
				used = n.c.used(name, project)
			}
			out[name] = map[string]int{"limit": limit, "used": used, "reserved": 0}
		}
		reply(w, http.StatusOK, map[string]any{"quota": out})
	case r.Method == http.MethodGet && (project == "default" || last == "default"):
		reply(w, http.StatusOK, map[string]any{"quota": defaultQuota})
	case r.Method == http.MethodGet:
		reply(w, http.StatusOK, map[string]any{"quota": n.c.quotaOf(project)})
	default:
		return n.setQuota(w, r, who, project)
	}
	return nil
}

func quotaItem(limits map[string]int, project string) item {
	out := item{"project_id": project, "tenant_id": project}
	for name, limit := range limits {
		out[name] = limit
	}
	return out
}

func (n *neutron) setQuota(w http.ResponseWriter, r *http.Request, who Identity, project string) error {
	if !who.Admin() {
		return problemf(http.StatusForbidden, "PolicyNotAuthorized", "rule:update_quota is disallowed by policy")
	}
	switch r.Method {
	case http.MethodDelete:
		n.c.tables["quota"].remove(project)
		n.c.changed()
		reply(w, http.StatusNoContent, nil)
		return nil
	case http.MethodPut:
	default:
		return errMethod
	}
	in, err := body(r, "quota")
	if err != nil {
		return err
	}
	now := item{"id": project}.with(n.c.tables["quota"].items[project])
	for name, v := range in {
		if _, known := defaultQuota[name]; !known {
			continue // clients send those of other extensions too
		}
		limit, err := isInt(-1, 1<<31-1)(v)
		if err != nil {
			return badRequest("Invalid input for %s. Reason: %v.", name, err)
		}
		now[name] = limit
	}
	n.c.tables["quota"].put(now)
	n.c.changed()
	reply(w, http.StatusOK, map[string]any{"quota": n.c.quotaOf(project)})
	return nil
}
