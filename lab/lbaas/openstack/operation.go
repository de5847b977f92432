package openstack

import (
	"net/http"
	"slices"
	"strings"
)

// identityKinds and networkKinds are what operations are called after, by their place in a path.
var (
	identityKinds = map[string]string{"projects": "project", "users": "user", "roles": "role", "domains": "domain", "services": "service",
		"endpoints": "endpoint", "role_assignments": "roleassignment"}
	networkKinds = map[string]string{"networks": "network", "subnets": "subnet", "ports": "port", "floatingips": "floatingip",
		"security-groups": "securitygroup", "security-group-rules": "securitygrouprule", "quotas": "networkquota", "extensions": "extension"}
)

// Operations lists what IdentityOperation and NetworkOperation can give.
func Operations() []string {
	out := []string{"token.create", "token.show", "token.delete", "catalog.show"}
	for _, kinds := range []map[string]string{identityKinds, networkKinds} {
		for _, kind := range kinds {
			for _, verb := range []string{"list", "show", "create", "update", "delete"} {
				out = append(out, kind+"."+verb)
			}
		}
	}
	slices.Sort(out)
	return out
}

// IdentityOperation names what a request asks of Keystone, such as token.create; "": nothing that has a name. The path
// begins where the service's does.
func IdentityOperation(r *http.Request) string {
	path := segments(r.URL.Path)
	switch {
	case len(path) < 2 || path[0] != "v3":
		return ""
	case path[1] == "auth" && len(path) == 3 && path[2] == "tokens":
		return "token." + verb(r.Method, r.Method != http.MethodPost)
	case path[1] == "auth" && len(path) == 3 && path[2] == "catalog":
		return "catalog.show"
	}
	return operation(r, identityKinds[path[1]], len(path) > 2)
}

// NetworkOperation is the same of Neutron.
func NetworkOperation(r *http.Request) string {
	path := segments(strings.TrimSuffix(r.URL.Path, ".json"))
	if len(path) < 2 || !isVersion(path[0]) {
		return ""
	}
	return operation(r, networkKinds[strings.ReplaceAll(path[1], "_", "-")], len(path) > 2)
}

func operation(r *http.Request, kind string, one bool) string {
	v := verb(r.Method, one)
	if kind == "" || v == "" {
		return ""
	}
	return kind + "." + v
}

func verb(method string, one bool) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		if one {
			return "show"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut, http.MethodPatch:
		return "update"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}
