package report

import "slices"

// lbaasRows are what was measured of load balancers; none where no subject had any.
func lbaasRows(cols []*column) []row {
	of := func(s *Subject) *LBaaS { return s.LBaaS }
	if !slices.ContainsFunc(cols, func(c *column) bool {
		return slices.ContainsFunc(c.subjects, func(s *Subject) bool { return of(s) != nil })
	}) {
		return nil
	}
	rows := []row{
		subjectFigure(cols, "Services published", "lb.publish.samples"),
		subjectFigure(cols, "create to first byte, p50", "lb.publish.p50"),
		subjectFigure(cols, "create to first byte, max", "lb.publish.max"),
		subjectFigure(cols, "  create to address, p50", "lb.publish.address.p50"),
		unpublished(cols),
		subjectFigure(cols, "balancer pending, p50", "lb.provisioning.p50"),
		subjectFigure(cols, "balancer pending, max", "lb.provisioning.max"),
		subjectFigure(cols, "API calls", "lb.api.calls"),
		subjectFigure(cols, "  that write", "lb.api.writes"),
		subjectFigure(cols, "  that write members", "lb.api.member_writes"),
		troubles(cols, "  not answered well", "", func(s *Subject) *float64 {
			return maybe(of(s), func(l *LBaaS) *float64 { return maybe(l.API, func(a *LBAPI) *float64 { return converted(&a.Errors) }) })
		}),
		subjectFigure(cols, "  p99", "lb.api.seconds.p99"),
		subjectFigure(cols, "members that went down", "lb.members.down"),
		subjectFigure(cols, "failovers", "lb.failover.count"),
		subjectFigure(cols, "  longest", "lb.failover.max"),
		subjectFigure(cols, "  flows lost", "lb.failover.flows_lost"),
		subjectFigure(cols, "  flows kept", "lb.failover.flows_kept"),
	}
	return slices.DeleteFunc(append(rows, partRows(cols)...), row.empty)
}

// unpublished is absent where all were.
func unpublished(cols []*column) row {
	r := troubles(cols, "  not within the time limit", "", func(s *Subject) *float64 {
		return maybe(s.LBaaS, func(l *LBaaS) *float64 {
			return maybe(l.PublishSeconds, func(p *Publish) *float64 {
				if p.Unobserved == 0 {
					return nil
				}
				return converted(&p.Unobserved)
			})
		})
	})
	return r
}

// partRows are what each part of the LBaaS cost.
func partRows(cols []*column) []row {
	parts := map[string]bool{}
	for _, c := range cols {
		for _, s := range c.subjects {
			if s.LBaaS != nil {
				for part := range s.LBaaS.Parts {
					parts[part] = true
				}
			}
		}
	}
	var rows []row
	for _, part := range sortedKeys(parts) {
		of := func(get func(*Usage) *float64) func(*Subject) *float64 {
			return func(s *Subject) *float64 {
				return maybe(s.LBaaS, func(l *LBaaS) *float64 { return maybe(l.Parts[part], get) })
			}
		}
		rows = append(rows,
			figure(cols, "CPU, "+part, duration, "it was not read", of(func(u *Usage) *float64 { return &u.CPUSeconds })),
			figure(cols, "  peak memory", size, "it was not read", of(func(u *Usage) *float64 { return converted(&u.MaxRSSBytes) })))
	}
	return rows
}
