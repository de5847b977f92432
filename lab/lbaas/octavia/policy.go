package octavia

import (
	"net/http"
	"slices"
	"strings"
)

// caller is who asks, with what follows from the roles.
type caller struct {
	Identity
	trusted bool // no Keystone: everything is allowed
}

func (s *Service) callerOf(r *http.Request) caller {
	if who, ok := IdentityFrom(r.Context()); ok {
		return caller{Identity: who}
	}
	who := Identity{ProjectID: r.Header.Get("X-Project-Id")}
	if who.ProjectID == "" {
		who.ProjectID = s.opts.DefaultProject
	}
	if roles := r.Header.Get("X-Roles"); roles != "" {
		who.Roles = strings.Split(roles, ",")
	}
	return caller{Identity: who, trusted: true}
}

func (c caller) has(roles ...string) bool {
	return slices.ContainsFunc(c.Roles, func(r string) bool { return slices.Contains(roles, strings.TrimSpace(r)) })
}

// action is what a rule of the policy allows.
type action int

const (
	actRead       action = iota // an object of a project
	actWrite                    // the same
	actReadAll                  // of any project
	actReadAny                  // what belongs to no project: flavors, zones, providers
	actQuotaWrite               // somebody's quota
	actAdmin                    // profiles, flavors, zones, failovers, amphorae
)

// permit says whether a caller may; the roles are Octavia's own ones, and Keystone's default ones.
func (c caller) permit(do action, project string) error {
	if c.trusted || c.has("admin", "load-balancer_admin") {
		return nil
	}
	own := c.ProjectID != "" && c.ProjectID == project
	allowed := false
	switch do {
	case actRead:
		allowed = c.has("load-balancer_global_observer") ||
			own && c.has("load-balancer_observer", "load-balancer_member", "member", "reader")
	case actReadAll:
		allowed = c.has("load-balancer_global_observer")
	case actReadAny:
		allowed = c.has("load-balancer_global_observer", "load-balancer_observer", "load-balancer_member", "member", "reader")
	case actWrite:
		allowed = own && c.has("load-balancer_member", "member")
	case actQuotaWrite:
		allowed = c.has("load-balancer_quota_admin")
	case actAdmin:
	}
	if !allowed {
		return forbidden()
	}
	return nil
}

// scope gives the project whose objects a list shows; "": all.
func (c caller) scope(asked string) (string, error) {
	if c.permit(actReadAll, "") == nil {
		return asked, nil
	}
	if asked == "" {
		asked = c.ProjectID
	}
	if asked == "" {
		return "", forbidden()
	}
	return asked, c.permit(actRead, asked)
}
