package octavia

import (
	"net/http"
	"slices"
)

func (s *Service) draftMonitor(c *call, sent map[string]any) (*draft, error) {
	id := sent["pool_id"].(string)
	pool := s.db.get(kindPool, id)
	if pool == nil {
		return nil, notFound("Pool", id)
	}
	if err := c.who.permit(actWrite, pool.Project); err != nil {
		return nil, err
	}
	lb := s.db.get(kindBalancer, pool.Balancer)
	if p, err := s.providerLocked(lb.text("provider")); err != nil {
		return nil, err
	} else if p.NoMonitors {
		return nil, unsupportedAction(p.Name, "This provider does not support creating health monitors.")
	}
	attrs := s.kinds[kindMonitor].post.fill(sent)
	if err := matchMonitor(attrs, pool.text("protocol")); err != nil {
		return nil, err
	}
	d := &draft{lb: lb, parent: pool.ID, attrs: attrs, locked: pool,
		touched: append([]*object{pool}, s.db.listenersOf(pool)...)}
	d.late = func() error {
		if err := validateMonitor(attrs); err != nil {
			return err
		}
		if s.db.monitorOf(pool.ID) != nil {
			return fault(http.StatusConflict, "This pool already has a health monitor")
		}
		return nil
	}
	return d, nil
}

// matchMonitor says whether pools of a protocol can be asked that way.
func matchMonitor(attrs map[string]any, protocol string) error {
	kind, _ := attrs["type"].(string)
	if protocol != "UDP" && protocol != "SCTP" {
		if kind == "UDP-CONNECT" || kind == "SCTP" {
			return validation("The %s type is only supported for pools of type UDP/SCTP.", kind)
		}
		return nil
	}
	if !slices.Contains([]string{"UDP-CONNECT", "SCTP", "TCP", "HTTP"}, kind) {
		return validation("The associated pool protocol is %s, so only a UDP-CONNECT/SCTP/TCP/HTTP health monitor is supported.", protocol)
	}
	const least = 3 // seconds: a refusal takes a while to come back
	if delay, _ := attrs["delay"].(int); kind == "UDP-CONNECT" && delay < least {
		return validation("The request delay value %d should be larger than %d for %s health monitor type.", delay, least, kind)
	}
	return nil
}

// validateMonitor looks at a whole monitor, and fills what HTTP ones need.
func validateMonitor(attrs map[string]any) error {
	kind, _ := attrs["type"].(string)
	defaults := map[string]any{"http_method": "GET", "url_path": "/", "expected_codes": "200"}
	for _, name := range []string{"http_method", "url_path", "expected_codes"} {
		switch http := kind == "HTTP" || kind == "HTTPS"; {
		case http && !set(attrs, name):
			attrs[name] = defaults[name]
		case !http && set(attrs, name):
			return invalidOption(name, "health monitors of type "+kind)
		}
	}
	version := pyStr(attrs["http_version"])
	if attrs["http_version"] != nil && version != "1.0" && version != "1.1" {
		return invalidInput("http_version", version, "Value should be one of: 1.0, 1.1")
	}
	if !set(attrs, "domain_name") {
		return nil
	}
	if attrs["http_version"] == nil {
		return validation("'http_version' must be specified when 'domain_name' is provided.")
	}
	if version == "1.0" {
		return invalidOption("http_version "+version, "health monitors HTTP 1.1 domain name health check")
	}
	return nil
}

func validateMonitorUpdate(o *object, sent map[string]any) error {
	for _, name := range []string{"delay", "timeout", "max_retries"} {
		if v, there := sent[name]; there && v == nil {
			return invalidOption(nil, name)
		}
	}
	whole := merge(o.Attrs, sent)
	if err := validateMonitor(whole); err != nil {
		return err
	}
	for _, name := range []string{"http_method", "url_path", "expected_codes"} {
		if _, there := sent[name]; there {
			sent[name] = whole[name] // a null goes back to the default
		}
	}
	return nil
}
