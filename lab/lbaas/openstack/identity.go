package openstack

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// Identity is who asks.
type Identity struct {
	UserID, UserName       string
	ProjectID, ProjectName string
	Roles                  []string
	Expires                time.Time // when the token that says so does
}

func (i Identity) has(roles ...string) bool {
	return slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(i.Roles, r) })
}

// Admin may do everything, in all projects.
func (i Identity) Admin() bool { return i.has("admin") }

type (
	identityKey struct{}
	prefixKey   struct{}
)

// WithIdentity says who the requests of ctx come from.
func WithIdentity(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// IdentityFrom gives what WithIdentity was told.
func IdentityFrom(ctx context.Context) (Identity, bool) {
	who, ok := ctx.Value(identityKey{}).(Identity)
	return who, ok
}

// WithPrefix says below which path the service of these requests is mounted ("/network"); links in answers begin with it.
func WithPrefix(ctx context.Context, prefix string) context.Context {
	return context.WithValue(ctx, prefixKey{}, prefix)
}

// Prefix gives what WithPrefix was told.
func Prefix(r *http.Request) string {
	prefix, _ := r.Context().Value(prefixKey{}).(string)
	return prefix
}
