package openstack

import (
	"errors"
	"net/http"
	"strings"
)

// keystone answers requests for identities.
type keystone struct {
	c   *Cloud
	mux *http.ServeMux
}

// call is a request by somebody who has shown a token. The lock is held while it is answered.
type call struct {
	*http.Request
	w   http.ResponseWriter
	who Identity
	t   token
}

// Identity is Keystone, below its prefix: /, /v3 and so on.
func (c *Cloud) Identity() http.Handler {
	k := &keystone{c: c, mux: http.NewServeMux()}
	k.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusMultipleChoices, map[string]any{"versions": map[string]any{"values": []any{keystoneVersion(r)}}})
	})
	k.mux.HandleFunc("GET /v3", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"version": keystoneVersion(r)})
	})
	k.mux.HandleFunc("POST /v3/auth/tokens", k.issue)
	for pattern, h := range k.routes() {
		k.mux.HandleFunc(pattern, k.authenticated(h))
	}
	return k
}

func (k *keystone) routes() map[string]func(*call) error {
	routes := map[string]func(*call) error{
		"GET /v3/auth/tokens":         k.validate, // and HEAD
		"DELETE /v3/auth/tokens":      k.revoke,
		"GET /v3/auth/catalog":        func(q *call) error { return q.many("catalog", k.c.catalog(q.Request)) },
		"GET /v3/auth/projects":       k.myProjects,
		"GET /v3/auth/domains":        func(q *call) error { return q.many("domains", []any{}) },
		"GET /v3/users/{id}/projects": k.projectsOfUser,
		"GET /v3/domains":             func(q *call) error { return q.many("domains", []item{domain()}) },
		"GET /v3/domains/{id}":        k.domain,
		"GET /v3/regions": func(q *call) error {
			return q.many("regions", []item{{"id": k.c.o.Region, "description": "", "parent_region_id": nil}})
		},
		"GET /v3/services":         k.services,
		"GET /v3/endpoints":        k.endpoints,
		"GET /v3/role_assignments": k.assignments,

		"GET /v3/projects/{project}/users/{user}/roles":           k.rolesHeld,
		"GET /v3/projects/{project}/users/{user}/roles/{role}":    k.roleHeld, // and HEAD
		"PUT /v3/projects/{project}/users/{user}/roles/{role}":    k.grant(true),
		"DELETE /v3/projects/{project}/users/{user}/roles/{role}": k.grant(false),

		"GET /v3/users/{id}/application_credentials":           k.credentials,
		"POST /v3/users/{id}/application_credentials":          k.addCredential,
		"GET /v3/users/{id}/application_credentials/{cred}":    k.credential,
		"DELETE /v3/users/{id}/application_credentials/{cred}": k.dropCredential,
	}
	for _, name := range []string{"project", "user", "role"} {
		routes["GET /v3/"+name+"s"] = k.list(name)
		routes["POST /v3/"+name+"s"] = k.add(name)
		routes["GET /v3/"+name+"s/{id}"] = k.show(name)
		routes["PATCH /v3/"+name+"s/{id}"] = k.edit(name)
		routes["DELETE /v3/"+name+"s/{id}"] = k.drop(name)
	}
	return routes
}

func (k *keystone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if trimmed := strings.TrimSuffix(r.URL.Path, "/"); trimmed != "" && trimmed != r.URL.Path {
		u := *r.URL
		u.Path = trimmed
		r = r.Clone(r.Context())
		r.URL = &u
	}
	if _, pattern := k.mux.Handler(r); pattern == "" {
		keystoneError(w, r, http.StatusNotFound, "(http://"+r.Host+r.URL.Path+"): The resource could not be found.")
		return
	}
	k.mux.ServeHTTP(w, r)
}

func keystoneVersion(r *http.Request) map[string]any {
	return map[string]any{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []any{map[string]any{"rel": "self", "href": base(r) + Prefix(r) + "/v3/"}},
		"media-types": []any{map[string]any{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

// authenticated lets in those with a token that is good, and those whom the server trusts without (WithIdentity).
func (k *keystone) authenticated(h func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok := IdentityFrom(r.Context())
		if !ok {
			who, ok = k.c.Authenticate(r.Header.Get("X-Auth-Token"))
		}
		if !ok {
			Unauthorized(w, r)
			return
		}
		k.c.mu.Lock()
		defer k.c.mu.Unlock()
		t, _ := k.c.open(r.Header.Get("X-Auth-Token")) // it was good a moment ago, or is not needed
		if err := h(&call{Request: r, w: w, who: who, t: t}); err != nil {
			k.fail(w, r, err)
		}
	}
}

func (k *keystone) fail(w http.ResponseWriter, r *http.Request, err error) {
	var auth *authProblem
	var other *problem
	switch {
	case errors.As(err, &auth):
		keystoneError(w, r, auth.status, auth.message)
	case errors.As(err, &other):
		keystoneError(w, r, other.status, other.message)
	default:
		keystoneError(w, r, http.StatusInternalServerError, err.Error())
	}
}

func (k *keystone) issue(w http.ResponseWriter, r *http.Request) {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	t, err := k.c.login(r)
	if err != nil {
		k.fail(w, r, err)
		return
	}
	w.Header().Set("X-Subject-Token", k.c.sign(t))
	w.Header().Set("Vary", "X-Auth-Token")
	out := k.c.tokenBody(r, t)
	if r.URL.Query().Has("nocatalog") {
		delete(out["token"].(map[string]any), "catalog")
	}
	reply(w, http.StatusCreated, out)
}

func (k *keystone) subject(q *call) (token, error) {
	t, ok := k.c.open(q.Header.Get("X-Subject-Token"))
	if !ok {
		return t, &authProblem{http.StatusNotFound, "Failed to validate token"}
	}
	if t.User != q.who.UserID && !q.who.Admin() {
		return t, forbiddenAction("validate_token")
	}
	return t, nil
}

func forbiddenAction(rule string) error {
	return &authProblem{http.StatusForbidden, "You are not authorized to perform the requested action: identity:" + rule + "."}
}

func (k *keystone) validate(q *call) error {
	t, err := k.subject(q)
	if err != nil {
		return err
	}
	q.w.Header().Set("X-Subject-Token", q.Header.Get("X-Subject-Token"))
	reply(q.w, http.StatusOK, k.c.tokenBody(q.Request, t))
	return nil
}

func (k *keystone) revoke(q *call) error {
	t, err := k.subject(q)
	if err != nil {
		return err
	}
	now := k.c.now()
	for id, until := range k.c.revoked {
		if now.After(until) {
			delete(k.c.revoked, id) // so that the list is no longer than the tokens that could still be used
		}
	}
	k.c.revoked[t.ID] = t.Expires
	k.c.changed()
	reply(q.w, http.StatusNoContent, nil)
	return nil
}
