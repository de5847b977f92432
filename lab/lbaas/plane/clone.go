package plane

import (
	"maps"
	"reflect"
	"slices"
)

// clone copies all of a balancer, so that who described it may change the description.
func (b Balancer) clone() Balancer {
	b.VIPs = slices.Clone(b.VIPs)
	b.Listeners = slices.Clone(b.Listeners)
	for i := range b.Listeners {
		l := &b.Listeners[i]
		l.AllowedCIDRs = slices.Clone(l.AllowedCIDRs)
		l.InsertHeaders = maps.Clone(l.InsertHeaders)
		l.Certificate, l.Key = slices.Clone(l.Certificate), slices.Clone(l.Key)
		l.Policies = slices.Clone(l.Policies)
		for j := range l.Policies {
			l.Policies[j].Rules = slices.Clone(l.Policies[j].Rules)
		}
	}
	b.Pools = slices.Clone(b.Pools)
	for i := range b.Pools {
		p := &b.Pools[i]
		p.Persistence, p.Monitor = cloned(p.Persistence), cloned(p.Monitor)
		p.Members = slices.Clone(p.Members)
	}
	return b
}

// equal compares all of two balancers; of members, which are most of them, without reflection.
func (b Balancer) equal(c Balancer) bool {
	sameMembers := slices.EqualFunc(b.Pools, c.Pools, func(p, q Pool) bool { return slices.Equal(p.Members, q.Members) })
	return sameMembers && reflect.DeepEqual(b.withoutMembers(), c.withoutMembers())
}

func (b Balancer) withoutMembers() Balancer {
	b.Pools = slices.Clone(b.Pools)
	for i := range b.Pools {
		b.Pools[i].Members = nil
	}
	return b
}

func cloned[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
