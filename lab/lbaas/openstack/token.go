package openstack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// token is what a token says. It is signed and kept by the client alone, as Keystone's fernet tokens are: there is no list
// of them that could grow.
type token struct {
	ID      string    `json:"i"` // audit id
	User    string    `json:"u"`
	Project string    `json:"p,omitempty"`
	System  bool      `json:"s,omitempty"`
	Methods []string  `json:"m"`
	Issued  time.Time `json:"b"`
	Expires time.Time `json:"e"`
	Cred    string    `json:"a,omitempty"` // application credential
}

func (c *Cloud) sign(t token) string {
	text, _ := json.Marshal(t) // it is made of what JSON has
	return base64.RawURLEncoding.EncodeToString(append(c.mac(text), text...))
}

func (c *Cloud) mac(text []byte) []byte {
	h := hmac.New(sha256.New, c.secret)
	h.Write(text)
	return h.Sum(nil)
}

// open reads a token that is good now. The lock is held.
func (c *Cloud) open(signed string) (t token, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(signed))
	if err != nil || len(raw) <= sha256.Size || !hmac.Equal(raw[:sha256.Size], c.mac(raw[sha256.Size:])) {
		return t, false
	}
	if err := json.Unmarshal(raw[sha256.Size:], &t); err != nil || !c.now().Before(t.Expires) {
		return t, false
	}
	if _, ended := c.revoked[t.ID]; ended {
		return t, false
	}
	if u, ok := c.tables["user"].items[t.User]; !ok || !u.flag("enabled") {
		return t, false
	}
	if t.Cred != "" && c.tables["application_credential"].items[t.Cred] == nil {
		return t, false
	}
	return t, len(c.rolesOf(t)) > 0 || t.Project == "" && !t.System
}

// rolesOf are the names of the roles that a token carries.
func (c *Cloud) rolesOf(t token) []string {
	if t.Cred != "" {
		return c.tables["application_credential"].items[t.Cred].texts("roles")
	}
	if !t.System {
		return c.tables["grant"].items[grantID(t.User, t.Project)].texts("roles")
	}
	for g := range c.tables["grant"].all { // whoever is an administrator somewhere is one of the system
		if roles := g.texts("roles"); g.text("user_id") == t.User && slices.Contains(roles, "admin") {
			return roles
		}
	}
	return nil
}

func grantID(user, project string) string { return user + "/" + project }

// Authenticate says who a token belongs to.
func (c *Cloud) Authenticate(signed string) (Identity, bool) {
	if signed == "" {
		return Identity{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.open(signed)
	if !ok {
		return Identity{}, false
	}
	return Identity{
		UserID: t.User, UserName: c.tables["user"].items[t.User].text("name"),
		ProjectID: t.Project, ProjectName: c.tables["project"].items[t.Project].text("name"),
		Roles: c.rolesOf(t), Expires: t.Expires,
	}, true
}

// ProjectID is the id of a project by name; "" where there is none.
func (c *Cloud) ProjectID(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.tables["project"].all {
		if p.text("name") == name {
			return p.text("id")
		}
	}
	return ""
}
