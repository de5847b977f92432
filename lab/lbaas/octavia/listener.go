package octavia

import (
	"net/http"
	"net/netip"
	"slices"
	"sort"
)

func (s *Service) draftListener(c *call, sent map[string]any) (*draft, error) {
	lbID := sent["loadbalancer_id"].(string)
	lb := s.db.get(kindBalancer, lbID)
	if lb == nil {
		return nil, notFound("Load Balancer", lbID)
	}
	if err := c.who.permit(actWrite, lb.Project); err != nil {
		return nil, err
	}
	if sent["default_pool"] != nil || listSize(sent["l7policies"]) > 0 {
		return nil, validation("default_pool and l7policies are only accepted when creating a fully populated loadbalancer.")
	}
	if err := s.supports(lb, sent["protocol"].(string)); err != nil {
		return nil, err
	}
	attrs := s.kinds[kindListener].post.fill(sent)
	if err := s.defaultPool(lb, attrs["protocol"].(string), attrs["default_pool_id"]); err != nil {
		return nil, err
	}
	d := &draft{lb: lb, parent: lb.ID, attrs: attrs}
	d.late = func() error { return validateListener(attrs, lb.VIPs, s.db.below(lb.ID, kindListener)) }
	return d, nil
}

// supports says whether a balancer's driver can carry a protocol.
func (s *Service) supports(lb *object, protocol string) error {
	p, err := s.providerLocked(lb.text("provider"))
	if err != nil {
		return err
	}
	if protocol == "UDP" && p.NoUDP {
		return unsupportedOption(p.Name, "protocol UDP is not supported.")
	}
	return nil
}

// defaultPool says whether a listener of that protocol may have that pool.
func (s *Service) defaultPool(lb *object, protocol string, pool any) error {
	id, ok := pool.(string)
	if !ok {
		return nil
	}
	p := s.db.get(kindPool, id)
	if p == nil || p.Balancer != lb.ID {
		return notFound("Pool", id)
	}
	return matchProtocols(protocol, p.text("protocol"))
}

// matchProtocols says whether a listener of one protocol may send to a pool of another.
func matchProtocols(listener, pool string) error {
	valid := map[string][]string{
		"TCP":              {"HTTP", "HTTPS", "PROXY", "PROXYV2", "TCP"},
		"HTTP":             {"HTTP", "PROXY", "PROXYV2"},
		"HTTPS":            {"HTTPS", "PROXY", "PROXYV2", "TCP"},
		"TERMINATED_HTTPS": {"HTTP", "PROXY", "PROXYV2"},
		"UDP":              {"UDP"},
		"SCTP":             {"SCTP"},
		"PROMETHEUS":       {},
	}
	if !slices.Contains(valid[listener], pool) {
		return validation("The pool protocol '%s' is invalid while the listener protocol is '%s'.", pool, listener)
	}
	return nil
}

// transport is what a listener's port is taken from.
func transport(protocol string) string {
	switch protocol {
	case "UDP", "SCTP":
		return protocol
	}
	return "TCP"
}

// validateListener looks at a whole new listener, beside those that the balancer has.
func validateListener(attrs map[string]any, vips []VIP, others []*object) error {
	protocol, _ := attrs["protocol"].(string)
	if err := validateHeaders(attrs["insert_headers"], protocol); err != nil {
		return err
	}
	if err := validateTLS(attrs, protocol); err != nil {
		return err
	}
	port, _ := attrs["protocol_port"].(int)
	for _, o := range others {
		if o.number("protocol_port") == port && transport(o.text("protocol")) == transport(protocol) {
			return fault(http.StatusConflict, "Another Listener on this Load Balancer is already using protocol %s and protocol_port %d",
				o.text("protocol"), port)
		}
	}
	return validateCIDRs(attrs["allowed_cidrs"], vips)
}

func validateHeaders(headers any, protocol string) error {
	m, _ := headers.(map[string]any)
	if len(m) == 0 {
		return nil
	}
	if protocol != "HTTP" && protocol != "TERMINATED_HTTPS" {
		return invalidOption("insert-headers", "a "+protocol+" protocol listener.")
	}
	plain := []string{"X-Forwarded-For", "X-Forwarded-Port", "X-Forwarded-Proto"}
	var names, ssl []string
	for name := range m {
		names = append(names, name)
		if slices.Contains(sslHeaders(), name) {
			ssl = append(ssl, name)
		}
	}
	sort.Strings(names)
	sort.Strings(ssl)
	for _, name := range names {
		if !slices.Contains(plain, name) && !slices.Contains(sslHeaders(), name) {
			return invalidOption(names, "insert_headers")
		}
	}
	if protocol == "HTTP" && len(ssl) > 0 {
		return invalidOption(ssl, protocol+" protocol listener.")
	}
	for _, name := range names {
		if v, _ := m[name].(string); v != "true" && v != "True" && v != "false" && v != "False" {
			return invalidOption(m[name], name)
		}
	}
	return nil
}

func sslHeaders() []string {
	return []string{"X-SSL-Client-Verify", "X-SSL-Client-Has-Cert", "X-SSL-Client-DN", "X-SSL-Client-CN", "X-SSL-Issuer",
		"X-SSL-Client-SHA1", "X-SSL-Client-Not-Before", "X-SSL-Client-Not-After"}
}

func validateTLS(attrs map[string]any, protocol string) error {
	set := func(name string) bool { s, _ := attrs[name].(string); return s != "" }
	sni, _ := attrs["sni_container_refs"].([]string)
	base := set("default_tls_container_ref") || len(sni) > 0
	ca := set("client_ca_tls_container_ref")
	auth, _ := attrs["client_authentication"].(string)
	switch {
	case (protocol == "UDP" || protocol == "SCTP") && (base || ca):
		return validation("%s protocol listener does not support TLS.", protocol)
	case protocol != "TERMINATED_HTTPS" && (base || ca):
		return validation("Certificate container references are only allowed on TERMINATED_HTTPS protocol listeners.")
	case ca && !base:
		return validation("An SNI or default certificate container reference must be provided with a client CA container reference.")
	case protocol == "TERMINATED_HTTPS" && !base:
		return validation("An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners.")
	case auth != "" && auth != "NONE" && !ca:
		return validation("Client authentication setting %s requires a client CA container reference.", auth)
	case set("client_crl_container_ref") && !ca:
		return validation("A client authentication CA reference is required to specify a client authentication revocation list.")
	}
	return nil
}

// validateCIDRs wants every range in the family of one of the VIPs.
func validateCIDRs(cidrs any, vips []VIP) error {
	list, _ := cidrs.([]string)
	for _, one := range list {
		p, err := netip.ParsePrefix(one)
		fits := err == nil && slices.ContainsFunc(vips, func(v VIP) bool { return v.Address.Is4() == p.Addr().Is4() })
		if !fits && len(vips) > 0 {
			return validation("CIDR %s IP version incompatible with VIP %s IP version.", one, vips[0].Address)
		}
	}
	return nil
}

// validateListenerUpdate looks at what changes, over what is there.
func (s *Service) validateListenerUpdate(lb, o *object, sent map[string]any) error {
	whole := merge(o.Attrs, sent)
	protocol := o.text("protocol")
	if err := validateHeaders(sent["insert_headers"], protocol); err != nil {
		return err
	}
	if err := validateTLS(whole, protocol); err != nil {
		return err
	}
	if err := validateCIDRs(sent["allowed_cidrs"], lb.VIPs); err != nil {
		return err
	}
	return s.defaultPool(lb, protocol, sent["default_pool_id"])
}

func merge(have, sent map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range have {
		out[name] = v
	}
	for name, v := range sent {
		out[name] = v
	}
	return out
}

// listSize counts the objects of a nested list.
func listSize(v any) int {
	l, _ := v.([]map[string]any)
	return len(l)
}
