package conformance

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

var switching = []Row{
	{Area: "switching", Name: "clean-up leaves nothing of its own and all of others", Run: func(n *Node) {
		foreign(n)
		before := facts(n)
		n.Sync(with(web(all...), bed.NodePort(30080), bed.Affinity(time.Hour)), with(dns(all...), bed.NodePort(30053)),
			bed.Service{Name: "none", IP: bed.VIPs(3)},
			bed.Service{Name: "ext", IP: bed.VIPs(4), Pods: []string{"local1"}, Edit: externalIP})
		if slices.Equal(before, facts(n)) {
			n.T.Errorf("the sync changed nothing that the row looks at")
		}
		n.Cleanup()
		for _, d := range difference(before, facts(n)) {
			n.T.Errorf("%s", d)
		}
		n.Cleanup() // once more finds nothing to do
		n.last = nil
		n.Sync(web("local1"))
		n.only("at work again", n.tcp(bed.Client, vip(1, false), few), "local1")
	}},
	{Area: "switching", Name: "a full pass repairs what somebody else flushed", Run: func(n *Node) {
		n.Sync(with(web(all...), bed.NodePort(30080)), web2())
		for _, family := range []string{"iptables", "ip6tables"} {
			for _, backend := range []string{"legacy", "nft"} {
				if tool := family + "-" + backend; installed(tool) {
					n.MustExec(bed.Node, tool, "-t", "nat", "-F")
					n.MustExec(bed.Node, tool, "-t", "filter", "-F")
				}
			}
		}
		n.last = nil
		n.Sync(with(web(all...), bed.NodePort(30080)), web2())
		families(func(v6 bool, label string) {
			n.only("cluster IP, "+label, n.tcp(bed.Client, vip(1, v6), many), all...)
			n.only("node port, "+label, n.tcp(bed.Outside, nodePort(v6, 30080), many), all...)
			n.only("without endpoints, "+label, n.tcp(bed.Client, vip(5, v6), few), bed.KindRefused)
		})
	}},
}

func web2() bed.Service { return bed.Service{Name: "web2", IP: bed.VIPs(5)} }

func externalIP(p *services.ServicePort) {
	p.ExternalIPs = []netip.Addr{netip.MustParseAddr("203.0.113.9")}
	if p.Family == services.IPv6 {
		p.ExternalIPs = []netip.Addr{netip.MustParseAddr("2001:db8::9")}
	}
}

func installed(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

// foreign puts rules of somebody else on the node, some with names and marks like a proxier's own.
func foreign(n *Node) {
	n.T.Helper()
	for _, tool := range []string{"iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"} {
		if !installed(tool) {
			continue
		}
		for _, args := range []string{
			"-t nat -N CNI-HOSTPORT-DNAT",
			"-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
			"-t nat -A CNI-HOSTPORT-DNAT -p tcp --dport 9999 -j RETURN",
			"-t filter -N KUBE-ROUTER-INPUT",
			"-t filter -A INPUT -j KUBE-ROUTER-INPUT",
			"-t filter -A FORWARD -m mark --mark 0x4000/0x4000 -m comment --comment foreign -j ACCEPT",
			"-t mangle -A PREROUTING -p tcp --dport 9999 -j MARK --set-xmark 0x1/0x1",
		} {
			n.MustExec(bed.Node, append([]string{tool, "-w"}, strings.Fields(args)...)...)
		}
	}
	if installed("nft") {
		n.MustExec(bed.Node, "nft", "add table inet somebody")
		n.MustExec(bed.Node, "nft", "add chain inet somebody input { type filter hook input priority 0 ; }")
	}
}

// facts describes what a proxier may leave on a node, a line each: rules and chains of every table, nftables tables,
// sets, links, addresses, routes, rules and the one setting that proxiers make.
func facts(n *Node) (lines []string) {
	n.T.Helper()
	for _, tool := range []string{"iptables-legacy-save", "ip6tables-legacy-save", "iptables-nft-save", "ip6tables-nft-save"} {
		if installed(tool) {
			lines = append(lines, ruleLines(tool, n.MustExec(bed.Node, tool))...)
		}
	}
	for _, args := range []string{"nft list tables", "ipset list -n", "ip -o link", "ip -o addr", "ip route show table all",
		"ip -6 route show table all", "ip rule", "sysctl net.ipv4.conf.all.route_localnet"} {
		fields := strings.Fields(args)
		if !installed(fields[0]) {
			continue
		}
		for line := range strings.Lines(n.MustExec(bed.Node, fields...)) {
			// A tool that lists the rules of iptables-nft makes the table in passing.
			if fields[0] != "nft" || strings.Contains(line, "kube-proxy") || strings.Contains(line, "somebody") {
				lines = append(lines, args+": "+strings.TrimSpace(withoutLifetime(line)))
			}
		}
	}
	return lines
}

// ruleLines keeps the rules and the chains that somebody made; base chains, counters and comments are the tool's.
func ruleLines(tool, text string) (lines []string) {
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line
		case strings.HasPrefix(line, ":"):
			name, rest, _ := strings.Cut(line, " ")
			if strings.HasPrefix(rest, "-") {
				lines = append(lines, tool+" "+table+" "+name)
			}
		case strings.HasPrefix(line, "-A"):
			lines = append(lines, tool+" "+table+" "+line)
		}
	}
	return lines
}

// withoutLifetime drops what changes by itself.
func withoutLifetime(line string) string {
	if i := strings.Index(line, " expires "); i >= 0 {
		return line[:i]
	}
	return line
}

func difference(before, after []string) (lines []string) {
	for _, l := range after {
		if !slices.Contains(before, l) {
			lines = append(lines, "left behind: "+l)
		}
	}
	for _, l := range before {
		if !slices.Contains(after, l) {
			lines = append(lines, "lost: "+l)
		}
	}
	return lines
}
