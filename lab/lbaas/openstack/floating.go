package openstack

import (
	"net/http"
	"net/netip"
)

func floatingIPKind() *kind {
	return &kind{
		name: "floatingip", plural: "floatingips", missing: "FloatingIPNotFound", missingText: "Floating IP %s could not be found",
		attrs: []attr{
			{name: "description", check: isText(255), value: ""},
			{name: "floating_network_id", check: isUUID, required: true, fixed: true},
			{name: "floating_ip_address", check: orNull(isAddr), fixed: true},
			{name: "subnet_id", check: orNull(isUUID), fixed: true},
			{name: "port_id", check: orNull(isUUID)},
			{name: "fixed_ip_address", check: orNull(isAddr)},
			{name: "dns_name", check: isText(255), value: ""},
			{name: "dns_domain", check: isText(255), value: ""},
			{name: "qos_policy_id", check: orNull(isUUID)},
		},
		create: createFloating,
		update: func(c *Cloud, who Identity, old, now, given item) error {
			_, port := given["port_id"]
			_, fixed := given["fixed_ip_address"]
			if !port && !fixed {
				return nil
			}
			if !fixed {
				now["fixed_ip_address"] = nil
			}
			return c.associate(who, now)
		},
		view: func(c *Cloud, it item) item {
			p, ok := c.tables["port"].items[it.text("port_id")]
			if !ok {
				return item{"port_details": nil}
			}
			return item{"port_details": map[string]any{
				"name": p.text("name"), "network_id": p.text("network_id"), "mac_address": p.text("mac_address"), "admin_state_up": p.flag("admin_state_up"),
				"status": p.text("status"), "device_id": p.text("device_id"), "device_owner": p.text("device_owner"),
			}}
		},
	}
}

func createFloating(c *Cloud, who Identity, it item) error {
	network, err := c.find(c.kindOf("network"), who, it.text("floating_network_id"))
	if err != nil {
		return err
	}
	if !network.flag("router:external") {
		return badRequest("Bad floatingip request: Network %s is not a valid external network.", network.text("id"))
	}
	if err := c.floatingAddress(it); err != nil {
		return err
	}
	it["port_forwardings"] = []any{}
	delete(it, "subnet_id")
	return c.associate(who, it)
}

// floatingAddress gives a floating IP the address asked for, or any.
func (c *Cloud) floatingAddress(it item) error {
	address := it.text("floating_ip_address")
	for _, s := range c.subnetsOf(it.text("floating_network_id")) {
		if want := it.text("subnet_id"); want != "" && want != s.text("id") {
			continue
		}
		if address != "" && contains(s.text("cidr"), address) {
			return c.claim(s, address, nil)
		}
		if p, err := netip.ParsePrefix(s.text("cidr")); address == "" && err == nil && p.Addr().Is4() {
			if a, ok := c.free(s, nil); ok {
				it["floating_ip_address"] = a
				return nil
			}
		}
	}
	if address != "" {
		return badRequest("Bad floatingip request: IP address %s is not a valid IP for any of the subnets of network %s.", address, it.text("floating_network_id"))
	}
	return problemf(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", it.text("floating_network_id"))
}

// associate points a floating IP at the port and address that it names, or at none.
func (c *Cloud) associate(who Identity, it item) error {
	it["router_id"], it["status"] = nil, "DOWN"
	if it["port_id"] == nil {
		if it["fixed_ip_address"] != nil {
			return badRequest("Bad floatingip request: fixed_ip_address cannot be specified without a port_id.")
		}
		return nil
	}
	port, err := c.find(c.kindOf("port"), who, it.text("port_id"))
	if err != nil {
		return err
	}
	fixed, err := fixedOf(port, it.text("fixed_ip_address"))
	if err != nil {
		return err
	}
	for other := range c.tables["floatingip"].all {
		if other.text("id") != it.text("id") && other.text("port_id") == port.text("id") && other.text("fixed_ip_address") == fixed &&
			other.text("floating_network_id") == it.text("floating_network_id") {
			return problemf(http.StatusConflict, "FloatingIPPortAlreadyAssociated",
				"Cannot associate floating IP %s (%s) with port %s using fixed IP %s, as that fixed IP already has a floating IP on external network %s.",
				it.text("floating_ip_address"), it.text("id"), port.text("id"), fixed, it.text("floating_network_id"))
		}
	}
	it["fixed_ip_address"], it["status"], it["router_id"] = fixed, "ACTIVE", StableID("router", port.text("network_id"))
	return nil
}

// fixedOf finds the IPv4 address of a port that a floating IP can stand for.
func fixedOf(port item, want string) (string, error) {
	for _, ip := range port.list("fixed_ips") {
		a, err := netip.ParseAddr(ip.text("ip_address"))
		if err == nil && a.Is4() && (want == "" || want == a.String()) {
			return a.String(), nil
		}
	}
	if want != "" {
		return "", badRequest("Bad floatingip request: Port %s does not have fixed ip %s.", port.text("id"), want)
	}
	return "", badRequest("Bad floatingip request: Cannot add floating IP to port %s that has no fixed IPv4 addresses.", port.text("id"))
}

// contains says whether an address is in a CIDR.
func contains(cidr, address string) bool {
	p, err1 := netip.ParsePrefix(cidr)
	a, err2 := netip.ParseAddr(address)
	return err1 == nil && err2 == nil && p.Contains(a)
}
