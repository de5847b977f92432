package octavia

import (
	"maps"
	"net/http"
	"slices"
)

// unlimited is a quota that is none.
const unlimited = -1

// quotaKeys are the kinds that are counted, with their keys, in the order of an answer.
func quotaKeys() []struct{ key, kind string } {
	return []struct{ key, kind string }{
		{"load_balancer", kindBalancer}, {"listener", kindListener}, {"member", kindMember}, {"pool", kindPool},
		{"health_monitor", kindMonitor}, {"l7policy", kindPolicy}, {"l7rule", kindRule},
	}
}

// quotaOf gives how many a project may have; below 0: any number.
func (s *Service) quotaOf(project, kind string) int {
	if n, own := s.quotas[project][kind]; own {
		return n
	}
	for _, q := range quotaKeys() {
		if n, given := s.knobs.DefaultQuota[q.key]; given && q.kind == kind {
			return n
		}
	}
	return unlimited
}

func (s *Service) quotaFields(project string) fields {
	out := fields{}
	for _, q := range quotaKeys() {
		out = append(out, field{q.key, s.quotaOf(project, q.kind)})
	}
	return out
}

func (s *Service) quotaDefaults(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &answer{http.StatusOK, fields{{"quota", s.quotaFields("")}}}, nil
}

func (s *Service) quotaShow(c *call) (*answer, error) {
	if c.who.permit(actQuotaWrite, c.id) != nil {
		if err := c.who.permit(actRead, c.id); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &answer{http.StatusOK, fields{{"quota", s.quotaFields(c.id)}}}, nil
}

// quotaList shows the projects that have quotas of their own; two keys are there under both of their names.
func (s *Service) quotaList(c *call) (*answer, error) {
	only := ""
	if c.who.permit(actQuotaWrite, "") != nil {
		var err error
		if only, err = c.who.scope(c.query.Get("project_id")); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []fields{}
	for _, project := range slices.Sorted(maps.Keys(s.quotas)) {
		if only != "" && project != only {
			continue
		}
		own := func(kind string) any {
			if n, ok := s.quotas[project][kind]; ok {
				return n
			}
			return nil
		}
		one := fields{{"project_id", project}, {"loadbalancer", own(kindBalancer)}, {"load_balancer", own(kindBalancer)},
			{"listener", own(kindListener)}, {"member", own(kindMember)}, {"pool", own(kindPool)},
			{"healthmonitor", own(kindMonitor)}, {"health_monitor", own(kindMonitor)}, {"l7policy", own(kindPolicy)},
			{"l7rule", own(kindRule)}, {"tenant_id", project}}
		list = append(list, one.only(fieldsOf(c.query)))
	}
	return &answer{http.StatusOK, fields{{"quotas", list}, {"quotas_links", []fields{}}}}, nil
}

func quotaClass() class {
	c := class{{name: "loadbalancer"}, {name: "load_balancer"}, {name: "healthmonitor"}, {name: "health_monitor"},
		{name: "listener"}, {name: "member"}, {name: "pool"}, {name: "l7policy"}, {name: "l7rule"}}
	for i := range c {
		c[i].check = integer(unlimited, 2000000000)
	}
	return append(c, ownership()...)
}

func (s *Service) quotaUpdate(c *call) (*answer, error) {
	body, err := c.object("quotas")
	if err != nil {
		return nil, err
	}
	sent, err := quotaClass().parse(body, "quota", "quotas")
	if err != nil {
		return nil, err
	}
	if err := c.who.permit(actQuotaWrite, c.id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.quotas) >= s.opts.Limits.Objects && s.quotas[c.id] == nil {
		return nil, quotaMet("Quota")
	}
	if s.quotas[c.id] == nil {
		s.quotas[c.id] = map[string]int{}
	}
	for _, q := range quotaKeys() {
		for _, name := range []string{q.key, q.kind} {
			v, there := sent[name]
			if n, isNumber := v.(int); isNumber {
				s.quotas[c.id][q.kind] = n
			} else if there { // a null: the default again
				delete(s.quotas[c.id], q.kind)
			}
		}
	}
	s.dirty()
	return &answer{http.StatusAccepted, fields{{"quota", s.quotaFields(c.id)}}}, nil
}

func (s *Service) quotaDelete(c *call) (*answer, error) {
	if err := c.who.permit(actQuotaWrite, c.id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quotas[c.id] == nil {
		return nil, notFound("Quotas", c.id)
	}
	delete(s.quotas, c.id)
	s.dirty()
	return &answer{status: http.StatusAccepted}, nil
}
