package iptables

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

func (n *node) tool(suffix string) string {
	return xtables.Command(services.IPv4, backendOf(n.variant), suffix)
}

const foreign = `*nat
:KUBE-POD-FW-AAAAAAAAAAAAAAAA - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
-A PREROUTING -m comment --comment "not yours -j KUBE-SERVICES" -j KUBE-POD-FW-AAAAAAAAAAAAAAAA
-A KUBE-POD-FW-AAAAAAAAAAAAAAAA -p tcp -m tcp --dport 4444 -j ACCEPT
COMMIT
*filter
:KUBE-ROUTER-FORWARD - [0:0]
-A FORWARD -j KUBE-ROUTER-FORWARD
-A INPUT -p tcp -m tcp --dport 4444 -j ACCEPT
COMMIT
*mangle
:KUBE-IPTABLES-HINT - [0:0]
COMMIT
`

// What others have is there after any sync and after the clean-up; of ours nothing is.
func TestCleanupLeavesTheNodeAsItWas(t *testing.T) {
	eachOf(t, backends, func(n *node) {
		if _, err := n.Exec(bed.Node, foreign, n.tool("restore"), "--noflush"); err != nil {
			t.Fatal(err)
		}
		localnet := func() string { return n.MustExec(bed.Node, "sysctl", "-n", "net.ipv4.conf.all.route_localnet") }
		// A first clean-up makes tables come up that stay, empty, as long as the namespace.
		n.Sync()
		if err := n.Running.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		// The hint says that a kubelet is there, which shares KUBE-FIREWALL: it stays.
		n.Last = services.Snapshot{}
		before := n.IptablesRules()
		if !strings.Contains(before, "KUBE-FIREWALL") || strings.Contains(before, chainServices+" -") {
			t.Fatalf("%s: %s", n.variant, before)
		}
		n.Sync(with(web("local1", "remote1"), bed.NodePort(30080), bed.Affinity(1e9)), dns())
		if localnet() != "1\n" {
			t.Errorf("%s: route_localnet is off", n.variant)
		}
		if err := n.Running.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		after := n.IptablesRules()
		if !sameLines(before, after) {
			t.Errorf("%s: before:\n%s\nafter:\n%s", n.variant, before, after)
		}
		if localnet() != "0\n" {
			t.Errorf("%s: route_localnet is on", n.variant)
		}
		n.Last = services.Snapshot{}
		n.Sync(web("local1"))
		n.Only("after all that", n.TCP(bed.Client, vip(1, false), 1), "local1")
	})
}

func sameLines(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// A chain of ours that a foreign chain needs stays, and does not keep the rest from going.
func TestCleanupKeepsWhatForeignChainsNeed(t *testing.T) {
	eachOf(t, backends, func(n *node) {
		n.Sync(web("local1"))
		input := "*nat\n:CNI-HOSTPORT-SETMARK - [0:0]\n-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ\nCOMMIT\n"
		if _, err := n.Exec(bed.Node, input, n.tool("restore"), "--noflush"); err != nil {
			t.Fatal(err)
		}
		if err := n.Running.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		left := n.IptablesRules()
		if !strings.Contains(left, "-A KUBE-MARK-MASQ -j MARK") || strings.Contains(left, "KUBE-SERVICES") ||
			strings.Contains(left, "KUBE-FIREWALL") {
			t.Errorf("%s: left:\n%s", n.variant, left)
		}
	})
}

// What kube-proxy and older versions leave behind goes too, in the back end that is not in use as well.
func TestCleanupOfTheOtherBackend(t *testing.T) {
	eachOf(t, backends, func(n *node) {
		other := map[string]string{"legacy": "nft", "nft": "legacy"}[strings.Split(n.variant, "/")[0]]
		input := "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n" +
			"-A OUTPUT -m comment --comment \"old words\" -j KUBE-SERVICES\n-A KUBE-SERVICES -j KUBE-SVC-AAAAAAAAAAAAAAAA\nCOMMIT\n"
		if _, err := n.Exec(bed.Node, input, xtables.Command(services.IPv4, other, "restore"), "--noflush"); err != nil {
			t.Fatal(err)
		}
		n.Sync(web("local1"))
		if err := n.Running.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		if left := n.IptablesRules(); strings.Contains(left, "KUBE-") {
			t.Errorf("%s: left:\n%s", n.variant, left)
		}
	})
}

// Somebody flushes a table: the next full pass puts everything back.
func TestFlushIsRepaired(t *testing.T) {
	eachOf(t, backends, func(n *node) {
		n.Sync(web("local1"), dns())
		for _, table := range []string{"nat", "filter"} {
			before := n.IptablesRules()
			n.MustExec(bed.Node, n.tool(""), "-t", table, "-F")
			n.MustExec(bed.Node, n.tool(""), "-t", table, "-X")
			want := n.Last
			want.Full, want.Changed = true, nil
			if r, err := n.Running.Sync(context.Background(), want); err != nil || !r.Full {
				t.Fatalf("%s: %+v, %v", n.variant, r, err)
			}
			if after := n.IptablesRules(); before != after {
				t.Errorf("%s: before:\n%s\nafter:\n%s", n.variant, before, after)
			}
			if r, err := n.Running.Sync(context.Background(), want); err != nil || r.Full {
				t.Errorf("%s: nothing was wrong, yet: %+v, %v", n.variant, r, err)
			}
		}
		n.Only("repaired", n.TCP(bed.Client, vip(1, false), 1), "local1")
	})
}

// Another program holds the xtables lock: the sync fails, says so, and the next one converges.
func TestLockIsHeld(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("needs flock (package util-linux)")
	}
	t.Parallel()
	n := newNode(t, legacy)
	n.Sync(web("local1"))
	var holder *exec.Cmd
	err := n.RunInNode(func() error {
		holder = exec.Command("flock", "/run/xtables.lock", "sh", "-c", "echo held; exec cat")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stdin, _ := holder.StdinPipe()
	stdout, _ := holder.StdoutPipe()
	if err := n.RunInNode(holder.Start); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	want := n.Next(n.Last, web("local2"))
	if _, err := n.Running.Sync(context.Background(), want); err == nil || !strings.Contains(err.Error(), "xtables lock") {
		t.Errorf("with the lock held: %v", err)
	}
	n.Only("meanwhile", n.TCP(bed.Client, vip(1, false), 1), "local1")
	stdin.Close()
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	want.Full = true
	if _, err := n.Running.Sync(context.Background(), want); err != nil {
		t.Fatal(err)
	}
	n.Only("then", n.TCP(bed.Client, vip(1, false), 1), "local2")
}
