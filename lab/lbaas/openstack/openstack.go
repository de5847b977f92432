// Package openstack answers as Keystone and Neutron do, as far as clients of a load balancer service need them.
package openstack

import (
	"net/http"
	"net/netip"
	"time"
)

// Options are those of a cloud.
type Options struct {
	Users    []User        // nil: admin and demo
	Networks []Network     // nil: none
	TokenTTL time.Duration // how long a token is good for; 0: an hour
	Region   string        // "": RegionOne
	MaxItems int           // resources of a kind at most, for all projects together; 0: 20,000
	Now      func() time.Time
	State    State // nil: nothing is kept
}

// State keeps a part of what a service knows, for the next start. Save may return before it is on disk.
type State interface {
	Load(part string, into any) (found bool, err error)
	Save(part string, v any) error
}

// User may log in.
type User struct {
	Name, Password string
	Grants         []Grant // the first is the project that a login without scope means
}

// Grant is what a user may do in a project.
type Grant struct {
	Project string   // its name
	Roles   []string // admin, member, reader, load-balancer_member, load-balancer_observer, ...
}

// Network is one that is there from the beginning.
type Network struct {
	Name     string
	External bool // floating IPs come from it
	Subnets  []Subnet
}

// Subnet is one of a Network.
type Subnet struct {
	Name    string
	CIDR    netip.Prefix
	Gateway netip.Addr // zero: none
	First   netip.Addr // of the addresses that are given out; zero: as Neutron chooses
	Last    netip.Addr
}

// Identity is who asks.
type Identity struct {
	UserID, UserName       string
	ProjectID, ProjectName string
	Roles                  []string
	Expires                time.Time
}

// Cloud is Keystone and Neutron.
type Cloud struct{ o Options }

// New makes a cloud, with what its State has kept.
func New(o Options) (*Cloud, error) { return &Cloud{o: o}, nil }

// Identity is Keystone, below its prefix: /, /v3 and so on.
func (c *Cloud) Identity() http.Handler { return http.NotFoundHandler() }

// Network is Neutron, below its prefix: /, /v2.0 and so on.
func (c *Cloud) Network() http.Handler { return http.NotFoundHandler() }

// Authenticate says who a token belongs to.
func (c *Cloud) Authenticate(token string) (Identity, bool) { return Identity{}, token != "" }
