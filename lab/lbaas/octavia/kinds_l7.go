package octavia

func policyBody() class {
	const last = 2147483647
	return append(common(), class{
		{name: "action", required: true,
			check: oneOf("REJECT", "REDIRECT_TO_URL", "REDIRECT_TO_POOL", "REDIRECT_PREFIX")},
		{name: "redirect_pool_id", check: isID},
		{name: "redirect_url", check: isURL},
		{name: "redirect_prefix", check: isURL},
		{name: "position", check: integer(1, last), def: last},
		{name: "listener_id", check: isID, required: true},
		tags(),
		{name: "redirect_http_code", check: oneOfNumbers(301, 302, 303, 307, 308)},
	}...)
}

func policyKind() *kind {
	rule := ruleKind().post.without("project_id", "tenant_id")
	body := policyBody()
	put := optional(body.without("listener_id"))
	body = append(body, attr{name: "rules", check: nested(&rule, true)})
	return &kind{
		name: kindPolicy, plural: "l7policies", title: "L7 Policy", argument: "l7policy_", parent: kindListener,
		post: append(body, ownership()...),
		put:  put,
		show: []string{"id", "name", "description", "provisioning_status", "operating_status", "admin_state_up",
			"project_id", "action", "listener_id", "redirect_pool_id", "redirect_url", "redirect_prefix", "position",
			"rules", "created_at", "updated_at", "tags", "redirect_http_code", "tenant_id"},
	}
}

// treePolicy is a policy within the creation of a balancer: its pool has a name there, no ID yet.
func treePolicy() class {
	pool := treePool()
	rule := ruleKind().post.without("project_id", "tenant_id")
	return append(policyBody().without("listener_id", "redirect_pool_id"), class{
		{name: "redirect_pool", check: nested(&pool, false)},
		{name: "rules", check: nested(&rule, true)},
	}...)
}

func ruleKind() *kind {
	post := class{
		{name: "type", required: true, check: oneOf("HOST_NAME", "PATH", "FILE_TYPE", "HEADER", "COOKIE",
			"SSL_CONN_HAS_CERT", "SSL_VERIFY_RESULT", "SSL_DN_FIELD")},
		{name: "compare_type", required: true, check: oneOf("REGEX", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "EQUAL_TO")},
		{name: "key", check: pattern(`^[^\r\n]*$`)},
		{name: "value", check: pattern(`^[^\r\n]*$`), required: true},
		{name: "invert", check: isBool, def: false},
		{name: "admin_state_up", check: isBool, def: true},
		tags(),
	}
	put := optional(post)
	return &kind{
		name: kindRule, plural: "rules", title: "L7 Rule", argument: "l7rule_", parent: kindPolicy,
		post: append(post, ownership()...),
		put:  put,
		show: []string{"id", "type", "compare_type", "key", "value", "invert", "provisioning_status",
			"operating_status", "created_at", "updated_at", "project_id", "admin_state_up", "tags", "tenant_id"},
	}
}

func flavorKind() *kind {
	post := class{
		{name: "name", check: text(255), required: true},
		{name: "description", check: text(255), def: ""},
		{name: "flavor_profile_id", check: isID, required: true},
		{name: "enabled", check: isBool, def: true},
	}
	return &kind{
		name: kindFlavor, plural: "flavors", title: "Flavor", argument: "flavor_", flat: true,
		post: post, put: optional(post.without("flavor_profile_id")),
		show: []string{"id", "name", "description", "enabled", "flavor_profile_id"},
	}
}

func flavorProfileKind() *kind {
	post := class{
		{name: "name", check: text(255), required: true},
		{name: "provider_name", check: text(255), required: true},
		{name: "flavor_data", check: text(4096), required: true},
	}
	return &kind{
		name: kindFlavorProfile, plural: "flavorprofiles", title: "Flavor Profile", argument: "flavor_profile_", flat: true,
		post: post, put: optional(post),
		show: []string{"id", "name", "provider_name", "flavor_data"},
	}
}

func zoneKind() *kind {
	post := class{
		{name: "name", check: text(255), required: true},
		{name: "description", check: text(255), def: ""},
		{name: "availability_zone_profile_id", check: isID, required: true},
		{name: "enabled", check: isBool, def: true},
	}
	return &kind{
		name: kindZone, plural: "availability_zones", title: "Availability Zone", argument: "availability_zone_", flat: true,
		post: post, put: optional(post.without("name", "availability_zone_profile_id")),
		show: []string{"name", "description", "enabled", "availability_zone_profile_id"},
	}
}

func zoneProfileKind() *kind {
	post := class{
		{name: "name", check: text(255), required: true},
		{name: "provider_name", check: text(255), required: true},
		{name: "availability_zone_data", check: text(4096), required: true},
	}
	return &kind{
		name: kindZoneProfile, plural: "availability_zone_profiles", title: "Availability Zone Profile",
		argument: "availability_zone_profile_", flat: true,
		post: post, put: optional(post),
		show: []string{"id", "name", "provider_name", "availability_zone_data"},
	}
}

// optional gives the class with nothing required.
func optional(c class) class {
	out := c.without()
	for i := range out {
		out[i].required = false
	}
	return out
}
