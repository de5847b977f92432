package nftables

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

// A UDP flow leaves a dead endpoint at the sync that removes it, keeps a live one, and is refused when there is none.
// https://issues.k8s.io/19029, https://issues.k8s.io/139628
func TestUDPFlowsLeaveDeadEndpoints(t *testing.T) {
	n := newNode(t)
	list := func(pods ...string) bed.Service { return with(dns(pods...), bed.NodePort(30053)) }
	for _, v6 := range both {
		n.Sync(list("local1"))
		port := map[bool]uint16{false: 5000, true: 5600}[v6] // one for each family: sockets stay open
		flows := map[string]*bed.UDP{
			"cluster IP": n.Flow(bed.Client, port, vip(2, v6)),
			"node port":  n.Flow(bed.Outside, port, onNode(v6, 30053)),
		}
		expect := func(when, pod string) {
			t.Helper()
			for name, u := range flows {
				if got := u.Who(); got != pod {
					t.Errorf("IPv6 %v, %s, %s: %s, want %s", v6, name, when, got, pod)
				}
			}
		}
		expect("at first", "local1")
		if r := n.Sync(list("local1", "remote1")); r.StaleFlows != 0 {
			t.Errorf("%d flows removed although none is stale", r.StaleFlows)
		}
		expect("with another one", "local1")
		if r := n.Sync(list("remote1")); r.StaleFlows != 2 {
			t.Errorf("%d flows removed, want 2", r.StaleFlows)
		}
		expect("after its end", "remote1")
		n.Sync(list())
		expect("with none", bed.KindRefused)
		n.Sync(list("local2"))
		expect("with one again", "local2")
	}
}

// A restart leaves live flows where they are, and TCP untouched; it removes what died meanwhile.
// https://issues.k8s.io/122740
func TestRestart(t *testing.T) {
	n := newNode(t)
	all := []string{"local1", "local2", "remote1", "remote2"}
	n.Sync(web(all...), dns(all...))
	flows, at := map[int]*bed.UDP{}, map[int]string{}
	for i := range 16 {
		flows[i] = n.Flow(bed.Client, uint16(6000+i), vip(2, i%2 == 1))
		at[i] = flows[i].Who()
	}
	tcp, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, false))
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	n.Running.Kill()
	n.Only("while it is down", n.TCP(bed.Client, vip(1, false), bed.OfFour), all...)
	n.Start()
	if r := n.Sync(web(all...), dns(all...)); r.StaleFlows != 0 {
		t.Errorf("a restart removed %d flows", r.StaleFlows)
	}
	for i, u := range flows {
		if got := u.Who(); got != at[i] {
			t.Errorf("flow %d moved from %s to %s", i, at[i], got)
		}
	}
	if err := tcp.Echo("still there"); err != nil {
		t.Error(err)
	}
	n.Running.Kill()
	n.Start()
	n.Sync(web("local1"), dns("local1"))
	for i, u := range flows {
		if got := u.Who(); got != "local1" {
			t.Errorf("flow %d is at %s after its endpoint ended during a restart", i, got)
		}
	}
	if err := tcp.Echo("and still"); err != nil {
		t.Errorf("an open connection ended with its endpoint's rules: %v", err)
	}
}

// No connection fails while tables are written: by parts, whole, and by a new process.
func TestNoGapInTraffic(t *testing.T) {
	n := newNode(t)
	all := []string{"local1", "local2", "remote1", "remote2"}
	list := func(pods ...string) []bed.Service {
		return []bed.Service{with(web(pods...), bed.NodePort(30080)), with(dns(pods...), sticky)}
	}
	n.Sync(list(all...)...)
	ctx, cancel := context.WithCancel(t.Context())
	var dialers sync.WaitGroup
	var failed sync.Map
	for _, v6 := range both {
		for what, dial := range map[string]func() error{
			"cluster IP": func() error { _, err := n.DialTCP(bed.Client, vip(1, v6)); return err },
			"node port":  func() error { _, err := n.DialTCP(bed.Outside, onNode(v6, 30080)); return err },
			"UDP":        func() error { _, err := n.DialUDP(bed.Client, vip(2, v6), 0); return err },
		} {
			dialers.Go(func() {
				for ctx.Err() == nil {
					if err := dial(); err != nil {
						failed.Store(what, err)
					}
				}
			})
		}
	}
	for i := range 4 {
		n.Sync(list(all[i%3:]...)...)
		n.Sync(list(all...)...)
		n.MustExec(bed.Node, "nft", "add", "chain", "ip", Table, "stray")
		n.resync(true)
		if i%3 == 0 {
			n.Running.Kill()
			n.Start()
			n.Sync(list(all...)...)
		}
	}
	cancel()
	dialers.Wait()
	failed.Range(func(what, err any) bool { t.Errorf("%s: %v", what, err); return true })
}

// Flows of others to the same port number are left alone.
func TestForeignFlowsStay(t *testing.T) {
	n := newNode(t)
	if err := n.ServeAt(bed.Node2, 0, 30053); err != nil {
		t.Fatal(err)
	}
	n.Sync(with(dns("local1"), bed.NodePort(30053)))
	u := n.Flow(bed.Client, 5002, netip.AddrPortFrom(bed.NodeAddr(2, false), 30053))
	if got := u.Who(); got != bed.Node2 {
		t.Fatalf("%s", got)
	}
	if r := n.Sync(with(dns("remote1"), bed.NodePort(30053))); r.StaleFlows != 0 {
		t.Errorf("%d flows removed", r.StaleFlows)
	}
	if out := n.MustExec(bed.Node, "conntrack", "-L", "-p", "udp"); !strings.Contains(out, "dport=30053") {
		t.Errorf("the entry is gone:\n%s", out)
	}
}

// A packet that conntrack does not understand is dropped, unless conntrack was told to be liberal.
// https://issues.k8s.io/74839
func TestInvalidPackets(t *testing.T) {
	n := newNode(t)
	n.Sync(web("remote1"))
	drops := func() bool {
		return strings.Contains(n.MustExec(bed.Node, "nft", "list", "chain", "ip", Table, "filter-forward"), "invalid drop")
	}
	if !drops() {
		t.Error("INVALID packets are not dropped")
	}
	n.MustExec(bed.Node, "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_be_liberal=1")
	n.resync(false)
	if drops() {
		t.Error("INVALID packets are dropped although conntrack is liberal")
	}
	n.MustExec(bed.Node, "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_be_liberal=0")
	n.resync(false)
	if !drops() {
		t.Error("INVALID packets are not dropped again")
	}
}
