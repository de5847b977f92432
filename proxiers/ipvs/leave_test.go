package ipvs

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/iptables"
	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/services"
)

// dump is all that a mode could leave on the node, without counters.
func (n *node) dump() string {
	var out strings.Builder
	out.WriteString(n.IptablesRules())
	out.WriteString(n.MustExec(bed.Node, "ipset", "save"))
	out.WriteString(n.MustExec(bed.Node, "ip", "-br", "link"))
	out.WriteString(n.servers())
	out.WriteString(n.MustExec(bed.Node, "sh", "-c", "cd /proc/sys/net/ipv4; grep . vs/conntrack vs/conn_reuse_mode vs/expire* ip_forward conf/eth0/arp_*"))
	return out.String()
}

func (n *node) inNode(f func() error) {
	n.t.Helper()
	if err := n.RunInNode(f); err != nil {
		n.t.Error(err)
	}
}

// keepalived puts a virtual server of somebody else's, on an address of its own, into the table.
func (n *node) keepalived() {
	n.t.Helper()
	n.MustExec(bed.Node, "ip", "addr", "add", "10.10.0.99/32", "dev", "eth0")
	n.inNode(func() error {
		k, end, err := kernel.Open()
		if err != nil {
			return err
		}
		defer end()
		return k.Table.AddServer(kernel.Server{Key: key("TCP 10.10.0.99:8443"), Scheduler: "wlc"})
	})
}

// What others have is there after any sync and after the clean-up, whoever does it; of ours nothing is.
func TestCleanupLeavesTheNodeAsItWas(t *testing.T) {
	eachBackend(t, func(n *node) {
		n.keepalived()
		everything := func() {
			n.Sync(with(web("local1", "remote1"), bed.NodePort(30080), bed.Affinity(1e9)), dns("remote1"))
		}
		n.Sync() // tables come up that stay, empty, as long as the namespace
		clean := func() {
			t.Helper()
			n.Last = services.Snapshot{}
			if err := n.Running.Cleanup(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		clean()
		before := n.dump()
		if strings.Contains(before, "KUBE-") || !strings.Contains(before, "TCP  0A0A0063:20FB wlc") {
			t.Fatalf("%s", before)
		}
		everything()
		clean()
		if after := n.dump(); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		everything()
		n.Only("again", n.UDP(bed.Client, vip(2, false), 1), "remote1")
		n.Running.Kill()
		n.inNode(func() error {
			left, err := Leftovers(t.Context())
			all := strings.Join(left, "\n")
			for _, want := range []string{"link kube-ipvs0", "ipset KUBE-CLUSTER-IP", "virtual server TCP 10.96.0.1:80", "virtual server TCP 10.10.0.11:30080",
				" filter KUBE-IPVS-FILTER"} {
				if !strings.Contains(all, want) {
					t.Errorf("%q is not among what is left: %s", want, all)
				}
			}
			if strings.Contains(all, "10.10.0.99:8443") {
				t.Errorf("somebody else's is: %s", all)
			}
			return err
		})
		n.inNode(func() error { return Cleanup(t.Context(), false, slog.Default()) })
		if after := n.dump(); after != before {
			t.Errorf("by another process, before:\n%s\nafter:\n%s", before, after)
		}
	})
}

// Mode iptables is replaced in one transaction and leaves nothing; and back.
func TestTakeover(t *testing.T) {
	n := newNode(t, "iptables/legacy")
	list := []bed.Service{with(web("local1", "remote1"), bed.NodePort(30080)), dns("remote1")}
	n.Sync(list...)
	open, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, false))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	n.Running.Stop()
	n.Name = "legacy"
	n.Start()
	n.Sync(list...)
	n.inNode(func() error { return iptables.CleanupExcept(t.Context(), IsSharedChain, slog.Default()) })
	if err := open.Echo("over the change of mode"); err != nil {
		t.Error(err)
	}
	n.Only("by ipvs", n.TCP(bed.Client, vip(1, false), 4), "local1", "remote1")
	if d := n.dump(); strings.Contains(d, "KUBE-SVC-") || strings.Contains(d, "KUBE-NODEPORTS") || strings.Contains(d, "load balancer firewall") ||
		!strings.Contains(d, "KUBE-IPVS-FILTER") {
		t.Errorf("%s", d)
	}
	n.Running.Stop()
	n.Name = "iptables/legacy"
	n.Start()
	n.Sync(list...)
	n.inNode(func() error { return Cleanup(t.Context(), true, slog.Default()) })
	n.Only("by iptables", n.TCP(bed.Client, vip(1, false), 30), "local1", "remote1")
	if d := n.dump(); strings.Contains(d, "kube-ipvs0") || strings.Contains(d, "KUBE-CLUSTER-IP") || strings.Contains(d, "kube-proxy firewall rules") ||
		strings.Contains(d, "KUBE-IPVS") || strings.Contains(d, "0A600001") || !strings.Contains(d, "KUBE-SVC-") {
		t.Errorf("%s", d)
	}
}
