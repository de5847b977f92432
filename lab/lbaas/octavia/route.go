package octavia

import (
	"net/http"
	"strings"
)

// route is what a path and a method ask for.
type route struct {
	op     string // "listener.create"; "" for a document of the service itself
	kind   string
	id     string // of the object; in a collection ""
	parent string // the pool of a member, the policy of a rule
	serve  func(*Service, *call) (*answer, error)
}

// OperationOf names what a request asks for ("listener.create", "member.list", "loadbalancer.status"); "": nothing of
// this API, or a document about it. The request's path begins where the API's does.
func OperationOf(r *http.Request) string {
	found, err := resolve(r.Method, r.URL.Path)
	if err != nil {
		return ""
	}
	return found.op
}

// resolve finds the route. The error is an *Error: 404 for a path, 405 for a method.
func resolve(method, path string) (route, error) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	switch segments[0] {
	case "":
		return document(method, (*Service).versions)
	case "healthcheck":
		if len(segments) == 1 {
			return document(method, (*Service).healthcheck)
		}
	case "v2", "v2.0":
		return resolveVersioned(method, segments[1:])
	}
	return route{}, unknownPath(false)
}

func document(method string, serve func(*Service, *call) (*answer, error)) (route, error) {
	switch method {
	case http.MethodGet:
		return route{serve: serve}, nil
	case http.MethodOptions:
		return route{serve: (*Service).options}, nil
	}
	return route{}, methodNotAllowed()
}

func resolveVersioned(method string, path []string) (route, error) {
	if len(path) > 0 && path[0] == "lbaas" {
		path = path[1:]
	}
	if len(path) == 0 {
		return document(method, (*Service).version)
	}
	if path[0] == "octavia" {
		if len(path) == 1 {
			return document(method, (*Service).version)
		}
		return resolveAmphora(method, path[1:])
	}
	name := collections()[path[0]]
	switch {
	case path[0] == "quotas":
		return resolveQuota(method, path[1:])
	case path[0] == "providers":
		return resolveProvider(method, path[1:])
	case name == "" || name == kindMember || name == kindRule: // those have no collection of their own
		return route{}, unknownPath(true)
	}
	if len(path) >= 3 {
		return resolveBelow(method, name, path[1], path[2:])
	}
	return crud(method, name, "", path[1:])
}

// collections gives the kind of a path's word.
func collections() map[string]string {
	return map[string]string{
		"loadbalancers": kindBalancer, "listeners": kindListener, "pools": kindPool, "members": kindMember,
		"healthmonitors": kindMonitor, "l7policies": kindPolicy, "rules": kindRule,
		"flavors": kindFlavor, "flavorprofiles": kindFlavorProfile,
		"availabilityzones": kindZone, "availabilityzoneprofiles": kindZoneProfile,
	}
}

// opName gives the first half of an operation's name.
func opName(kind string) string {
	switch kind {
	case kindRule:
		return "l7rule"
	case kindZone:
		return "availabilityzone"
	case kindZoneProfile:
		return "availabilityzoneprofile"
	}
	return kind
}

// crud are the five operations that all kinds have.
func crud(method, kind, parent string, rest []string) (route, error) {
	r := route{kind: kind, parent: parent}
	collection := len(rest) == 0
	if !collection {
		r.id = rest[0]
	}
	var verb string
	switch {
	case method == http.MethodOptions:
		r.serve = (*Service).options
		return r, nil
	case method == http.MethodGet && collection:
		verb, r.serve = "list", (*Service).list
	case method == http.MethodPost && collection:
		verb, r.serve = "create", (*Service).create
	case method == http.MethodPut && collection && kind == kindMember:
		verb, r.serve = "batch_update", (*Service).batchUpdate
	case method == http.MethodGet && !collection:
		verb, r.serve = "show", (*Service).showOne
	case method == http.MethodPut && !collection:
		verb, r.serve = "update", (*Service).update
	case method == http.MethodDelete && !collection:
		verb, r.serve = "delete", (*Service).remove
	default:
		return route{}, methodNotAllowed()
	}
	r.op = opName(kind) + "." + verb
	return r, nil
}

// resolveBelow finds what is below an object: members, rules, and the documents about it.
func resolveBelow(method, kind, id string, rest []string) (route, error) {
	word := rest[0]
	child := collections()[word]
	if (kind == kindPool && child == kindMember || kind == kindPolicy && child == kindRule) && len(rest) <= 2 {
		return crud(method, child, id, rest[1:])
	}
	if len(rest) > 1 {
		return route{}, unknownPath(true)
	}
	r := route{kind: kind, id: id}
	want := http.MethodGet
	switch {
	case kind == kindBalancer && (word == "status" || word == "statuses"):
		r.op, r.serve = "loadbalancer.status", (*Service).status
	case kind == kindBalancer && word == "stats":
		r.op, r.serve = "loadbalancer.stats", (*Service).stats
	case kind == kindListener && word == "stats":
		r.op, r.serve = "listener.stats", (*Service).stats
	case kind == kindBalancer && word == "failover":
		r.op, r.serve, want = "loadbalancer.failover", (*Service).failover, http.MethodPut
	default:
		return route{}, unknownPath(true)
	}
	if method != want {
		return route{}, methodNotAllowed()
	}
	return r, nil
}

func resolveQuota(method string, rest []string) (route, error) {
	r := route{}
	if len(rest) > 0 {
		r.id = rest[0]
	}
	switch {
	case len(rest) > 2 || len(rest) == 2 && rest[1] != "default":
		return route{}, unknownPath(true)
	case method == http.MethodGet && len(rest) == 0:
		r.op, r.serve = "quota.list", (*Service).quotaList
	case method == http.MethodGet && (r.id == "defaults" || len(rest) == 2):
		r.op, r.serve = "quota.defaults", (*Service).quotaDefaults
	case method == http.MethodGet:
		r.op, r.serve = "quota.show", (*Service).quotaShow
	case method == http.MethodPut && len(rest) == 1:
		r.op, r.serve = "quota.update", (*Service).quotaUpdate
	case method == http.MethodDelete && len(rest) == 1:
		r.op, r.serve = "quota.delete", (*Service).quotaDelete
	default:
		return route{}, methodNotAllowed()
	}
	return r, nil
}

func resolveProvider(method string, rest []string) (route, error) {
	r := route{}
	if len(rest) > 0 {
		r.id = rest[0]
	}
	switch {
	case len(rest) == 0:
		r.op, r.serve = "provider.list", (*Service).providerList
	case len(rest) == 2 && (rest[1] == "flavor_capabilities" || rest[1] == "availability_zone_capabilities"):
		r.op, r.serve, r.parent = "provider."+rest[1], (*Service).providerCapabilities, rest[1]
	default:
		return route{}, unknownPath(true)
	}
	if method != http.MethodGet {
		return route{}, methodNotAllowed()
	}
	return r, nil
}

func resolveAmphora(method string, rest []string) (route, error) {
	if rest[0] != "amphorae" || len(rest) > 3 {
		return route{}, unknownPath(true)
	}
	if method != http.MethodGet && (method != http.MethodPut || len(rest) < 3) {
		return route{}, methodNotAllowed()
	}
	if len(rest) == 1 {
		return route{op: "amphora.list", serve: (*Service).amphoraList}, nil
	}
	return route{op: "amphora.show", id: rest[1], serve: (*Service).amphoraShow}, nil
}
