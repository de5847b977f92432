package openstack

import (
	"net/http"
	"net/netip"
)

func networkKind() *kind {
	return &kind{
		name: "network", plural: "networks", missing: "NetworkNotFound", missingText: "Network %s could not be found.",
		attrs: standard(
			attr{name: "admin_state_up", check: isBool, value: true},
			attr{name: "shared", check: isBool, value: false, admin: true},
			attr{name: "router:external", check: isBool, value: false, admin: true},
			attr{name: "port_security_enabled", check: isBool, value: true},
			attr{name: "mtu", check: isInt(68, 65535), value: 1500},
			attr{name: "is_default", check: isBool, value: false, admin: true},
			attr{name: "dns_domain", check: isText(255), value: ""},
			attr{name: "qos_policy_id", check: orNull(isUUID)},
			attr{name: "availability_zone_hints", check: isList(isText(255)), value: []any{}, fixed: true},
			attr{name: "provider:network_type", check: isText(32), value: "geneve", admin: true},
			attr{name: "provider:physical_network", check: orNull(isText(255)), admin: true},
			attr{name: "provider:segmentation_id", check: orNull(isInt(0, 1<<24)), admin: true},
		),
		create: func(_ *Cloud, _ Identity, it item) error {
			it["status"], it["availability_zones"], it["l2_adjacency"] = "ACTIVE", []any{}, true
			it["ipv4_address_scope"], it["ipv6_address_scope"] = nil, nil
			return nil
		},
		remove: func(c *Cloud, _ Identity, it item) error {
			if len(c.portsOf(it.text("id"))) > 0 {
				return problemf(http.StatusConflict, "NetworkInUse",
					"Unable to complete operation on network %s. There are one or more ports still in use on the network.", it.text("id"))
			}
			for _, s := range c.subnetsOf(it.text("id")) {
				c.tables["subnet"].remove(s.text("id"))
			}
			return nil
		},
		view: func(c *Cloud, it item) item {
			ids := []string{}
			for _, s := range c.subnetsOf(it.text("id")) {
				ids = append(ids, s.text("id"))
			}
			return item{"subnets": ids}
		},
		public: func(_ *Cloud, it item) bool { return it.flag("shared") || it.flag("router:external") },
	}
}

func (c *Cloud) subnetsOf(network string) []item {
	return c.tables["subnet"].where(func(it item) bool { return it.text("network_id") == network })
}

func (c *Cloud) portsOf(network string) []item {
	return c.tables["port"].where(func(it item) bool { return it.text("network_id") == network })
}

func subnetKind() *kind {
	pool := isObject(map[string]check{"start": isAddr, "end": isAddr})
	route := isObject(map[string]check{"destination": isPrefix, "nexthop": isAddr})
	return &kind{
		name: "subnet", plural: "subnets", missing: "SubnetNotFound", missingText: "Subnet %s could not be found.",
		attrs: standard(
			attr{name: "network_id", check: isUUID, required: true, fixed: true},
			attr{name: "cidr", check: isPrefix, required: true, fixed: true},
			attr{name: "ip_version", check: func(v any) (any, error) {
				n, _ := number(v)
				return isOneOf(4, 6)(n)
			}, fixed: true},
			attr{name: "gateway_ip", check: orNull(isAddr), value: unset{}},
			attr{name: "allocation_pools", check: isList(pool), value: unset{}},
			attr{name: "enable_dhcp", check: isBool, value: true},
			attr{name: "dns_nameservers", check: isList(isAddr), value: []any{}},
			attr{name: "host_routes", check: isList(route), value: []any{}},
			attr{name: "ipv6_address_mode", check: orNull(isText(32)), fixed: true},
			attr{name: "ipv6_ra_mode", check: orNull(isText(32)), fixed: true},
			attr{name: "service_types", check: isList(isText(255)), value: []any{}},
			attr{name: "segment_id", check: orNull(isUUID)},
			attr{name: "subnetpool_id", check: orNull(isUUID), fixed: true},
			attr{name: "dns_publish_fixed_ip", check: isBool, value: false},
		),
		create: createSubnet,
		update: func(_ *Cloud, _ Identity, old, now, _ item) error {
			cidr, err := netip.ParsePrefix(old.text("cidr"))
			if err != nil {
				return err
			}
			return checkSubnet(cidr, now)
		},
		remove: func(c *Cloud, _ Identity, it item) error {
			for p := range c.tables["port"].all {
				if hasFixedIP(p, "subnet_id="+it.text("id")) {
					return problemf(http.StatusConflict, "SubnetInUse",
						"Unable to complete operation on subnet %s: One or more ports have an IP allocation from this subnet.", it.text("id"))
				}
			}
			return nil
		},
		view: func(c *Cloud, it item) item {
			n := c.tables["network"].items[it.text("network_id")]
			return item{"router:external": n.flag("router:external"), "shared": n.flag("shared")}
		},
		public: func(c *Cloud, it item) bool {
			n := c.tables["network"].items[it.text("network_id")]
			return n.flag("shared") || n.flag("router:external")
		},
	}
}

// unset is what stands for an attribute that was not given until its kind has found the value.
type unset struct{}

func createSubnet(c *Cloud, who Identity, it item) error {
	if _, err := c.own(c.kindOf("network"), who, it.text("network_id")); err != nil {
		return err
	}
	cidr, err := netip.ParsePrefix(it.text("cidr"))
	if err != nil {
		return badRequest("Invalid input for cidr. Reason: %v.", err)
	}
	version := 4
	if cidr.Addr().Is6() {
		version = 6
	}
	if v := it["ip_version"]; v != nil && v != version {
		return badRequest("Invalid input for operation: ip_version '%v' does not match with cidr %s.", v, cidr)
	}
	it["ip_version"] = version
	for _, other := range c.subnetsOf(it.text("network_id")) {
		if p, err := netip.ParsePrefix(other.text("cidr")); err == nil && p.Overlaps(cidr) {
			return badRequest("Invalid input for operation: Requested subnet with cidr: %s for network: %s overlaps with another subnet.", cidr, it.text("network_id"))
		}
	}
	if it["gateway_ip"] == (unset{}) {
		it["gateway_ip"] = cidr.Addr().Next().String()
	}
	if pools, given := it["allocation_pools"].([]any); !given || len(pools) == 0 {
		it["allocation_pools"] = defaultPools(cidr, it.text("gateway_ip"))
	}
	return checkSubnet(cidr, it)
}

// checkSubnet looks at what lies within a subnet.
func checkSubnet(cidr netip.Prefix, it item) error {
	for _, p := range it.list("allocation_pools") {
		start, err1 := netip.ParseAddr(p.text("start"))
		end, err2 := netip.ParseAddr(p.text("end"))
		switch {
		case err1 != nil || err2 != nil:
			return badRequest("Invalid input for allocation_pools. Reason: start and end are wanted.")
		case !cidr.Contains(start) || !cidr.Contains(end):
			return badRequest("The allocation pool %s-%s spans beyond the subnet cidr %s.", start, end, cidr)
		case end.Less(start):
			return badRequest("The allocation pool %s-%s is not valid.", start, end)
		}
	}
	return nil
}
