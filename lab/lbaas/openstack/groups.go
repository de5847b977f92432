package openstack

import (
	"net/http"
	"slices"
	"strconv"
)

func groupKind() *kind {
	return &kind{
		name: "security_group", plural: "security_groups", missing: "SecurityGroupNotFound", missingText: "Security group %s does not exist",
		attrs: standard(attr{name: "stateful", check: isBool, value: true}),
		create: func(c *Cloud, _ Identity, it item) error {
			if it.text("name") == "default" {
				return problemf(http.StatusConflict, "SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
			}
			it["shared"] = false
			c.egress(it)
			return nil
		},
		update: func(_ *Cloud, _ Identity, old, now, _ item) error {
			if old.text("name") == "default" && now.text("name") != "default" {
				return problemf(http.StatusConflict, "SecurityGroupCannotUpdateDefault", "Updating default security group not allowed.")
			}
			return nil
		},
		remove: removeGroup,
		view: func(c *Cloud, it item) item {
			return item{"security_group_rules": slices.Concat([]item{}, c.rulesOf(it.text("id")))}
		},
	}
}

func (c *Cloud) rulesOf(group string) []item {
	return c.tables["security_group_rule"].where(func(r item) bool { return r.text("security_group_id") == group })
}

// egress lets out everything, as in each new group.
func (c *Cloud) egress(group item) {
	for _, family := range []string{"IPv4", "IPv6"} {
		c.addRule(group, item{"direction": "egress", "ethertype": family})
	}
}

func (c *Cloud) addRule(group, values item) {
	rule := item{
		"id": newID(), "name": "", "description": "", "protocol": nil, "port_range_min": nil, "port_range_max": nil, "remote_ip_prefix": nil,
		"remote_group_id": nil, "remote_address_group_id": nil, "security_group_id": group["id"], "project_id": group["project_id"],
		"tenant_id": group["tenant_id"], "created_at": group["created_at"], "updated_at": group["created_at"], "revision_number": 0, "tags": []any{},
		"normalized_cidr": nil,
	}
	c.tables["security_group_rule"].put(rule.with(values))
}

// defaultGroup is the one that a project's ports have unless they say otherwise.
func (c *Cloud) defaultGroup(project string) string {
	for g := range c.tables["security_group"].all {
		if g.text("project_id") == project && g.text("name") == "default" {
			return g.text("id")
		}
	}
	it, err := c.make(c.kindOf("security_group"), item{"name": "default", "description": "Default security group"}, Identity{ProjectID: project})
	if err != nil { // it is as the kind wants
		return ""
	}
	it["shared"] = false
	c.egress(it)
	for _, family := range []string{"IPv4", "IPv6"} {
		c.addRule(it, item{"direction": "ingress", "ethertype": family, "remote_group_id": it["id"]})
	}
	c.tables["security_group"].put(it)
	return it.text("id")
}

func removeGroup(c *Cloud, who Identity, it item) error {
	if it.text("name") == "default" && !who.Admin() {
		return problemf(http.StatusConflict, "SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group.")
	}
	for p := range c.tables["port"].all {
		if slices.Contains(p.texts("security_groups"), it.text("id")) {
			return problemf(http.StatusConflict, "SecurityGroupInUse", "Security Group %s in use.", it.text("id"))
		}
	}
	for _, r := range c.tables["security_group_rule"].where(func(r item) bool {
		return r.text("security_group_id") == it.text("id") || r.text("remote_group_id") == it.text("id")
	}) {
		c.tables["security_group_rule"].remove(r.text("id"))
	}
	return nil
}

// knownGroups checks that a port's groups exist.
func (c *Cloud) knownGroups(port item) error {
	for _, id := range port.texts("security_groups") {
		if _, ok := c.tables["security_group"].items[id]; !ok {
			return c.kindOf("security_group").notFound(id)
		}
	}
	return nil
}

func ruleKind() *kind {
	attrs := []attr{
		{name: "security_group_id", check: isUUID, required: true},
		{name: "direction", check: isOneOf("ingress", "egress"), required: true},
		{name: "ethertype", check: isOneOf("IPv4", "IPv6"), value: "IPv4"},
		{name: "protocol", check: orNull(isProtocol)},
		{name: "port_range_min", check: orNull(isInt(0, 65535))},
		{name: "port_range_max", check: orNull(isInt(0, 65535))},
		{name: "remote_ip_prefix", check: orNull(isPrefix)},
		{name: "remote_group_id", check: orNull(isUUID)},
		{name: "remote_address_group_id", check: orNull(isUUID)},
	}
	for i := range attrs {
		attrs[i].fixed = true
	}
	return &kind{
		name: "security_group_rule", plural: "security_group_rules", missing: "SecurityGroupRuleNotFound", missingText: "Security group rule %s does not exist",
		attrs:  append(attrs, attr{name: "description", check: isText(255), value: ""}),
		create: createRule,
	}
}

func createRule(c *Cloud, who Identity, it item) error {
	groups := c.kindOf("security_group")
	if _, err := c.find(groups, who, it.text("security_group_id")); err != nil {
		return err
	}
	if id := it.text("remote_group_id"); id != "" {
		if it["remote_ip_prefix"] != nil {
			return badRequest("Only remote_ip_prefix or remote_group_id may be provided.")
		}
		if _, err := c.find(groups, who, id); err != nil {
			return err
		}
	}
	low, ok1 := number(it["port_range_min"])
	high, ok2 := number(it["port_range_max"])
	switch {
	case (ok1 || ok2) && it["protocol"] == nil:
		return badRequest("Must also specify protocol if port range is given.")
	case ok1 && ok2 && low > high && it["protocol"] != "icmp" && it["protocol"] != "ipv6-icmp":
		return badRequest("For TCP/UDP protocols, port_range_min must be <= port_range_max")
	}
	it["normalized_cidr"] = it["remote_ip_prefix"]
	for _, other := range c.rulesOf(it.text("security_group_id")) {
		if sameRule(it, other) {
			return problemf(http.StatusConflict, "SecurityGroupRuleExists", "Security group rule already exists. Rule id is %s.", other.text("id"))
		}
	}
	return nil
}

func sameRule(a, b item) bool {
	for _, key := range []string{"direction", "ethertype", "protocol", "remote_ip_prefix", "remote_group_id", "remote_address_group_id"} {
		if a[key] != b[key] {
			return false
		}
	}
	for _, key := range []string{"port_range_min", "port_range_max"} {
		x, has := number(a[key])
		y, hasToo := number(b[key])
		if x != y || has != hasToo {
			return false
		}
	}
	return true
}

var protocols = []string{"ah", "dccp", "egp", "esp", "gre", "icmp", "icmpv6", "igmp", "ipip", "ipv6-encap", "ipv6-frag", "ipv6-icmp", "ipv6-nonxt",
	"ipv6-opts", "ipv6-route", "ospf", "pgm", "rsvp", "sctp", "tcp", "udp", "udplite", "vrrp", "any"}

func isProtocol(v any) (any, error) {
	if s, ok := v.(string); ok && slices.Contains(protocols, s) {
		if s == "any" {
			return nil, nil
		}
		return s, nil
	}
	n, err := isInt(0, 255)(v)
	if err != nil {
		return nil, err
	}
	i, _ := number(n)
	return strconv.Itoa(i), nil
}
