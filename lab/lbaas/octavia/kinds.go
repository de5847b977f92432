package octavia

// kind describes one sort of object: how it is called, what may be sent and what is answered.
type kind struct {
	name     string // its key in a body
	plural   string // the key of a list
	title    string // its name in messages
	argument string // the name of a body in messages
	parent   string // what loses it when it goes; "": nothing
	post     class
	put      class
	// show is the order of an answer's keys. Keys that are no attributes are computed by render.go.
	show []string
	flat bool // has no states: flavors and zones
}

const (
	kindBalancer = "loadbalancer"
	kindListener = "listener"
	kindPool     = "pool"
	kindMember   = "member"
	kindMonitor  = "healthmonitor"
	kindPolicy   = "l7policy"
	kindRule     = "rule"

	kindFlavor        = "flavor"
	kindFlavorProfile = "flavorprofile"
	kindZone          = "availability_zone"
	kindZoneProfile   = "availability_zone_profile"
)

// kinds are all of them. The tables are values of functions, not variables: nobody can change them.
func kinds() map[string]*kind {
	all := []*kind{balancerKind(), listenerKind(), poolKind(), memberKind(), monitorKind(), policyKind(), ruleKind(),
		flavorKind(), flavorProfileKind(), zoneKind(), zoneProfileKind()}
	byName := make(map[string]*kind, len(all))
	for _, k := range all {
		byName[k.name] = k
	}
	return byName
}

// common are the attributes of everything that has a name.
func common() class {
	return class{
		{name: "name", check: text(255), def: ""},
		{name: "description", check: text(255), def: ""},
		{name: "admin_state_up", check: isBool, def: true},
	}
}

func ownership() class {
	return class{
		{name: "project_id", check: text(36)},
		{name: "tenant_id", check: text(36)},
	}
}

func tags() attr { return attr{name: "tags", check: listOf(text(255)), def: []string{}} }

func balancerKind() *kind {
	vip := class{
		{name: "subnet_id", check: isID, required: true},
		{name: "ip_address", check: isAddress},
	}
	listener := listenerKind().post.without("loadbalancer_id", "project_id", "tenant_id")
	pool := treePool()
	post := append(common(), class{
		{name: "vip_address", check: isAddress},
		{name: "vip_port_id", check: isID},
		{name: "vip_subnet_id", check: isID},
		{name: "vip_network_id", check: isID},
		{name: "additional_vips", check: nested(&vip, true)},
		{name: "vip_qos_policy_id", check: isID},
		{name: "listeners", check: nested(&listener, true)},
		{name: "pools", check: nested(&pool, true)},
		{name: "provider", check: text(255)},
		tags(),
		{name: "flavor_id", check: isID},
		{name: "availability_zone", check: text(255)},
	}...)
	return &kind{
		name: kindBalancer, plural: "loadbalancers", title: "Load Balancer", argument: "load_balancer",
		post: append(post, ownership()...),
		put:  append(common(), attr{name: "vip_qos_policy_id", check: isID}, tags()),
		show: []string{"id", "name", "description", "provisioning_status", "operating_status", "admin_state_up",
			"project_id", "created_at", "updated_at", "vip_address", "vip_port_id", "vip_subnet_id", "vip_network_id",
			"additional_vips", "listeners", "pools", "provider", "flavor_id", "vip_qos_policy_id", "tags",
			"availability_zone", "tenant_id"},
	}
}

// The words of these lists come in the order in which the recorded service gives them.
func protocols() []string {
	return []string{"TCP", "HTTP", "TERMINATED_HTTPS", "SCTP", "PROMETHEUS", "HTTPS", "UDP"}
}

func poolProtocols() []string {
	return []string{"TCP", "HTTP", "SCTP", "PROXYV2", "HTTPS", "UDP", "PROXY"}
}

func listenerKind() *kind {
	const day = 24 * 60 * 60 * 1000 // ms
	pool, policy := treePool(), treePolicy()
	body := append(common(), class{
		{name: "protocol", check: oneOf(protocols()...), required: true},
		{name: "protocol_port", check: integer(1, 65535), required: true},
		{name: "connection_limit", check: integer(-1, -2), def: -1},
		{name: "default_tls_container_ref", check: text(255)},
		{name: "sni_container_refs", check: listOf(text(255)), def: []string{}},
		{name: "default_pool_id", check: isID},
		{name: "default_pool", check: nested(&pool, false)},
		{name: "l7policies", check: nested(&policy, true)},
		{name: "insert_headers", check: isDict, def: map[string]any{}},
		{name: "loadbalancer_id", check: isID, required: true},
		{name: "timeout_client_data", check: integer(0, 365*day), def: 50000},
		{name: "timeout_member_connect", check: integer(0, 365*day), def: 5000},
		{name: "timeout_member_data", check: integer(0, 365*day), def: 50000},
		{name: "timeout_tcp_inspect", check: integer(0, 365*day), def: 0},
		tags(),
		{name: "client_ca_tls_container_ref", check: text(255)},
		{name: "client_authentication", check: oneOf("NONE", "OPTIONAL", "MANDATORY"), def: "NONE"},
		{name: "client_crl_container_ref", check: text(255)},
		{name: "allowed_cidrs", check: listOf(isCIDR)},
		{name: "tls_ciphers", check: text(2048)},
		{name: "tls_versions", check: listOf(text(32))},
		{name: "alpn_protocols", check: listOf(oneOf("http/1.1", "http/1.0", "h2"))},
	}...)
	return &kind{
		name: kindListener, plural: "listeners", title: "Listener", argument: "listener_", parent: kindBalancer,
		post: append(body, ownership()...),
		put:  body.without("protocol", "protocol_port", "loadbalancer_id", "default_pool", "l7policies"),
		show: []string{"id", "name", "description", "provisioning_status", "operating_status", "admin_state_up",
			"protocol", "protocol_port", "connection_limit", "default_tls_container_ref", "sni_container_refs",
			"project_id", "default_pool_id", "l7policies", "insert_headers", "created_at", "updated_at",
			"loadbalancers", "timeout_client_data", "timeout_member_connect", "timeout_member_data",
			"timeout_tcp_inspect", "tags", "client_ca_tls_container_ref", "client_authentication",
			"client_crl_container_ref", "allowed_cidrs", "tls_ciphers", "tls_versions", "alpn_protocols", "tenant_id"},
	}
}

func persistence() class {
	return class{
		{name: "type", check: oneOf("SOURCE_IP", "APP_COOKIE", "HTTP_COOKIE"), required: true},
		{name: "cookie_name", check: pattern(`^[^\s,;\\]+$`)},
		{name: "persistence_timeout", check: integer(0, -1)},
		{name: "persistence_granularity", check: isAddress},
	}
}

func poolKind() *kind {
	sticky := persistence()
	body := append(common(), class{
		{name: "listener_id", check: isID},
		{name: "loadbalancer_id", check: isID},
		{name: "protocol", check: oneOf(poolProtocols()...), required: true},
		{name: "lb_algorithm", required: true,
			check: oneOf("SOURCE_IP", "ROUND_ROBIN", "SOURCE_IP_PORT", "LEAST_CONNECTIONS")},
		{name: "session_persistence", check: nested(&sticky, false)},
		tags(),
		{name: "tls_container_ref", check: text(255)},
		{name: "ca_tls_container_ref", check: text(255)},
		{name: "crl_container_ref", check: text(255)},
		{name: "tls_enabled", check: isBool, def: false},
		{name: "tls_ciphers", check: text(2048)},
		{name: "tls_versions", check: listOf(text(32))},
		{name: "alpn_protocols", check: listOf(oneOf("http/1.1", "http/1.0", "h2"))},
	}...)
	put := optional(body.without("listener_id", "loadbalancer_id", "protocol"))
	return &kind{
		name: kindPool, plural: "pools", title: "Pool", argument: "pool_", parent: kindBalancer,
		post: append(body, ownership()...),
		put:  put,
		show: []string{"id", "name", "description", "provisioning_status", "operating_status", "admin_state_up",
			"protocol", "lb_algorithm", "session_persistence", "project_id", "loadbalancers", "listeners", "created_at",
			"updated_at", "healthmonitor_id", "members", "tags", "tls_container_ref", "ca_tls_container_ref",
			"crl_container_ref", "tls_enabled", "tls_ciphers", "tls_versions", "alpn_protocols", "tenant_id"},
	}
}

// treePool is a pool within the creation of a balancer: it may be a mere name, and has children.
func treePool() class {
	monitor := monitorKind().post.without("pool_id", "project_id", "tenant_id")
	member := memberKind().post.without("project_id", "tenant_id")
	body := optional(poolKind().post.without("listener_id", "loadbalancer_id", "project_id", "tenant_id"))
	return append(body, class{
		{name: "healthmonitor", check: nested(&monitor, false)},
		{name: "members", check: nested(&member, true)},
	}...)
}

func memberKind() *kind {
	post := class{
		{name: "name", check: text(255), def: ""},
		{name: "admin_state_up", check: isBool, def: true},
		{name: "address", check: isAddress, required: true},
		{name: "protocol_port", check: integer(1, 65535), required: true},
		{name: "weight", check: integer(0, 256), def: 1},
		{name: "backup", check: isBool, def: false},
		{name: "subnet_id", check: isID},
		{name: "monitor_port", check: integer(1, 65535)},
		{name: "monitor_address", check: isAddress},
		tags(),
	}
	return &kind{
		name: kindMember, plural: "members", title: "Member", argument: "member_", parent: kindPool,
		post: append(post, ownership()...),
		put:  post.without("address", "protocol_port", "subnet_id"),
		show: []string{"id", "name", "operating_status", "provisioning_status", "admin_state_up", "address",
			"protocol_port", "weight", "backup", "subnet_id", "project_id", "created_at", "updated_at",
			"monitor_address", "monitor_port", "tags", "tenant_id"},
	}
}

func monitorKind() *kind {
	post := class{
		{name: "name", check: text(255), def: ""},
		{name: "type", required: true,
			check: oneOf("PING", "TCP", "HTTP", "UDP-CONNECT", "SCTP", "TLS-HELLO", "HTTPS")},
		{name: "delay", check: integer(0, -1), required: true},
		{name: "timeout", check: integer(0, -1), required: true},
		{name: "max_retries_down", check: integer(1, 10), def: 3},
		{name: "max_retries", check: integer(1, 10), required: true},
		{name: "http_method",
			check: oneOf("GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "PATCH", "CONNECT")},
		{name: "url_path", check: isPath},
		{name: "expected_codes", check: pattern(`^(\d{3}(\s*,\s*\d{3})*)$|^(\d{3}-\d{3})$`)},
		{name: "admin_state_up", check: isBool, def: true},
		{name: "pool_id", check: isID, required: true},
		tags(),
		{name: "http_version", check: isNumber},
		{name: "domain_name", check: pattern(`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)},
	}
	put := optional(post.without("type", "pool_id"))
	return &kind{
		name: kindMonitor, plural: "healthmonitors", title: "Health Monitor", argument: "health_monitor_", parent: kindPool,
		post: append(post, ownership()...),
		put:  put,
		show: []string{"id", "name", "type", "delay", "timeout", "max_retries", "max_retries_down", "http_method",
			"url_path", "expected_codes", "admin_state_up", "project_id", "pools", "provisioning_status",
			"operating_status", "created_at", "updated_at", "tags", "http_version", "domain_name", "tenant_id"},
	}
}
