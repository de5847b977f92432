package nftables

import (
	"context"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

// foreign are tables of others: one of a newer nft's, one of an older kube-proxy's, an inet table with our name.
const foreign = `table ip kube-proxy {
	map service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; elements = { 192.0.2.1 . tcp . 80 : goto old } ; }
	chain old { }
	chain services { ip daddr . meta l4proto . th dport vmap @service-ips ; }
}
table inet proxylab { chain services { counter ; } ; }
table ip proxylab2 { set s { typeof ip saddr ; flags dynamic,timeout ; timeout 5s ; } ; }
table inet firewall {
	set blocked { type ipv4_addr ; flags interval ; auto-merge ; elements = { 192.0.2.0/25 } ; }
	chain input { type filter hook input priority 10 ; policy accept ; ip saddr @blocked drop ; }
}
`

// one is the name of the only one that answered.
func one(got map[string]int) string {
	for name := range got {
		return name
	}
	return "nobody"
}

func (n *node) tables() string { return n.MustExec(bed.Node, "nft", "list", "ruleset") }

func (n *node) load(rules string) {
	n.t.Helper()
	if _, err := n.Exec(bed.Node, rules, "nft", "-f", "-"); err != nil {
		n.t.Fatal(err)
	}
}

// What others have is there after any sync and after the clean-up; of ours nothing is. https://issues.k8s.io/136786
func TestCleanupLeavesTheNodeAsItWas(t *testing.T) {
	n := newNode(t)
	n.load(foreign)
	before := n.tables()
	n.Sync(with(web("local1", "remote1"), bed.NodePort(30080), sticky), dns())
	n.Only("beside foreign tables", n.TCP(bed.Client, vip(1, false), 5), one(n.TCP(bed.Client, vip(1, false), 1)))
	for range 2 {
		if err := n.Running.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		if after := n.tables(); before != after {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
	}
	n.Last = services.Snapshot{}
	n.Sync(web("local1"))
	n.Only("after all that", n.TCP(bed.Client, vip(1, false), 1), "local1")
}

// Tables of another version, which crashed, are replaced by the first pass, and cleaned up where there is no pass.
func TestTablesOfAnotherVersion(t *testing.T) {
	n := newNode(t)
	other := `table ip proxylab {
	map service-ips { type ipv4_addr : verdict ; elements = { 10.96.0.1 : drop } ; }
	chain nat-prerouting { type filter hook prerouting priority -50 ; policy accept ; ip daddr vmap @service-ips ; }
	chain unheard-of { jump unheard-of2 ; }
	chain unheard-of2 { }
}
table ip6 proxylab { chain layout-2 { } ; set tcp-affinity { type ipv6_addr ; } ; chain unheard-of { } ; }
`
	n.load(other)
	// The second one looks like ours, and only filling it shows that it is not: the pass fails, and the next one succeeds.
	first := n.Snapshot(web("local1"))
	if _, err := n.Running.Sync(context.Background(), first); err == nil || !strings.Contains(err.Error(), "IPv6") || strings.Contains(err.Error(), "IPv4") {
		t.Errorf("%v", err)
	}
	n.Sync(web("local1"))
	for _, v6 := range both {
		n.Only("with tables of another version", n.TCP(bed.Client, vip(1, v6), 1), "local1")
	}
	if left := n.tables(); strings.Contains(left, "unheard-of") {
		t.Errorf("%s", left)
	}
	if err := n.Running.Cleanup(context.Background()); err != nil {
		t.Fatal(err)
	}
	n.load(other)
	if err := n.Running.Cleanup(context.Background()); err != nil {
		t.Fatal(err)
	}
	if left := n.tables(); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// Somebody removes rules: the next full pass puts everything back, and does nothing where nothing is wrong.
func TestRepair(t *testing.T) {
	n := newNode(t)
	n.Sync(with(web("local1", "remote1"), bed.NodePort(30080)), with(dns("local2"), sticky))
	n.resync(false)
	n.load("table ip somebody { chain x { counter ; } ; }\n")
	n.resync(false)
	for _, harm := range []string{
		"flush ruleset", "delete table ip proxylab", "delete table ip6 proxylab", "flush table ip proxylab",
		"flush chain ip proxylab services", "add chain ip6 proxylab stray",
		"add chain ip proxylab stray\nadd rule ip proxylab nodeports jump stray",
	} {
		n.load(harm + "\n")
		n.resync(true)
		for _, v6 := range both {
			n.Only("after "+harm, n.TCP(bed.Client, vip(1, v6), bed.OfTwo), "local1", "remote1")
			n.Only("after "+harm, n.UDP(bed.Client, vip(2, v6), 1), "local2")
		}
		if left := n.tables(); strings.Contains(left, "stray") {
			t.Errorf("after %s: %s", harm, left)
		}
		n.resync(false)
	}
}
