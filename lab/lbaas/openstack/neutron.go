package openstack

import (
	"encoding/json"
	"net/http"
	"strings"
)

// kinds of Neutron, by their place in a path. "-" and "_" mean the same there.
func neutronKinds() []*kind {
	return []*kind{networkKind(), subnetKind(), portKind(), floatingIPKind(), groupKind(), ruleKind()}
}

// neutron answers requests for networks.
type neutron struct {
	c     *Cloud
	kinds map[string]*kind // by plural
}

// Network is Neutron, below its prefix: /, /v2.0 and so on. Requests carry an Identity (WithIdentity).
func (c *Cloud) Network() http.Handler {
	n := &neutron{c: c, kinds: map[string]*kind{}}
	for _, k := range c.kinds {
		n.kinds[k.plural] = k
	}
	return n
}

func (n *neutron) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := segments(strings.TrimSuffix(r.URL.Path, ".json"))
	switch {
	case len(path) == 0:
		reply(w, http.StatusOK, map[string]any{"versions": []any{neutronVersion(r)}})
		return
	case !isVersion(path[0]):
		notFoundPath(w)
		return
	}
	who, known := IdentityFrom(r.Context())
	if !known {
		Unauthorized(w, r)
		return
	}
	if err := n.route(w, r, who, path[1:]); err != nil {
		neutronError(w, err)
	}
}

// isVersion knows the API's version; clients that have found Octavia's in its place call it v2.
func isVersion(word string) bool { return word == "v2.0" || word == "v2" }

func neutronVersion(r *http.Request) map[string]any {
	return map[string]any{"id": "v2.0", "status": "CURRENT", "links": []any{
		map[string]any{"rel": "self", "href": base(r) + Prefix(r) + "/v2.0/"},
	}}
}

// notFoundPath is how Neutron answers where it has nothing at all.
func notFoundPath(w http.ResponseWriter) {
	reply(w, http.StatusNotFound, map[string]any{"code": "404 Not Found", "title": "Not Found", "message": "The resource could not be found.<br /><br />\n\n\n"})
}

func (n *neutron) route(w http.ResponseWriter, r *http.Request, who Identity, path []string) error {
	if len(path) == 0 {
		reply(w, http.StatusOK, map[string]any{"resources": n.resources(r)})
		return nil
	}
	switch path[0] {
	case "extensions":
		return extensions(w, r, path[1:])
	case "quotas":
		return n.quotas(w, r, who, path[1:])
	}
	if plural := strings.ReplaceAll(path[0], "-", "_"); emptyKinds[plural] && len(path) == 1 && r.Method == http.MethodGet {
		reply(w, http.StatusOK, map[string]any{plural: []any{}})
		return nil
	}
	k := n.kinds[strings.ReplaceAll(path[0], "-", "_")]
	if k == nil {
		notFoundPath(w)
		return nil
	}
	switch len(path) {
	case 1:
		return n.collection(w, r, who, k)
	case 2:
		return n.member(w, r, who, k, path[1])
	default:
		if path[2] == "tags" && len(path) <= 4 {
			return n.tags(w, r, who, k, path[1], path[3:])
		}
	}
	notFoundPath(w)
	return nil
}

// emptyKinds are asked for by clients on their way, and there never are any.
var emptyKinds = map[string]bool{
	"subnetpools": true, "address_scopes": true, "availability_zones": true, "rbac_policies": true, "trunks": true, "agents": true,
	"routers": true, "service_providers": true,
}

func (n *neutron) resources(r *http.Request) []any {
	var out []any
	for _, k := range n.c.kinds {
		path := strings.ReplaceAll(k.plural, "_", "-")
		out = append(out, map[string]any{"name": k.name, "collection": k.plural, "links": []any{
			map[string]any{"rel": "self", "href": base(r) + Prefix(r) + "/v2.0/" + path},
		}})
	}
	return out
}

var errMethod = problemf(http.StatusMethodNotAllowed, "HTTPMethodNotAllowed", "The method is not allowed for this resource.")

func (n *neutron) collection(w http.ResponseWriter, r *http.Request, who Identity, k *kind) error {
	switch r.Method {
	case http.MethodGet:
		return n.list(w, r, who, k)
	case http.MethodPost:
		in, err := body(r, k.name)
		if err != nil {
			return err
		}
		return n.write(w, who, k, http.StatusCreated, func() (item, error) { return n.c.create(k, who, in) })
	}
	return errMethod
}

func (n *neutron) list(w http.ResponseWriter, r *http.Request, who Identity, k *kind) error {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		return err
	}
	n.c.mu.Lock()
	page, more, err := n.c.list(k, who, q)
	n.c.mu.Unlock()
	if err != nil {
		return err
	}
	shown := make([]item, len(page))
	for i, it := range page {
		shown[i] = q.pick(it)
	}
	out := map[string]any{k.plural: shown}
	if more {
		at := *r.URL
		values := at.Query()
		values.Set("marker", page[len(page)-1].text("id"))
		at.RawQuery = values.Encode()
		out[k.plural+"_links"] = []any{map[string]any{"rel": "next", "href": base(r) + Prefix(r) + at.String()}}
	}
	reply(w, http.StatusOK, out)
	return nil
}

func (n *neutron) member(w http.ResponseWriter, r *http.Request, who Identity, k *kind, id string) error {
	switch r.Method {
	case http.MethodGet:
		q, err := parseQuery(r.URL.Query())
		if err != nil {
			return err
		}
		return n.answer(w, k, http.StatusOK, q, func() (item, error) { return n.c.find(k, who, id) })
	case http.MethodPut:
		in, err := body(r, k.name)
		if err != nil {
			return err
		}
		return n.write(w, who, k, http.StatusOK, func() (item, error) { return n.c.update(k, who, id, in) })
	case http.MethodDelete:
		if err := mayWrite(who, "delete_"+k.name); err != nil {
			return err
		}
		n.c.mu.Lock()
		err := n.c.remove(k, who, id)
		n.c.mu.Unlock()
		if err == nil {
			reply(w, http.StatusNoContent, nil)
		}
		return err
	}
	return errMethod
}

// write answers with what do has made, if who may write at all.
func (n *neutron) write(w http.ResponseWriter, who Identity, k *kind, status int, do func() (item, error)) error {
	if err := mayWrite(who, "create_"+k.name); err != nil {
		return err
	}
	return n.answer(w, k, status, query{}, do)
}

// answer shows one item. It becomes text while the lock is held, for it may hold what others change.
func (n *neutron) answer(w http.ResponseWriter, k *kind, status int, q query, do func() (item, error)) error {
	n.c.mu.Lock()
	it, err := do()
	var text []byte
	if err == nil {
		text, err = json.Marshal(map[string]any{k.name: q.pick(n.c.show(k, it))})
	}
	n.c.mu.Unlock()
	if err == nil {
		replyText(w, status, text)
	}
	return err
}

// mayWrite refuses those who may only read.
func mayWrite(who Identity, rule string) error {
	if who.has("admin", "member", "manager", "load-balancer_admin") {
		return nil
	}
	return problemf(http.StatusForbidden, "PolicyNotAuthorized", "rule:%s is disallowed by policy", rule)
}
