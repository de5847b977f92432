// Package openstack answers as Keystone and Neutron do, as far as clients of a load balancer service need them: tokens,
// catalogue, projects, users and roles; networks, subnets, ports, floating IPs and security groups. Nothing enforces security
// groups, and there are no routers.
package openstack

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Options are those of a cloud. The zero value is one with the default users, without networks, in memory.
type Options struct {
	Users    []User        // nil: DefaultUsers
	Networks []Network     // nil: none
	TokenTTL time.Duration // how long a token is good for; 0: an hour
	Region   string        // "": RegionOne
	MaxItems int           // resources of a kind at most, for all projects together; 0: 20,000
	State    State         // nil: nothing is kept
	// Floating hears that floating IPs point elsewhere. It must not block, nor call the cloud.
	Floating func()
	Now      func() time.Time // nil: time.Now
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

// DefaultUsers are admin, who may do everything, demo, who has load balancers of its own, and viewer, who sees demo's.
// Each has its name as password.
func DefaultUsers() []User {
	return []User{
		{Name: "admin", Password: "admin", Grants: []Grant{
			{Project: "admin", Roles: []string{"admin", "member", "reader", "load-balancer_admin"}},
			{Project: "demo", Roles: []string{"admin", "member", "reader", "load-balancer_admin"}},
		}},
		{Name: "demo", Password: "demo", Grants: []Grant{{Project: "demo", Roles: []string{"member", "reader", "load-balancer_member"}}}},
		{Name: "viewer", Password: "viewer", Grants: []Grant{{Project: "demo", Roles: []string{"reader", "load-balancer_observer"}}}},
	}
}

// Network is one that is there from the beginning, for all projects.
type Network struct {
	Name     string
	External bool // floating IPs come from it
	Subnets  []Subnet
}

// Subnet is one of a Network.
type Subnet struct {
	Name        string
	CIDR        netip.Prefix
	Gateway     netip.Addr // zero: none
	First, Last netip.Addr // of the addresses that are given out; zero: all that the gateway and the network itself leave
}

// Cloud is Keystone and Neutron. It is safe for concurrent use.
type Cloud struct {
	o     Options
	kinds []*kind // of Neutron

	mu      sync.Mutex
	tables  map[string]*table
	secret  []byte               // signs tokens
	revoked map[string]time.Time // tokens that were ended before their time, until then

	dirty chan struct{} // something is to be kept
	quit  chan struct{}
	saved sync.WaitGroup
	err   error // of the last save
}

// New makes a cloud, with what its State has kept. Close ends it.
func New(o Options) (*Cloud, error) {
	defaults(&o)
	c := &Cloud{
		o: o, kinds: neutronKinds(), tables: map[string]*table{}, revoked: map[string]time.Time{},
		dirty: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	for _, k := range c.kinds {
		c.tables[k.name] = newTable()
	}
	for _, name := range []string{"quota", "project", "user", "role", "grant", "application_credential"} {
		c.tables[name] = newTable()
	}
	found, err := c.load()
	if err != nil {
		return nil, fmt.Errorf("read what Keystone and Neutron have kept: %w", err)
	}
	if !found {
		c.secret = make([]byte, 32)
		_, _ = rand.Read(c.secret) // it never fails
	}
	c.people()
	if err := c.networks(); err != nil {
		return nil, err
	}
	c.saved.Go(c.keep)
	c.changed()
	return c, nil
}

func defaults(o *Options) {
	if o.Users == nil {
		o.Users = DefaultUsers()
	}
	if o.TokenTTL == 0 {
		o.TokenTTL = time.Hour
	}
	if o.Region == "" {
		o.Region = "RegionOne"
	}
	if o.MaxItems == 0 {
		o.MaxItems = 20_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

func (c *Cloud) now() time.Time { return c.o.Now() }

func (c *Cloud) kindOf(name string) *kind {
	for _, k := range c.kinds {
		if k.name == name {
			return k
		}
	}
	return nil
}

// networks makes those that are there from the beginning, with the same ids at every start.
func (c *Cloud) networks() error {
	who := Identity{ProjectID: stableHex("project", c.firstProject()), Roles: []string{"admin"}}
	for _, n := range c.o.Networks {
		id := StableID("network", n.Name)
		if _, there := c.tables["network"].items[id]; !there {
			it, err := c.make(c.kindOf("network"), item{"name": n.Name, "shared": !n.External, "router:external": n.External}, who)
			if err == nil {
				it["id"] = id
				err = c.kindOf("network").create(c, who, it)
			}
			if err != nil {
				return fmt.Errorf("network %s: %w", n.Name, err)
			}
			c.tables["network"].put(it)
		}
		for _, s := range n.Subnets {
			if err := c.subnet(who, id, s); err != nil {
				return fmt.Errorf("subnet %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

func (c *Cloud) subnet(who Identity, network string, s Subnet) error {
	id := StableID("subnet", s.Name)
	if _, there := c.tables["subnet"].items[id]; there {
		return nil
	}
	in := item{"name": s.Name, "network_id": network, "cidr": s.CIDR.String(), "gateway_ip": nil}
	if s.Gateway.IsValid() {
		in["gateway_ip"] = s.Gateway.String()
	}
	if s.First.IsValid() {
		in["allocation_pools"] = []any{map[string]any{"start": s.First.String(), "end": s.Last.String()}}
	}
	it, err := c.make(c.kindOf("subnet"), in, who)
	if err != nil {
		return err
	}
	it["id"] = id
	if err := createSubnet(c, who, it); err != nil {
		return err
	}
	c.tables["subnet"].put(it)
	return nil
}

func (c *Cloud) firstProject() string {
	for _, u := range c.o.Users {
		for _, g := range u.Grants {
			return g.Project
		}
	}
	return "admin"
}
