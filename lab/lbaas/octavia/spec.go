package octavia

import (
	"encoding/json"
	"net/netip"
	"time"

	"proxylab/lab/lbaas/plane"
)

// spec is what a balancer has to do: what is not about to go.
func (s *Service) spec(lb *object) plane.Balancer {
	b := plane.Balancer{ID: lb.ID, Name: lb.name(), AdminUp: lb.flag("admin_state_up")}
	for _, v := range lb.VIPs {
		b.VIPs = append(b.VIPs, v.Address)
	}
	for _, l := range s.staying(lb.ID, kindListener) {
		b.Listeners = append(b.Listeners, s.listenerSpec(l))
	}
	for _, p := range s.staying(lb.ID, kindPool) {
		b.Pools = append(b.Pools, s.poolSpec(p))
	}
	return b
}

func (s *Service) staying(parent, kind string) []*object {
	var out []*object
	for _, o := range s.db.below(parent, kind) {
		if o.Prov != pendingDelete {
			out = append(out, o)
		}
	}
	return out
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func (s *Service) listenerSpec(o *object) plane.Listener {
	l := plane.Listener{
		ID: o.ID, Protocol: o.text("protocol"), Port: uint16(o.number("protocol_port")), AdminUp: o.flag("admin_state_up"),
		DefaultPool: s.stayingPool(o.text("default_pool_id")), ConnectionLimit: o.number("connection_limit"),
		Timeouts: plane.Timeouts{
			ClientData:    milliseconds(o.number("timeout_client_data")),
			MemberConnect: milliseconds(o.number("timeout_member_connect")),
			MemberData:    milliseconds(o.number("timeout_member_data")),
			TCPInspect:    milliseconds(o.number("timeout_tcp_inspect")),
		},
	}
	for _, c := range o.list("allowed_cidrs") {
		if p, err := netip.ParsePrefix(c); err == nil { // checked when it came
			l.AllowedCIDRs = append(l.AllowedCIDRs, p)
		}
	}
	if headers, _ := o.Attrs["insert_headers"].(map[string]any); len(headers) > 0 {
		l.InsertHeaders = map[string]string{}
		for name, v := range headers {
			l.InsertHeaders[name] = pyStr(v)
		}
	}
	for _, p := range s.db.policiesOf(o.ID) {
		if p.Prov != pendingDelete {
			l.Policies = append(l.Policies, s.policySpec(p))
		}
	}
	return l
}

// stayingPool gives a pool's ID, or nothing when it is about to go.
func (s *Service) stayingPool(id string) string {
	if p := s.db.get(kindPool, id); p == nil || p.Prov == pendingDelete {
		return ""
	}
	return id
}

func (s *Service) policySpec(o *object) plane.L7Policy {
	p := plane.L7Policy{
		ID: o.ID, Action: o.text("action"), AdminUp: o.flag("admin_state_up"),
		RedirectPool: s.stayingPool(o.text("redirect_pool_id")), RedirectURL: o.text("redirect_url"),
		RedirectPrefix: o.text("redirect_prefix"), RedirectCode: o.number("redirect_http_code"), Rules: []plane.L7Rule{},
	}
	for _, r := range s.staying(o.ID, kindRule) {
		p.Rules = append(p.Rules, plane.L7Rule{Type: r.text("type"), CompareType: r.text("compare_type"), Key: r.text("key"),
			Value: r.text("value"), Invert: r.flag("invert"), AdminUp: r.flag("admin_state_up")})
	}
	return p
}

func (s *Service) poolSpec(o *object) plane.Pool {
	p := plane.Pool{ID: o.ID, Protocol: o.text("protocol"), Algorithm: o.text("lb_algorithm"), AdminUp: o.flag("admin_state_up")}
	if sticky, _ := o.Attrs["session_persistence"].(map[string]any); sticky != nil {
		seconds, _ := sticky["persistence_timeout"].(int)
		kind, _ := sticky["type"].(string)
		cookie, _ := sticky["cookie_name"].(string)
		mask, _ := sticky["persistence_granularity"].(string)
		p.Persistence = &plane.Persistence{Type: kind, CookieName: cookie, Granularity: mask,
			Timeout: time.Duration(seconds) * time.Second}
	}
	for _, m := range s.staying(o.ID, kindMonitor) {
		p.Monitor = monitorSpec(m)
	}
	for _, m := range s.staying(o.ID, kindMember) {
		p.Members = append(p.Members, s.memberSpec(m))
	}
	return p
}

func monitorSpec(o *object) *plane.Monitor {
	number, _ := o.Attrs["http_version"].(json.Number)
	version, _ := number.Float64() // none: 0
	return &plane.Monitor{
		ID: o.ID, Type: o.text("type"), AdminUp: o.flag("admin_state_up"),
		Delay: time.Duration(o.number("delay")) * time.Second, Timeout: time.Duration(o.number("timeout")) * time.Second,
		MaxRetries: o.number("max_retries"), MaxRetriesDown: o.number("max_retries_down"), Method: o.text("http_method"),
		Path: o.text("url_path"), ExpectedCodes: o.text("expected_codes"), HTTPVersion: version,
		DomainName: o.text("domain_name"),
	}
}

func (s *Service) memberSpec(o *object) plane.Member {
	at := endpointOf(o.Attrs)
	monitor, _ := netip.ParseAddr(o.text("monitor_address")) // empty: the member's own
	forced := s.forced[o.ID]
	return plane.Member{
		ID: o.ID, Address: at.address, Port: uint16(at.port), Weight: o.number("weight"), Backup: o.flag("backup"),
		AdminUp:        o.flag("admin_state_up") && forced != failed && forced != offline,
		MonitorAddress: monitor, MonitorPort: uint16(o.number("monitor_port")),
	}
}
