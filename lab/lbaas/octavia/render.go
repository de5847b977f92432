package octavia

import (
	"slices"
	"time"
)

// timeFormat is Python's isoformat with microseconds.
const timeFormat = "2006-01-02T15:04:05.000000"

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(timeFormat)
}

// render gives an object as GET shows it. Call it with the lock.
func (s *Service) render(o *object) fields {
	k := s.kinds[o.Kind]
	out := make(fields, 0, len(k.show))
	for _, key := range k.show {
		value, shown := s.value(o, key)
		if shown {
			out = append(out, field{key, value})
		}
	}
	return out
}

// renderTree gives a balancer as its creation shows it: children in full, ahead of the rest, and without what is above them.
func (s *Service) renderTree(o *object) fields {
	var out fields
	children := func(key, kind string) {
		list := []fields{}
		for _, c := range s.db.below(o.ID, kind) {
			list = append(list, s.renderTree(c))
		}
		out = append(out, field{key, list})
	}
	var hidden []string
	switch o.Kind {
	case kindBalancer:
		children("listeners", kindListener)
		children("pools", kindPool)
		hidden = []string{"listeners", "pools"}
	case kindListener:
		children("l7policies", kindPolicy)
		hidden = []string{"l7policies", "loadbalancers"}
	case kindPool:
		children("members", kindMember)
		out = append(out, field{"healthmonitor", nil}) // also when there is one: so does Octavia
		hidden = []string{"members", "healthmonitor_id", "loadbalancers"}
	case kindPolicy:
		children("rules", kindRule)
		hidden = []string{"rules"}
	}
	for _, f := range s.render(o) {
		if !slices.Contains(hidden, f.key) {
			out = append(out, f)
		}
	}
	return out
}

// value gives one key of an object, and whether it is there at all.
func (s *Service) value(o *object, key string) (any, bool) {
	switch key {
	case "id":
		return o.ID, true
	case "project_id", "tenant_id":
		return o.Project, true
	case "provisioning_status":
		return o.Prov, true
	case "operating_status":
		return o.Oper, true
	case "created_at":
		return stamp(o.Created), true
	case "updated_at":
		return stamp(o.Updated), true
	case "healthmonitor_id":
		if m := s.db.monitorOf(o.ID); m != nil {
			return m.ID, true
		}
		return nil, false
	}
	if v, ok := s.vipValue(o, key); ok {
		return v, true
	}
	if v, ok := s.references(o, key); ok {
		return v, true
	}
	if v, ok := o.Attrs[key].(map[string]any); ok && key == "session_persistence" {
		return fields{{"type", v["type"]}, {"cookie_name", v["cookie_name"]},
			{"persistence_timeout", v["persistence_timeout"]},
			{"persistence_granularity", v["persistence_granularity"]}}, true
	}
	return o.Attrs[key], true
}

func (s *Service) vipValue(o *object, key string) (any, bool) {
	if o.Kind != kindBalancer || len(o.VIPs) == 0 {
		return nil, false
	}
	vip := o.VIPs[0]
	switch key {
	case "vip_address":
		return vip.Address.String(), true
	case "vip_port_id":
		return orNull(vip.PortID), true
	case "vip_subnet_id":
		return orNull(vip.SubnetID), true
	case "vip_network_id":
		return orNull(vip.NetworkID), true
	case "additional_vips":
		more := []fields{}
		for _, v := range o.VIPs[1:] {
			more = append(more, fields{{"subnet_id", orNull(v.SubnetID)}, {"ip_address", v.Address.String()}})
		}
		return more, true
	}
	return nil, false
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// references gives the keys that name other objects: [{"id": ...}].
func (s *Service) references(o *object, key string) (any, bool) {
	var to []*object
	switch key {
	case "loadbalancers":
		return []fields{{{"id", o.Balancer}}}, true
	case "listeners":
		to = s.db.below(o.ID, kindListener)
		if o.Kind == kindPool {
			to = s.db.listenersOf(o)
		}
	case "pools":
		if o.Kind == kindMonitor {
			return []fields{{{"id", o.Parent}}}, true
		}
		to = s.db.below(o.ID, kindPool)
	case "members":
		to = s.db.below(o.ID, kindMember)
	case "l7policies":
		to = s.db.policiesOf(o.ID)
	case "rules":
		to = s.db.below(o.ID, kindRule)
	default:
		return nil, false
	}
	list := make([]fields, 0, len(to))
	for _, one := range to {
		list = append(list, fields{{"id", one.ID}})
	}
	return list, true
}

// renderStatus gives the tree of states below a balancer.
func (s *Service) renderStatus(lb *object) fields {
	listeners := []fields{}
	for _, l := range s.db.below(lb.ID, kindListener) {
		pools := []fields{}
		for _, p := range s.db.poolsOf(l) {
			pools = append(pools, s.poolStatus(p))
		}
		listeners = append(listeners, fields{{"id", l.ID}, {"name", l.name()}, {"operating_status", l.Oper},
			{"provisioning_status", l.Prov}, {"pools", pools}})
	}
	return fields{{"id", lb.ID}, {"name", lb.name()}, {"operating_status", lb.Oper},
		{"provisioning_status", lb.Prov}, {"listeners", listeners}}
}

func (s *Service) poolStatus(p *object) fields {
	out := fields{{"id", p.ID}, {"name", p.name()}, {"provisioning_status", p.Prov}, {"operating_status", p.Oper}}
	if m := s.db.monitorOf(p.ID); m != nil {
		out = append(out, field{"health_monitor", fields{{"id", m.ID}, {"name", m.name()}, {"type", m.text("type")},
			{"provisioning_status", m.Prov}, {"operating_status", m.Oper}}})
	}
	members := []fields{}
	for _, m := range s.db.below(p.ID, kindMember) {
		members = append(members, fields{{"id", m.ID}, {"name", m.name()}, {"operating_status", m.Oper},
			{"provisioning_status", m.Prov}, {"address", m.text("address")}, {"protocol_port", m.number("protocol_port")}})
	}
	return append(out, field{"members", members})
}
