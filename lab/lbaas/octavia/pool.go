package octavia

import (
	"net/http"
	"regexp"
)

func (s *Service) draftPool(c *call, sent map[string]any) (*draft, error) {
	attrs := s.kinds[kindPool].post.fill(sent)
	protocol := attrs["protocol"].(string)
	if err := validatePersistenceOf(attrs["session_persistence"], protocol); err != nil {
		return nil, err
	}
	lb, listener, err := s.poolParent(attrs)
	if err != nil {
		return nil, err
	}
	if err := c.who.permit(actWrite, lb.Project); err != nil {
		return nil, err
	}
	if err := validatePool(attrs); err != nil {
		return nil, err
	}
	if err := s.supports(lb, protocol); err != nil {
		return nil, err
	}
	d := &draft{lb: lb, parent: lb.ID, attrs: attrs}
	if listener == nil {
		return d, nil
	}
	if listener.text("default_pool_id") != "" {
		return nil, fault(http.StatusConflict, "This listener already has a default pool")
	}
	d.touched = []*object{listener}
	d.link = func(pool *object) { s.db.edit(listener).Attrs["default_pool_id"] = pool.ID }
	return d, nil
}

// poolParent finds where a pool hangs: a balancer, or the balancer of the listener it becomes the default of.
func (s *Service) poolParent(attrs map[string]any) (lb, listener *object, err error) {
	lbID, _ := attrs["loadbalancer_id"].(string)
	listenerID, _ := attrs["listener_id"].(string)
	if lbID == "" && listenerID == "" {
		return nil, nil, validation("Must provide at least one of: loadbalancer_id, listener_id")
	}
	if listenerID != "" {
		if listener = s.db.get(kindListener, listenerID); listener == nil {
			return nil, nil, notFound("Listener", listenerID)
		}
		if err := matchProtocols(listener.text("protocol"), attrs["protocol"].(string)); err != nil {
			return nil, nil, err
		}
		if lbID == "" {
			lbID = listener.Balancer
		}
	}
	if lb = s.db.get(kindBalancer, lbID); lb == nil {
		return nil, nil, notFound("Load Balancer", lbID)
	}
	if listener != nil && listener.Balancer != lb.ID {
		return nil, nil, notFound("Listener", listenerID)
	}
	return lb, listener, nil
}

// validatePersistenceOf looks at a session_persistence for pools of a protocol.
func validatePersistenceOf(v any, protocol string) error {
	sticky, _ := v.(map[string]any)
	if sticky == nil {
		return nil
	}
	if protocol != "UDP" && protocol != "SCTP" {
		if sticky["persistence_timeout"] != nil || sticky["persistence_granularity"] != nil {
			return validation("persistence_timeout and persistence_granularity is only for UDP and SCTP protocol pools.")
		}
		return nil
	}
	if sticky["cookie_name"] != nil {
		if sticky["type"] == "SOURCE_IP" {
			return validation("session_persistence SOURCE_IP type for %s protocol only accepts: type, persistence_timeout, persistence_granularity.", protocol)
		}
		return validation("Cookie names are not supported for UDP/SCTP pools.")
	}
	if sticky["type"] != "SOURCE_IP" {
		return validation("Session persistence of type %s is not supported for %s protocol pools.", pyStr(sticky["type"]), protocol)
	}
	return nil
}

// validatePool looks at the rest of a pool.
func validatePool(attrs map[string]any) error {
	if set(attrs, "crl_container_ref") && !set(attrs, "ca_tls_container_ref") {
		return validation("A CA certificate reference is required to specify a revocation list.")
	}
	return validateCookie(attrs["session_persistence"])
}

func set(attrs map[string]any, name string) bool {
	s, _ := attrs[name].(string)
	return s != ""
}

func validateCookie(v any) error {
	sticky, _ := v.(map[string]any)
	if sticky == nil {
		return nil
	}
	name, _ := sticky["cookie_name"].(string)
	switch app := sticky["type"] == "APP_COOKIE"; {
	case name != "" && !app:
		return validation(`Field "cookie_name" can only be specified with session persistence of type "APP_COOKIE".`)
	case badCookie().MatchString(name):
		return validation(`Supplied "cookie_name" is invalid.`)
	case app && name == "":
		return validation(`Field "cookie_name" must be specified when using the "APP_COOKIE" session persistence type.`)
	}
	return nil
}

func badCookie() *regexp.Regexp {
	return regexp.MustCompile(`[\x00-\x20\x22\x28-\x29\x2c\x2f\x3a-\x40\x5b-\x5d\x7b\x7d\x7f]+`)
}

// validateUpdate looks at what changes of an object.
func (s *Service) validateUpdate(lb, o *object, sent map[string]any) error {
	switch o.Kind {
	case kindListener:
		return s.validateListenerUpdate(lb, o, sent)
	case kindPool:
		if err := validatePersistenceOf(sent["session_persistence"], o.text("protocol")); err != nil {
			return err
		}
		return validatePool(merge(o.Attrs, sent))
	case kindMonitor:
		return validateMonitorUpdate(o, sent)
	case kindPolicy:
		return s.validatePolicyUpdate(lb, o, sent)
	case kindRule:
		return validateRule(merge(o.Attrs, sent))
	}
	return nil
}
