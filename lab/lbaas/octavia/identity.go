package octavia

import "context"

// Identity is who asks, as Keystone has found out from a token.
type Identity struct {
	ProjectID string
	Roles     []string
}

type identityKey struct{}

// WithIdentity gives the requests of ctx an identity: projects are separated and roles are obeyed. Without one the service
// believes the headers X-Project-Id and X-Roles, and allows everything, as Octavia does with auth_strategy = noauth.
func WithIdentity(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// IdentityFrom gives the identity of a request.
func IdentityFrom(ctx context.Context) (Identity, bool) {
	who, ok := ctx.Value(identityKey{}).(Identity)
	return who, ok
}
