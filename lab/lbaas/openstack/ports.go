package openstack

import (
	"fmt"
	"net/http"
)

func portKind() *kind {
	fixedIP := isObject(map[string]check{"subnet_id": isUUID, "ip_address": isAddr})
	pair := isObject(map[string]check{"ip_address": isPrefixOrAddr, "mac_address": isText(32)})
	option := isObject(map[string]check{"opt_name": isText(64), "opt_value": orNull(isText(255)), "ip_version": isInt(4, 6)})
	return &kind{
		name: "port", plural: "ports", missing: "PortNotFound", missingText: "Port %s could not be found.",
		attrs: standard(
			attr{name: "network_id", check: isUUID, required: true, fixed: true},
			attr{name: "admin_state_up", check: isBool, value: true},
			attr{name: "mac_address", check: isText(32), value: ""},
			attr{name: "fixed_ips", check: isList(fixedIP), value: unset{}},
			attr{name: "device_id", check: isText(255), value: ""},
			attr{name: "device_owner", check: isText(255), value: ""},
			attr{name: "security_groups", check: isList(isUUID), value: unset{}},
			attr{name: "allowed_address_pairs", check: isList(pair), value: []any{}},
			attr{name: "extra_dhcp_opts", check: isList(option), value: []any{}},
			attr{name: "port_security_enabled", check: isBool, value: true},
			attr{name: "dns_name", check: isText(255), value: ""},
			attr{name: "dns_domain", check: isText(255), value: ""},
			attr{name: "qos_policy_id", check: orNull(isUUID)},
			attr{name: "propagate_uplink_status", check: isBool, value: false},
			attr{name: "binding:host_id", check: isText(255), value: ""},
			attr{name: "binding:profile", check: func(v any) (any, error) { return v, nil }, value: map[string]any{}, admin: true},
			attr{name: "binding:vnic_type", check: isText(32), value: "normal"},
			attr{name: "numa_affinity_policy", check: orNull(isText(32))},
		),
		create: createPort,
		update: func(c *Cloud, _ Identity, old, now, given item) error {
			if _, ok := given["security_groups"]; ok {
				if err := c.knownGroups(now); err != nil {
					return err
				}
			}
			now["status"] = portStatus(now)
			if _, ok := given["fixed_ips"]; !ok {
				return nil
			}
			return c.addresses(now, held(old))
		},
		remove: removePort,
	}
}

func isPrefixOrAddr(v any) (any, error) {
	if a, err := isAddr(v); err == nil {
		return a, nil
	}
	return isPrefix(v)
}

func createPort(c *Cloud, who Identity, it item) error {
	network, err := c.find(c.kindOf("network"), who, it.text("network_id"))
	if err != nil {
		return err
	}
	if it.text("mac_address") == "" {
		it["mac_address"] = mac(it.text("id"))
	}
	if it["security_groups"] == (unset{}) {
		it["security_groups"] = []any{}
		if network.flag("port_security_enabled") && it.flag("port_security_enabled") {
			it["security_groups"] = []any{c.defaultGroup(it.text("project_id"))}
		}
	}
	if err := c.knownGroups(it); err != nil {
		return err
	}
	it["status"] = portStatus(it)
	it["binding:vif_type"], it["binding:vif_details"] = "unbound", map[string]any{}
	it["dns_assignment"], it["ip_allocation"], it["resource_request"] = []any{}, "immediate", nil
	return c.addresses(it, nil)
}

// mac is the hardware address of a port, by its id.
func mac(id string) string {
	if len(id) < 6 {
		id = newID()
	}
	return fmt.Sprintf("fa:16:3e:%s:%s:%s", id[0:2], id[2:4], id[4:6])
}

// portStatus is DOWN until something uses the port.
func portStatus(it item) string {
	if it.text("device_id") != "" && it.flag("admin_state_up") {
		return "ACTIVE"
	}
	return "DOWN"
}

// held are the addresses that a port has.
func held(port item) map[string]bool {
	out := map[string]bool{}
	for _, ip := range port.list("fixed_ips") {
		out[ip.text("ip_address")] = true
	}
	return out
}

// addresses gives a port the addresses that its fixed_ips ask for; those of keep it had before.
func (c *Cloud) addresses(port item, keep map[string]bool) error {
	wanted := port.list("fixed_ips")
	if port["fixed_ips"] == (unset{}) {
		wanted = c.oneOfEach(port.text("network_id"))
	}
	got, mine := []any{}, map[string]bool{}
	for _, want := range wanted {
		subnet, err := c.subnetFor(port, want)
		if err != nil {
			return err
		}
		address := want.text("ip_address")
		if address == "" {
			var ok bool
			if address, ok = c.free(subnet, mine); !ok {
				return problemf(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", port.text("network_id"))
			}
		} else if err := c.claim(subnet, address, keep); err != nil {
			return err
		}
		mine[address] = true
		got = append(got, map[string]any{"subnet_id": subnet.text("id"), "ip_address": address})
	}
	port["fixed_ips"] = got
	return nil
}

// oneOfEach asks for an address of each family that a network has.
func (c *Cloud) oneOfEach(network string) []item {
	var out []item
	seen := map[string]bool{}
	for _, s := range c.subnetsOf(network) {
		if version := fmt.Sprint(s["ip_version"]); !seen[version] {
			seen[version] = true
			out = append(out, item{"subnet_id": s.text("id")})
		}
	}
	return out
}

// subnetFor finds the subnet that one of fixed_ips means.
func (c *Cloud) subnetFor(port, want item) (item, error) {
	subnets := c.subnetsOf(port.text("network_id"))
	for _, s := range subnets {
		if id := want.text("subnet_id"); id == s.text("id") || id == "" && contains(s.text("cidr"), want.text("ip_address")) {
			return s, nil
		}
	}
	if id := want.text("subnet_id"); id != "" {
		if _, ok := c.tables["subnet"].items[id]; !ok {
			return nil, c.kindOf("subnet").notFound(id)
		}
		return nil, badRequest("Invalid input for operation: Failed to create port on network %s, because fixed_ips included invalid subnet %s.", port.text("network_id"), id)
	}
	return nil, badRequest("IP address %s is not a valid IP for any of the subnets on the specified network.", want.text("ip_address"))
}

func removePort(c *Cloud, _ Identity, it item) error {
	for _, f := range c.tables["floatingip"].where(func(f item) bool { return f.text("port_id") == it.text("id") }) {
		c.replace("floatingip", f.with(item{"port_id": nil, "fixed_ip_address": nil, "router_id": nil, "status": "DOWN"}))
	}
	return nil
}
