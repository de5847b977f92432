package report

// lbaasMetrics are the paths that begin with "lb.".
func lbaasMetrics() []metric[*Subject] {
	publish := func(l *LBaaS) *ProgrammingSamples {
		if l.PublishSeconds == nil {
			return nil
		}
		return &l.PublishSeconds.ProgrammingSamples
	}
	address := func(l *LBaaS) *ProgrammingSamples {
		if l.PublishSeconds == nil {
			return nil
		}
		return l.PublishSeconds.Address
	}
	const unpublished = "no Service was waited for at its VIP"
	m := timesMetrics("publish", unpublished, publish)
	m = append(m, timesMetrics("publish.address", unpublished, address)...)
	m = append(m, lbaasMetric("publish.unobserved", count, unpublished, func(l *LBaaS) *float64 {
		return maybe(l.PublishSeconds, func(p *Publish) *float64 { return converted(&p.Unobserved) })
	}))
	m = append(m, timesMetrics("provisioning", "no load balancer was pending", func(l *LBaaS) *ProgrammingSamples { return l.ProvisioningSeconds })...)
	m = append(m, apiMetrics()...)
	for _, c := range []struct {
		name string
		get  func(*LBMembers) *float64
	}{
		{"members.changes", func(m *LBMembers) *float64 { return converted(&m.Changes) }},
		{"members.down", func(m *LBMembers) *float64 { return converted(&m.Down) }},
	} {
		m = append(m, lbaasMetric(c.name, count, "no member changed its state", func(l *LBaaS) *float64 { return maybe(l.Members, c.get) }))
	}
	return append(m, failoverMetrics()...)
}

func lbaasMetric(name string, dim dimension, why string, get func(*LBaaS) *float64) metric[*Subject] {
	return metric[*Subject]{"lb." + name, dim, func(s *Subject) (*float64, string) { return maybe(s.LBaaS, get), why }}
}

// timesMetrics are those of a distribution.
func timesMetrics(name, why string, of func(*LBaaS) *ProgrammingSamples) []metric[*Subject] {
	var m []metric[*Subject]
	for _, p := range []struct {
		name string
		dim  dimension
		get  func(*ProgrammingSamples) *float64
	}{
		{"p50", duration, func(d *ProgrammingSamples) *float64 { return &d.P50 }},
		{"p99", duration, func(d *ProgrammingSamples) *float64 { return &d.P99 }},
		{"max", duration, func(d *ProgrammingSamples) *float64 { return &d.Max }},
		{"samples", count, func(d *ProgrammingSamples) *float64 { return converted(&d.Samples) }},
	} {
		m = append(m, lbaasMetric(name+"."+p.name, p.dim, why, func(l *LBaaS) *float64 { return maybe(of(l), p.get) }))
	}
	return m
}

// apiMetrics are about the calls of all clients together.
func apiMetrics() []metric[*Subject] {
	seconds := func(get func(*SyncSeconds) *float64) func(*LBAPI) *float64 {
		return func(a *LBAPI) *float64 { return maybe(a.Seconds, get) }
	}
	var m []metric[*Subject]
	for _, c := range []struct {
		name string
		dim  dimension
		get  func(*LBAPI) *float64
	}{
		{"calls", count, func(a *LBAPI) *float64 { return converted(&a.Calls) }},
		{"writes", count, func(a *LBAPI) *float64 { return converted(&a.Writes) }},
		{"member_writes", count, func(a *LBAPI) *float64 { return converted(&a.MemberWrites) }},
		{"errors", count, func(a *LBAPI) *float64 { return converted(&a.Errors) }},
		{"seconds.p50", duration, seconds(func(s *SyncSeconds) *float64 { return &s.P50 })},
		{"seconds.p99", duration, seconds(func(s *SyncSeconds) *float64 { return &s.P99 })},
		{"seconds.max", duration, seconds(func(s *SyncSeconds) *float64 { return &s.Max })},
	} {
		m = append(m, lbaasMetric("api."+c.name, c.dim, "the LBaaS API was not called", func(l *LBaaS) *float64 { return maybe(l.API, c.get) }))
	}
	return m
}

// failoverMetrics are over all failovers of a subject: how many, the longest, and the flows of all together.
func failoverMetrics() []metric[*Subject] {
	var m []metric[*Subject]
	add := func(name string, dim dimension, next func(sum float64, f LBFailover) *float64) {
		m = append(m, metric[*Subject]{"lb.failover." + name, dim, func(s *Subject) (*float64, string) {
			if s.LBaaS == nil || len(s.LBaaS.Failovers) == 0 {
				return nil, "no VIP moved to another instance"
			}
			var v float64
			for _, f := range s.LBaaS.Failovers {
				sum := next(v, f)
				if sum == nil {
					return nil, "the flows of a failover were not counted"
				}
				v = *sum
			}
			return &v, ""
		}})
	}
	plus := func(v float64, n *int) *float64 {
		return maybe(n, func(n *int) *float64 { return number(v + float64(*n)) })
	}
	add("count", count, func(v float64, _ LBFailover) *float64 { return number(v + 1) })
	add("max", duration, func(v float64, f LBFailover) *float64 { return number(max(v, f.Seconds)) })
	add("flows_lost", count, func(v float64, f LBFailover) *float64 { return plus(v, f.FlowsLost) })
	add("flows_kept", count, func(v float64, f LBFailover) *float64 { return plus(v, f.FlowsKept) })
	return m
}
