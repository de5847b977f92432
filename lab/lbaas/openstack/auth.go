package openstack

import (
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"
)

// authRequest is the body of POST /v3/auth/tokens.
type authRequest struct {
	Auth struct {
		Identity struct {
			Methods  []string `json:"methods"`
			Password struct {
				User userRef `json:"user"`
			} `json:"password"`
			Token struct {
				ID string `json:"id"`
			} `json:"token"`
			ApplicationCredential struct {
				ID     string  `json:"id"`
				Name   string  `json:"name"`
				Secret string  `json:"secret"`
				User   userRef `json:"user"`
			} `json:"application_credential"`
		} `json:"identity"`
		Scope json.RawMessage `json:"scope"` // an object, or "unscoped"
	} `json:"auth"`
}

type ref struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type userRef struct {
	ref
	Password string `json:"password"`
	Domain   ref    `json:"domain"`
}

type scope struct {
	Project *struct {
		ref
		Domain ref `json:"domain"`
	} `json:"project"`
	System *struct {
		All bool `json:"all"`
	} `json:"system"`
}

// authProblem is an answer of Keystone that is an error.
type authProblem struct {
	status  int
	message string
}

func (p *authProblem) Error() string { return p.message }

var (
	errUnauthorized = &authProblem{http.StatusUnauthorized, "The request you have made requires authentication."}
	errTokenBody    = &authProblem{http.StatusBadRequest, "Expecting to find auth in request body. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error."}
)

// login makes a token for whoever a request proves to be.
func (c *Cloud) login(r *http.Request) (token, error) {
	var in authRequest
	text, err := io.ReadAll(io.LimitReader(r.Body, largestBody))
	if err != nil || json.Unmarshal(text, &in) != nil || len(in.Auth.Identity.Methods) == 0 {
		return token{}, errTokenBody
	}
	now := c.now().UTC().Truncate(time.Second)
	t := token{ID: newHex(), Methods: in.Auth.Identity.Methods, Issued: now, Expires: now.Add(c.o.TokenTTL)}
	user, err := c.prove(&in, &t)
	if err != nil {
		return token{}, err
	}
	t.User = user.text("id")
	if t.Cred != "" {
		return t, nil // its project is the scope
	}
	return t, c.scope(&t, user, in.Auth.Scope)
}

// prove goes through the methods: all of them must hold, and mean the same user.
func (c *Cloud) prove(in *authRequest, t *token) (item, error) {
	var user item
	for _, method := range in.Auth.Identity.Methods {
		var u item
		var ok bool
		switch method {
		case "password":
			u, ok = c.byPassword(in.Auth.Identity.Password.User)
		case "token":
			var old token
			if old, ok = c.open(in.Auth.Identity.Token.ID); ok {
				u = c.tables["user"].items[old.User]
				t.Expires = old.Expires // it is not prolonged
				t.Methods = append(old.Methods, t.Methods...)
			}
		case "application_credential":
			u, ok = c.byCredential(in, t)
		default:
			return nil, errUnauthorized
		}
		if !ok || user != nil && user.text("id") != u.text("id") {
			return nil, errUnauthorized
		}
		user = u
	}
	slices.Sort(t.Methods)
	t.Methods = slices.Compact(t.Methods)
	return user, nil
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (c *Cloud) byPassword(u userRef) (item, bool) {
	user, ok := c.named("user", u.ID, u.Name)
	if !ok || !user.flag("enabled") || !equal(hash(u.Password), user.text("password")) || !isDefault(u.Domain) {
		return nil, false
	}
	return user, true
}

// isDefault says whether a domain that was named, if any, is the one there is.
func isDefault(d ref) bool {
	return (d.ID == "" || d.ID == domainID) && (d.Name == "" || d.Name == "Default" || d.Name == domainID)
}

func (c *Cloud) byCredential(in *authRequest, t *token) (item, bool) {
	q := in.Auth.Identity.ApplicationCredential
	for cred := range c.tables["application_credential"].all {
		user := c.tables["user"].items[cred.text("user_id")]
		mine := q.User.ID == cred.text("user_id") || q.User.Name != "" && q.User.Name == user.text("name")
		if q.ID != cred.text("id") && (q.ID != "" || q.Name != cred.text("name") || !mine) {
			continue
		}
		if !user.flag("enabled") || !equal(hash(q.Secret), cred.text("secret")) || c.expired(cred) {
			return nil, false
		}
		t.Cred, t.Project = cred.text("id"), cred.text("project_id")
		return user, true
	}
	return nil, false
}

func (c *Cloud) expired(cred item) bool {
	at, err := time.Parse(time.RFC3339, cred.text("expires_at"))
	return err == nil && c.now().After(at)
}

// scope finds what a token is for: the project asked for, or the user's own.
func (c *Cloud) scope(t *token, user item, asked json.RawMessage) error {
	var s scope
	if len(asked) > 0 && asked[0] == '"' {
		return nil // unscoped
	}
	if len(asked) > 0 && json.Unmarshal(asked, &s) != nil {
		return errTokenBody
	}
	switch {
	case s.Project != nil:
		p, ok := c.named("project", s.Project.ID, s.Project.Name)
		if !ok || !isDefault(s.Project.Domain) || !p.flag("enabled") {
			return errUnauthorized
		}
		t.Project = p.text("id")
	case s.System != nil:
		t.System = true
	case len(asked) > 0 && string(asked) != "null" && string(asked) != "{}":
		return errUnauthorized // a domain: nobody has a role there
	default:
		t.Project = user.text("default_project_id")
	}
	if len(c.rolesOf(*t)) == 0 && (t.Project != "" || t.System) {
		return errUnauthorized
	}
	return nil
}

const keystoneTime = "2006-01-02T15:04:05.000000Z"

// tokenBody is what Keystone says of a token.
func (c *Cloud) tokenBody(r *http.Request, t token) map[string]any {
	user := c.tables["user"].items[t.User]
	domain := map[string]any{"id": domainID, "name": "Default"}
	out := map[string]any{
		"methods": t.Methods, "audit_ids": []string{t.ID[:22]}, "is_domain": false,
		"issued_at": t.Issued.Format(keystoneTime), "expires_at": t.Expires.Format(keystoneTime),
		"user": map[string]any{"id": t.User, "name": user.text("name"), "domain": domain, "password_expires_at": nil},
	}
	if t.Project == "" && !t.System {
		return map[string]any{"token": out}
	}
	if t.System {
		out["system"] = map[string]any{"all": true}
	} else {
		p := c.tables["project"].items[t.Project]
		out["project"] = map[string]any{"id": t.Project, "name": p.text("name"), "domain": domain}
	}
	roles := []any{}
	for _, name := range c.rolesOf(t) {
		roles = append(roles, map[string]any{"id": stableHex("role", name), "name": name})
	}
	out["roles"], out["catalog"] = roles, c.catalog(r)
	if t.Cred != "" {
		cred := c.tables["application_credential"].items[t.Cred]
		out["application_credential"] = map[string]any{"id": t.Cred, "name": cred.text("name"), "restricted": true}
	}
	return map[string]any{"token": out}
}

// services are those of the catalogue: type, name and path.
var services = [][3]string{
	{"identity", "keystone", "/identity"}, {"load-balancer", "octavia", "/load-balancer"}, {"network", "neutron", "/network"},
}

// catalog says where the services are: where this request has come to.
func (c *Cloud) catalog(r *http.Request) []any {
	var out []any
	for _, s := range services {
		endpoints := []any{}
		for _, e := range c.endpoints(r, s) {
			delete(e, "service_id")
			delete(e, "enabled")
			endpoints = append(endpoints, e)
		}
		out = append(out, map[string]any{"id": stableHex("service", s[1]), "type": s[0], "name": s[1], "endpoints": endpoints})
	}
	return out
}

func (c *Cloud) endpoints(r *http.Request, service [3]string) []item {
	var out []item
	for _, kind := range []string{"public", "internal", "admin"} {
		out = append(out, item{
			"id": stableHex("endpoint", service[1]+"/"+kind), "interface": kind, "region": c.o.Region, "region_id": c.o.Region,
			"url": base(r) + service[2], "service_id": stableHex("service", service[1]), "enabled": true,
		})
	}
	return out
}
