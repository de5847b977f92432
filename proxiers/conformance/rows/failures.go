package rows

import (
	"fmt"
	"strings"
	"time"

	c "proxylab/proxiers/conformance"
)

var failures = []row{
	{Area: failing, Name: "the xtables lock held by another program delays a sync and loses nothing", Faults: []string{"k48107", "kind 1707"}, Alone: true,
		NotApplicable: notApplicable("this mode takes no xtables lock", "nftables"),
		Run: func(t *trial) {
			if _, err := t.Run(node1, "flock", "--version"); err != nil {
				t.NotApplicable("the node has no program flock: %v", err)
			}
			web := t.Web()
			web.Has(local1)
			t.Settle()
			release := t.Background(node1, "flock", "/run/xtables.lock", "sleep", "60")
			web.Has(remote1)
			t.Pause(2 * time.Second) // long enough for a sync to be under way
			web.Has(remote2)
			release()
			t.Settle()
			each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(remote2) })
		}},
	{Area: failing, Name: "a sync that fails keeps its changes, and converges by itself", Alone: true, Quick: true, Limit: 3 * time.Minute, Run: func(t *trial) {
		web, gone := t.Service("web", both), t.Service("gone", both)
		web.Has(local1)
		gone.Has(local1)
		t.Settle()
		repair := breakTools(t)
		web.Has(remote1)
		gone.Has(remote2)
		late := t.Service("late", both)
		late.Has(local2)
		t.AwaitFailure(1, 3*time.Second)
		repair()
		converges(t, func() string {
			return first(t.Met(client, web.VIP(c.IPv4, tcp), remote1), t.Met(client, web.VIP(c.IPv6, tcp), remote1),
				t.Met(client, late.VIP(c.IPv4, tcp), local2), t.Met(client, gone.VIP(c.IPv6, tcp), remote2))
		})
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.VIP(f, p)).Answers(remote1)
			t.Ask(client, late.VIP(f, p)).Answers(local2)
			t.Ask(client, gone.VIP(f, p)).Answers(remote2)
		})
	}},
	{Area: failing, Name: "rules flushed by another program are back with the next change", Alone: true, Limit: 3 * time.Minute, Run: func(t *trial) {
		web, other := t.Service("web", both, c.WithNodePort), t.Service("other", both)
		web.Has(all...)
		other.Has(local1)
		t.Settle()
		flush(t)
		other.Has(remote1)
		converges(t, func() string { return served(t, web, other, remote1) })
	}},
	{Area: failing, Name: "rules flushed by another program come back by themselves", Alone: true, Limit: 3 * time.Minute,
		Known: map[string]c.Difference{"kube-proxy/nftables": {
			How: "it does not look after its table between changes of the API: rules come back with the next one",
		}},
		Run: func(t *trial) {
			web, other := t.Service("web", both, c.WithNodePort), t.Service("other", both)
			web.Has(all...)
			other.Has(local1)
			t.Settle()
			flush(t)
			converges(t, func() string { return served(t, web, other, local1) })
		}},
	{Area: failing, Name: "the mode in effect is told, and is the one asked for", Faults: []string{"k54121", "k63801"}, Quick: true, Run: func(t *trial) {
		mode := c.Target{Network: "http", Addr: metrics, What: "metrics server"}
		got := t.Ask(node1, mode).Path("/proxyMode").Times(1).Answers("status 200")
		if said := strings.TrimSpace(got.Said); said != t.Mode() {
			t.Errorf("/proxyMode says %q, asked for was %s", said, t.Mode())
		}
		if is := t.Running(1).Proxier; is != t.Proxier().Name {
			t.Errorf("%s runs, asked for was %s", is, t.Proxier().Name)
		}
	}},
	{Area: failing, Name: "memory does not grow under churn", Faults: []string{"k128928", "k130170"}, Alone: true, Limit: 3 * time.Minute, Run: func(t *trial) {
		web := t.Web(c.WithAffinity(longTime))
		rounds := func(n int) {
			for i := range n {
				web.Has(all[i%4], all[(i+1)%4])
				if i%10 == 9 {
					t.Settle()
				}
			}
			t.Settle()
		}
		rounds(100)
		before := resident(t)
		rounds(300)
		after := resident(t)
		// Go's collector lets the heap double between two runs: what leaks with each change outgrows that.
		if after > before+before/2+20e6 {
			t.Errorf("resident memory grew from %.0f to %.0f MB over 300 changes of endpoints", before/1e6, after/1e6)
		}
	}},
}

// converges waits for the nodes to obey without any further change in the API.
func converges(t *trial, wrong func() string) { t.Eventually(60*time.Second, wrong) }

func first(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

func served(t *trial, web, other *c.Service, pod string) (wrong string) {
	t.Families(func(f family) {
		wrong = first(wrong, t.Met(client, other.VIP(f, tcp), pod), t.Met(client, other.VIP(f, udp), pod),
			t.Met(client, web.VIP(f, tcp), all...), t.Met(outside, web.NodePort(f, 1, tcp), all...))
	})
	return wrong
}

// breakTools makes every program by which rules are made on node 1 fail, until it is called back.
func breakTools(t *trial) (repair func()) {
	tools := t.MustRun(node1, "sh", "-c", `for p in iptables-restore ip6tables-restore iptables-legacy-restore iptables-nft-restore iptables ip6tables nft ipset; do
	file=$(command -v $p) && readlink -f "$file"; done | sort -u`)
	var undo []func()
	for _, file := range strings.Fields(tools) {
		t.MustRun(node1, "mount", "--bind", "/bin/false", file)
		undo = append(undo, t.UndoOnce(node1, "umount", "-l", file)) // it may be running
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}

// flush removes the rules of the proxiers from node 1, as a firewall that is reloaded does. It leaves what else is there:
// a node of kind finds the others by rules that Docker made in it.
func flush(t *trial) {
	const chains = `for tool in iptables-legacy ip6tables-legacy iptables-nft ip6tables-nft; do for table in nat filter mangle; do
		command -v $tool-save >/dev/null || continue
		$tool-save -t $table 2>/dev/null | awk -v table=$table '
			/^:KUBE-/ { chain = substr($1, 2); flushed = flushed "-F " chain "\n"; removed = removed "-X " chain "\n" }
			/^-A / && $2 !~ /^KUBE-/ && / -j KUBE-/ { sub("-A", "-D"); jumps = jumps $0 "\n" }
			END { if (flushed) printf "*%s\n%s%s%sCOMMIT\n", table, jumps, flushed, removed }' >/run/flush
		[ ! -s /run/flush ] || $tool-restore --noflush -w 5 </run/flush || exit
		rm -f /run/flush
	done; done`
	t.MustRun(node1, "sh", "-c", chains)
	const tables = `nft list tables | while read -r _ table; do case $table in
		*" kube-proxy" | *" proxylab") nft delete table $table;; esac; done`
	if t.Mode() == "nftables" { // a kernel without them has nothing to flush
		t.MustRun(node1, "sh", "-c", tables)
	}
}

// resident is the memory that the proxier of node 1 says it has, in bytes.
func resident(t *trial) float64 {
	server := c.Target{Network: "http", Addr: metrics, What: "metrics server"}
	got := t.Ask(node1, server).Path("/metrics").Times(1).Answers("status 200")
	for line := range strings.Lines(got.Said) {
		if after, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			var bytes float64
			if _, err := fmt.Sscan(after, &bytes); err == nil {
				return bytes
			}
		}
	}
	t.NotApplicable("the proxier does not tell its memory")
	return 0
}
