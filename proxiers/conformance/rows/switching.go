package rows

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	c "proxylab/proxiers/conformance"
)

// metrics is where proxiers tell of themselves, as kube-proxy does.
var metrics = netip.MustParseAddrPort("127.0.0.1:10249")

var switching = []row{
	{Area: leaving, Name: "rules and tables of others are left alone", Faults: []string{"k136786", "k0s 7293", "k112477"}, Alone: true, Quick: true, Run: func(t *trial) {
		foreign(t)
		mine := func() (lines []string) {
			for _, l := range t.Facts(node1) {
				if isForeign(l) {
					lines = append(lines, l)
				}
			}
			return lines
		}
		before := mine()
		t.StopProxier(1)
		t.StartProxier(1) // its first pass meets them
		everything(t)
		each(t, func(family, port) {})
		for _, d := range c.DifferenceOf(before, mine()) {
			t.Errorf("%s", d)
		}
		if len(before) == 0 {
			t.Errorf("no rule of others was there to be left alone")
		}
	}},
	{Area: leaving, Name: "clean-up leaves nothing of its own and all of others", Faults: []string{"k102314", "k109286", "k119265"}, Alone: true, Quick: true,
		Run: func(t *trial) { cleanUp(t, t.StopProxier) }},
	{Area: leaving, Name: "clean-up after a crash leaves nothing", Faults: []string{"k102314"}, Alone: true,
		Run: func(t *trial) { cleanUp(t, t.KillProxier) }},
	{Area: leaving, Name: "what kube-proxy's own clean-up leaves is found and removed", Alone: true, Run: func(t *trial) {
		if t.Proxier().Native {
			t.NotApplicable("about kube-proxy's --cleanup")
		}
		t.StopProxier(1)
		t.CleanupProxier(1)
		before := t.Facts(node1)
		t.StartProxier(1)
		everything(t)
		t.StopProxier(1)
		t.MustRun(node1, "proxylab", "proxier", t.Proxier().Name, "--own-cleanup")
		for _, left := range c.DifferenceOf(before, t.Facts(node1)) {
			t.Logf("kube-proxy --cleanup leaves %s", left)
		}
		for _, left := range t.CleanupProxier(1) {
			t.Errorf("there is still %s", left)
		}
		for _, d := range c.DifferenceOf(before, t.Facts(node1)) {
			t.Errorf("%s", d)
		}
		t.StartProxier(1)
	}},
}

// everything makes one of each kind of Service, for node 1 to have rules of every kind.
func everything(t *trial) {
	web, ips := balancer(t, corev1.LoadBalancerIPModeVIP, c.ExternalLocal, c.WithSourceRanges("192.0.2.0/24", "2001:db8:2::/64"))
	web.Has(all...)
	affine := t.Service("affine", both, c.WithNodePort, c.WithAffinity(longTime), c.WithExternalIPs(t.Address(c.IPv4)))
	affine.Has(local1, remote1)
	none := t.Service("none", both, c.WithNodePort)
	none.Has()
	local := t.Service("local", both, c.InternalLocal)
	local.Has(remote1)
	t.Settle()
	each(t, func(f family, p port) {
		t.Ask(client, web.VIP(f, p)).Answers(all...)
		t.Ask(client, none.VIP(f, p)).Refused()
		t.Ask(client, web.At(ips[f], p, "load balancer IP")).Times(1).Dropped()
	})
	t.Ask(outside, affine.NodePort(c.IPv4, 1, tcp)).Among(local1, remote1)
}

func cleanUp(t *trial, end func(node int)) {
	t.StopProxier(1)
	t.CleanupProxier(1)
	foreign(t)
	before := t.Facts(node1)
	t.StartProxier(1)
	everything(t)
	if slices.Equal(before, t.Facts(node1)) {
		t.Errorf("the proxier changed nothing that this row looks at")
	}
	end(1)
	for _, left := range t.CleanupProxier(1) {
		t.Errorf("by its own account there is still %s", left)
	}
	for _, d := range c.DifferenceOf(before, t.Facts(node1)) {
		t.Errorf("%s", d)
	}
	t.CleanupProxier(1) // once more finds nothing to do
	t.StartProxier(1)
	web := t.Service("again", both)
	web.Has(local1)
	t.Settle()
	each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(local1) })
}

// foreignNames are parts of the names of what foreign makes.
var foreignNames = []string{"CNI-HOSTPORT-DNAT", "KUBE-ROUTER-INPUT", "foreign", "9999", "somebody"}

func isForeign(line string) bool {
	return slices.ContainsFunc(foreignNames, func(n string) bool { return strings.Contains(line, n) })
}

// foreign puts rules of somebody else on node 1, some with names and marks like a proxier's own, in both back ends at
// once, and tables that iptables' programs cannot read.
func foreign(t *trial) {
	for _, tool := range []string{"iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"} {
		if _, err := t.Run(node1, tool, "-w", "-t", "nat", "-L", "-n"); err != nil {
			t.Logf("no foreign rules by %s: %v", tool, err)
			continue
		}
		for _, args := range []string{
			"nat -N CNI-HOSTPORT-DNAT",
			"nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
			"nat -A CNI-HOSTPORT-DNAT -p tcp --dport 9999 -j RETURN",
			"filter -N KUBE-ROUTER-INPUT",
			"filter -A INPUT -j KUBE-ROUTER-INPUT",
			"filter -A FORWARD -m mark --mark 0x4000/0x4000 -m comment --comment foreign -j ACCEPT",
			"mangle -A PREROUTING -p tcp --dport 9999 -j MARK --set-xmark 0x1/0x1",
		} {
			t.MustRun(node1, append([]string{tool, "-w", "-t"}, strings.Fields(args)...)...)
		}
		for _, args := range []string{
			"nat -X CNI-HOSTPORT-DNAT", "nat -F CNI-HOSTPORT-DNAT",
			"nat -D PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
			"filter -X KUBE-ROUTER-INPUT", "filter -D INPUT -j KUBE-ROUTER-INPUT",
			"filter -D FORWARD -m mark --mark 0x4000/0x4000 -m comment --comment foreign -j ACCEPT",
			"mangle -D PREROUTING -p tcp --dport 9999 -j MARK --set-xmark 0x1/0x1",
		} {
			t.Undo(node1, append([]string{tool, "-w", "-t"}, strings.Fields(args)...)...) // last one first
		}
	}
	for _, table := range []string{"inet somebody", "ip kube-proxy-somebody"} {
		if _, err := t.Run(node1, "sh", "-c", "nft -f - <<'END'\n"+
			"table "+table+" {\n"+
			"\tmap ports { type inet_service : verdict; elements = { 9999 : accept } }\n"+
			"\tset seen { type ipv4_addr; flags dynamic, timeout; timeout 1h; }\n"+
			"\tchain input { type filter hook input priority 0; policy accept; tcp dport vmap @ports; meta mark 0x4000 counter comment \"foreign\" }\n"+
			"}\nEND"); err != nil {
			t.Logf("no foreign nftables table: %v", err)
			continue
		}
		t.Undo(node1, append([]string{"nft", "delete", "table"}, strings.Fields(table)...)...)
	}
}
