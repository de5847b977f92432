package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// plan is what one node's network has to look like.
type plan struct {
	own     []netip.Prefix // the node's pods, one range per family
	cluster []netip.Prefix // every node's pods and every node itself: what pods reach without masquerade
	routes  []route        // to the pods of the other nodes
	self    netip.Addr     // the node's first address, which says through which link pods leave it
}

// route leads to another node's pods.
type route struct {
	to  netip.Prefix
	via netip.Addr
}

func (p plan) String() string {
	return fmt.Sprintf("pods %v, routes %v", p.own, p.routes)
}

// planFor makes the plan for the node out of all nodes. A node that has no pod range yet (the controller manager gives
// it) or no address is an error if it is this one, and left out if it is another.
func planFor(name string, nodes []*v1.Node) (plan, error) {
	var p plan
	for _, node := range nodes {
		ranges, err := podRanges(node)
		if err != nil {
			return plan{}, err
		}
		addresses := internalAddresses(node)
		p.cluster = append(p.cluster, ranges...)
		for _, a := range addresses {
			p.cluster = append(p.cluster, netip.PrefixFrom(a, a.BitLen()))
		}
		if node.Name == name {
			p.own = ranges
			if len(addresses) > 0 {
				p.self = addresses[0]
			}
			continue
		}
		for _, r := range ranges {
			via := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == r.Addr().Is4() })
			if via >= 0 {
				p.routes = append(p.routes, route{to: r, via: addresses[via]})
			}
		}
	}
	if len(p.own) == 0 || !p.self.IsValid() {
		return plan{}, fmt.Errorf("node %s has no pod range or no address yet", name)
	}
	slices.SortFunc(p.routes, func(a, b route) int { return strings.Compare(a.to.String(), b.to.String()) })
	slices.SortFunc(p.cluster, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	return p, nil
}

// podRanges are the node's spec.podCIDRs, one per family.
func podRanges(node *v1.Node) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range node.Spec.PodCIDRs {
		r, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("pod range of node %s: %w", node.Name, err)
		}
		ranges = append(ranges, r.Masked())
	}
	return ranges, nil
}

// internalAddresses are the node's addresses of type InternalIP.
func internalAddresses(node *v1.Node) []netip.Addr {
	var addresses []netip.Addr
	for _, a := range node.Status.Addresses {
		if a.Type != v1.NodeInternalIP {
			continue
		}
		if address, err := netip.ParseAddr(a.Address); err == nil {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses
}

// cni is the configuration that the container runtime reads: addresses out of the node's ranges, a link per pod without a
// bridge, and host ports.
func (p plan) cni(mtu int) ([]byte, error) {
	var ranges [][]map[string]string
	var routes []map[string]string
	for _, r := range p.own {
		ranges = append(ranges, []map[string]string{{"subnet": r.String()}})
		everywhere := "0.0.0.0/0"
		if r.Addr().Is6() {
			everywhere = "::/0"
		}
		routes = append(routes, map[string]string{"dst": everywhere})
	}
	config := map[string]any{
		"cniVersion": "0.3.1",
		"name":       "podnet",
		"plugins": []map[string]any{
			{
				"type": "ptp", "ipMasq": false, "mtu": mtu,
				// A node that starts again starts without pods: their addresses must not outlive them.
				"ipam": map[string]any{"type": "host-local", "dataDir": "/run/podnet", "routes": routes, "ranges": ranges},
			},
			{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}
	return json.MarshalIndent(config, "", "  ")
}

// rules is the nftables table that masquerades what pods send out of the cluster. It replaces the previous one in one
// transaction.
func (p plan) rules() string {
	var b strings.Builder
	b.WriteString("table inet podnet\ndelete table inet podnet\ntable inet podnet {\n")
	b.WriteString("  chain postrouting {\n    type nat hook postrouting priority srcnat; policy accept;\n")
	for _, own := range p.own {
		family := "ip"
		if own.Addr().Is6() {
			family = "ip6"
		}
		var inside []string
		for _, c := range p.cluster {
			if c.Addr().Is4() == own.Addr().Is4() {
				inside = append(inside, c.String())
			}
		}
		fmt.Fprintf(&b, "    %s saddr %s %s daddr != { %s } masquerade\n", family, own, family, strings.Join(inside, ", "))
	}
	b.WriteString("  }\n}\n")
	return b.String()
}
