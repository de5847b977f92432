package lbaas

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"proxylab/lab/lbaas/faults"
	"proxylab/lab/lbaas/octavia"
	"proxylab/lab/lbaas/openstack"
)

// hooks are what faults do to this server.
type hooks struct{ s *Server }

func (h hooks) Find(kind, pattern string) []string       { return h.s.octavia.Find(kind, pattern) }
func (h hooks) Edit(id string, set map[string]any) error { return h.s.octavia.Edit(id, set) }
func (h hooks) Delete(id string) error                   { return h.s.octavia.Remove(id) }
func (h hooks) Force(member, status string) error        { return h.s.octavia.ForceMember(member, status) }
func (h hooks) Settle(balancer string) error             { return h.s.octavia.Settle(balancer, false) }

func (h hooks) Kill(instance string) error {
	if h.s.plane == nil {
		return errors.New("there is no data plane")
	}
	return h.s.plane.kill(instance)
}

func (h hooks) Told(name, what, target string) {
	if what == "failed" {
		h.s.log.Warn("a fault could not do its work", "fault", name, "problem", target)
	}
	h.s.hub.tell(Event{Fault: &Fault{Name: name, What: what, Target: target}})
}

// provisioning asks the faults what becomes of operations.
type provisioning struct{ s *Server }

func (p provisioning) Provision(op octavia.Operation) octavia.Outcome {
	return octavia.Outcome(p.s.faults.Provision(op.Name, op.Balancer))
}

// Invalid is what is wrong with a plan of faults.
type Invalid []faults.Mistake

func (i Invalid) Error() string {
	lines := make([]string, len(i))
	for n, m := range i {
		lines[n] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// Known is what a plan for a server with these instances may speak of.
func Known(instances []string) faults.Known {
	return faults.Known{
		Operations: append(Operations(), openstack.Operations()...),
		Quotas:     []string{"loadbalancer", "listener", "pool", "member", "healthmonitor", "l7policy", "l7rule"},
		Instances:  instances,
	}
}

// Operations are those of the load balancer service.
func Operations() []string {
	var out []string
	for _, kind := range []string{"loadbalancer", "listener", "pool", "member", "healthmonitor", "l7policy", "l7rule", "flavor", "flavorprofile",
		"availabilityzone", "availabilityzoneprofile"} {
		for _, verb := range []string{"list", "show", "create", "update", "delete"} {
			out = append(out, kind+"."+verb)
		}
	}
	return append(out, "loadbalancer.status", "loadbalancer.stats", "loadbalancer.failover", "listener.stats", "member.batch_update",
		"quota.list", "quota.show", "quota.defaults", "quota.update", "quota.delete", "provider.list", "provider.flavor_capabilities",
		"provider.availability_zone_capabilities", "amphora.list", "amphora.show")
}

func (s *Server) known() faults.Known {
	var instances []string
	if s.o.Instances != nil {
		instances = s.o.Instances.Names
	}
	return Known(instances)
}

// Plan puts a plan's faults on, beside those that are, and changes what it says of the cloud. An error is an Invalid.
func (s *Server) Plan(p faults.Plan) error {
	_, err := s.plan(p)
	return err
}

func (s *Server) plan(p faults.Plan) (names []string, err error) {
	if mistakes := p.Validate(s.known()); len(mistakes) > 0 {
		return nil, Invalid(mistakes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	knobs := s.octavia.Knobs()
	if p.Version != "" {
		knobs.Version = p.Version
	}
	if p.Quota != nil {
		quota := maps.Clone(knobs.DefaultQuota)
		if quota == nil {
			quota = map[string]int{}
		}
		maps.Copy(quota, quotaNames(p.Quota))
		knobs.DefaultQuota = quota
	}
	if p.Provider != nil {
		knobs.Providers = lacking(*p.Provider)
	}
	if err := s.octavia.SetKnobs(knobs); err != nil {
		return nil, Invalid{{Text: err.Error()}}
	}
	return s.faults.On(p.Faults), nil
}

// quotaNames are limits as the API calls them.
func quotaNames(limits map[string]int) map[string]int {
	out := map[string]int{}
	for kind, limit := range limits {
		switch kind {
		case "loadbalancer":
			kind = "load_balancer"
		case "healthmonitor":
			kind = "health_monitor"
		}
		out[kind] = limit
	}
	return out
}

// lacking is what all providers cannot do.
func lacking(p faults.Provider) map[string]octavia.Provider {
	no := func(b *bool) bool { return b != nil && !*b }
	out := map[string]octavia.Provider{}
	for _, d := range octavia.DefaultProviders() {
		out[d.Name] = octavia.Provider{NoBatchMembers: no(p.BatchMembers), NoMonitors: no(p.Monitors), NoUDP: no(p.UDP)}
	}
	return out
}

// Calm takes faults off by name; without names all of them, and what plans have said of the cloud. It returns the names of those
// that were on; an error says which was not.
func (s *Server) Calm(names ...string) ([]string, error) {
	if len(names) == 0 {
		s.mu.Lock()
		err := s.octavia.SetKnobs(s.usual)
		s.mu.Unlock()
		return s.faults.Off(), err
	}
	on := s.faults.List()
	for _, name := range names {
		if !slices.ContainsFunc(on, func(f faults.State) bool { return f.Name == name }) {
			return nil, fmt.Errorf("no fault %q is on", name)
		}
	}
	return s.faults.Off(names...), nil
}
