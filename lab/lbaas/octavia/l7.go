package octavia

import (
	"net/http"
	"regexp"
	"slices"
)

func (s *Service) draftPolicy(c *call, sent map[string]any) (*draft, error) {
	attrs := s.kinds[kindPolicy].post.fill(sent)
	if id, ok := attrs["redirect_pool_id"].(string); ok && s.db.get(kindPool, id) == nil {
		return nil, notFound("Pool", id)
	}
	listenerID := attrs["listener_id"].(string)
	listener := s.db.get(kindListener, listenerID)
	if listener == nil {
		return nil, notFound("Listener", listenerID)
	}
	if err := c.who.permit(actWrite, listener.Project); err != nil {
		return nil, err
	}
	lb := s.db.get(kindBalancer, listener.Balancer)
	if err := s.validatePolicy(lb, listener, attrs); err != nil {
		return nil, err
	}
	rules, _ := attrs["rules"].([]map[string]any)
	for i, r := range rules {
		rules[i] = s.kinds[kindRule].post.fill(r)
		if err := validateRule(rules[i]); err != nil {
			return nil, err
		}
	}
	if err := s.admit(s.kinds[kindRule], lb.Project, len(rules)); err != nil {
		return nil, err
	}
	d := &draft{lb: lb, parent: listener.ID, attrs: attrs, touched: []*object{listener}}
	d.link = func(policy *object) {
		for _, r := range rules {
			s.insert(s.kinds[kindRule], lb, policy.ID, r)
		}
		s.place(listener.ID, policy.ID)
	}
	return d, nil
}

// validatePolicy makes a policy consistent: what its action does not use is emptied.
func (s *Service) validatePolicy(lb, listener *object, attrs map[string]any) error {
	if p := listener.text("protocol"); p != "HTTP" && p != "TERMINATED_HTTPS" {
		return validation("L7 policies are only supported on HTTP and TERMINATED_HTTPS listeners, not on %s.", p)
	}
	if err := cleanPolicy(attrs); err != nil {
		return err
	}
	id, ok := attrs["redirect_pool_id"].(string)
	if !ok {
		return nil
	}
	pool := s.db.get(kindPool, id)
	if pool == nil || pool.Balancer != lb.ID {
		return notFound("Pool", id)
	}
	return matchProtocols(listener.text("protocol"), pool.text("protocol"))
}

func cleanPolicy(attrs map[string]any) error {
	needs := map[string]string{"REDIRECT_TO_POOL": "redirect_pool_id", "REDIRECT_TO_URL": "redirect_url",
		"REDIRECT_PREFIX": "redirect_prefix"}
	act, _ := attrs["action"].(string)
	need := needs[act]
	if need != "" && attrs[need] == nil {
		if need == "redirect_pool_id" {
			need = "redirect_pool_id or redirect_pool"
		}
		return fault(http.StatusBadRequest, "Invalid L7 Policy arguments: %s must not be None", need)
	}
	for _, name := range needs {
		if name != need {
			attrs[name] = nil
		}
	}
	switch redirects := act == "REDIRECT_TO_URL" || act == "REDIRECT_PREFIX"; {
	case redirects && attrs["redirect_http_code"] == nil:
		attrs["redirect_http_code"] = 302
	case !redirects:
		attrs["redirect_http_code"] = nil
	}
	return nil
}

func (s *Service) validatePolicyUpdate(lb, o *object, sent map[string]any) error {
	if len(sent) == 0 {
		return fault(http.StatusBadRequest, "Invalid L7 Policy arguments: Invalid update options")
	}
	if v, there := sent["action"]; there && v == nil {
		return fault(http.StatusBadRequest, "Invalid L7 Policy action specified: None")
	}
	whole := merge(o.Attrs, sent)
	if err := s.validatePolicy(lb, s.db.get(kindListener, o.Parent), whole); err != nil {
		return err
	}
	for _, name := range []string{"redirect_pool_id", "redirect_url", "redirect_prefix", "redirect_http_code"} {
		sent[name] = whole[name] // what the action does not use is emptied
	}
	return nil
}

// place numbers a listener's policies from 1 on without gaps; one that is new or has moved ("": none) comes ahead of
// the one that had its position.
func (s *Service) place(listener, moved string) {
	policies := s.db.policiesOf(listener)
	if at := slices.IndexFunc(policies, func(p *object) bool { return p.ID == moved }); at >= 0 {
		p := policies[at]
		policies = slices.Delete(policies, at, at+1)
		policies = slices.Insert(policies, min(p.number("position")-1, len(policies)), p)
	}
	for i, p := range policies {
		if p.number("position") != i+1 {
			s.db.edit(p).Attrs["position"] = i + 1
		}
	}
	s.dirty()
}

func (s *Service) draftRule(c *call, sent map[string]any) (*draft, error) {
	policy := s.db.get(kindPolicy, c.parent)
	if policy == nil {
		return nil, lookupFailed("L7Policy", c.parent)
	}
	if err := c.who.permit(actWrite, policy.Project); err != nil {
		return nil, err
	}
	attrs := s.kinds[kindRule].post.fill(sent)
	if err := validateRule(attrs); err != nil {
		return nil, err
	}
	const most = 50
	d := &draft{lb: s.db.get(kindBalancer, policy.Balancer), parent: policy.ID, attrs: attrs, locked: policy,
		touched: []*object{policy, s.db.get(kindListener, policy.Parent)}}
	d.late = func() error {
		if len(s.db.below(policy.ID, kindRule)) >= most {
			return fault(http.StatusConflict, "Too many rules on L7 policy %s", policy.ID)
		}
		return nil
	}
	return d, nil
}

// validateRule looks at a whole rule.
func validateRule(attrs map[string]any) error {
	bad := func(why string) error { return validation("Invalid L7 Rule: %s", why) }
	kind, compare := pyStr(attrs["type"]), pyStr(attrs["compare_type"])
	value, _ := attrs["value"].(string)
	for _, name := range []string{"type", "compare_type", "value"} {
		if attrs[name] == nil {
			return bad(name + " must not be None")
		}
	}
	keyed := kind == "HEADER" || kind == "COOKIE" || kind == "SSL_DN_FIELD"
	if keyed && !set(attrs, "key") {
		return bad("L7 rule type requires a key")
	}
	if key, _ := attrs["key"].(string); keyed && !headerName().MatchString(key) {
		return validation("Invalid characters in key")
	}
	allowed := map[string][]string{
		"FILE_TYPE":         {"REGEX", "EQUAL_TO"},
		"SSL_CONN_HAS_CERT": {"EQUAL_TO"},
		"SSL_VERIFY_RESULT": {"EQUAL_TO"},
	}[kind]
	if allowed != nil && !slices.Contains(allowed, compare) {
		return bad("invalid comparison type for rule type")
	}
	if compare == "REGEX" {
		if _, err := regexp.Compile(value); err != nil {
			return validation("Unable to parse regular expression: %s", err)
		}
		return nil
	}
	if !headerValue().MatchString(value) {
		return validation("Invalid characters in comparison value")
	}
	return nil
}

func headerName() *regexp.Regexp { return regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+.^_`|~-]+$") }
func headerValue() *regexp.Regexp {
	return regexp.MustCompile(`^[\x21-\x7e]+$|^"[\x20\x21\x23-\x7e]*"$`)
}
