package cloud

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// memberAddresses is the members of any pool, without their port: a node's InternalIP of the balancer's family. Datagrams
// are forwarded as they are, so that each family of VIPs needs members of its own; connections are made anew.
func (r request) memberAddresses(connections bool) []wantMember {
	families := r.families()
	if connections {
		families = families[:1]
	}
	var all []wantMember
	for _, n := range r.nodes {
		if !r.settings.NodeSelector.Matches(labels.Set(n.Labels)) {
			continue
		}
		for _, f := range families {
			if a := internalAddress(n, f); a.IsValid() {
				all = append(all, wantMember{Name: n.Name, Address: a.String(), SubnetID: r.memberSubnet(f), Weight: 1})
			}
		}
	}
	slices.SortFunc(all, func(a, b wantMember) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	return all
}

// memberSubnet is the one that a balancer reaches members of a family by.
func (r request) memberSubnet(f corev1.IPFamily) string {
	if s := r.settings.MemberSubnetID; s != "" && f == r.families()[0] {
		return s
	}
	return r.settings.subnet(f)
}

func internalAddress(n *corev1.Node, f corev1.IPFamily) netip.Addr {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && familyOf(ip) == f {
			return ip.Unmap()
		}
	}
	return netip.Addr{}
}

// members notes what a user has to know about them.
func (w *want) members(r request) {
	if local(r.service) && r.settings.MonitorAsked != nil && !*r.settings.MonitorAsked && !r.features.NoMonitors {
		w.note("MonitorRequired", "externalTrafficPolicy is Local: a health monitor is made although %s is false", annMonitor)
	}
	if r.features.NoMonitors && !local(r.service) && r.settings.MonitorAsked != nil && *r.settings.MonitorAsked {
		w.note("MonitorNotSupported", "the provider has no health monitors")
	}
	if r.settings.Proxy == "PROXYV2" && !r.features.proxyV2() {
		w.note("ProxyV2NotSupported", "Octavia 2.%d has version 1 of the PROXY protocol alone (2.22 has 2)", r.features.Minor)
	}
	if len(r.nodes) > 0 && len(r.memberAddresses(true)) == 0 {
		w.note("NoMembers", "none of %d nodes has an InternalIP of %s and fits the node selector", len(r.nodes), r.families()[0])
	}
}

// deletedTaint takes a node out, as it does for the service controller.
const deletedTaint = "ToBeDeletedByClusterAutoscaler"

// eligible is the nodes that the service controller takes: those that are not ready stay, as the monitor tells the truth
// about them sooner.
func eligible(nodes []*corev1.Node) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool {
		if value, labelled := n.Labels[corev1.LabelNodeExcludeBalancers]; labelled {
			if out, err := strconv.ParseBool(value); err != nil || out {
				return true
			}
		}
		tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == deletedTaint })
		return tainted || !n.DeletionTimestamp.IsZero()
	})
}
