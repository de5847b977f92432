package nftables

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

// ask sends a datagram of a flow; the answer's pod, or what kind of failure.
func ask(u *bed.UDP) string {
	a, err := u.Ask()
	if err != nil {
		return bed.Kind(err)
	}
	return a.Pod
}

func (n *node) flow(from string, port uint16, to netip.AddrPort) *bed.UDP {
	n.t.Helper()
	u, err := n.OpenUDP(bed.From{Place: from, Port: port}, to)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { u.Close() })
	return u
}

// A UDP flow leaves a dead endpoint at the sync that removes it, keeps a live one, and is refused when there is none.
// https://issues.k8s.io/19029, https://issues.k8s.io/139628
func TestUDPFlowsLeaveDeadEndpoints(t *testing.T) {
	n := newNode(t)
	list := func(pods ...string) bed.Service { return with(dns(pods...), bed.NodePort(30053)) }
	for _, v6 := range both {
		n.sync(list("local1"))
		port := map[bool]uint16{false: 5000, true: 5600}[v6] // one for each family: sockets stay open
		flows := map[string]*bed.UDP{
			"cluster IP": n.flow(bed.Client, port, vip(2, v6)),
			"node port":  n.flow(bed.Outside, port, onNode(v6, 30053)),
		}
		expect := func(when, pod string) {
			t.Helper()
			for name, u := range flows {
				if got := ask(u); got != pod {
					t.Errorf("IPv6 %v, %s, %s: %s, want %s", v6, name, when, got, pod)
				}
			}
		}
		expect("at first", "local1")
		if r := n.sync(list("local1", "remote1")); r.StaleFlows != 0 {
			t.Errorf("%d flows removed although none is stale", r.StaleFlows)
		}
		expect("with another one", "local1")
		if r := n.sync(list("remote1")); r.StaleFlows != 2 {
			t.Errorf("%d flows removed, want 2", r.StaleFlows)
		}
		expect("after its end", "remote1")
		n.sync(list())
		expect("with none", bed.KindRefused)
		n.sync(list("local2"))
		expect("with one again", "local2")
	}
}

// Packets that were sent before the Service existed leave entries that must not keep the flow broken.
// https://issues.k8s.io/48370
func TestUDPSenderBeforeTheService(t *testing.T) {
	n := newNode(t)
	n.sync(web("local1"))
	for _, v6 := range both {
		u := n.flow(bed.Client, map[bool]uint16{false: 5001, true: 5601}[v6], vip(2, v6))
		if got := ask(u); got == "local1" {
			t.Error("an answer before there is a Service")
		}
		n.sync(web("local1"), dns("local1"))
		if got := ask(u); got != "local1" {
			t.Errorf("IPv6 %v: %s after the Service was made", v6, got)
		}
		n.sync(web("local1"))
	}
}

// A restart leaves live flows where they are, and TCP untouched; it removes what died meanwhile.
// https://issues.k8s.io/122740
func TestRestart(t *testing.T) {
	n := newNode(t)
	all := []string{"local1", "local2", "remote1", "remote2"}
	n.sync(web(all...), dns(all...))
	flows, at := map[int]*bed.UDP{}, map[int]string{}
	for i := range 16 {
		flows[i] = n.flow(bed.Client, uint16(6000+i), vip(2, i%2 == 1))
		at[i] = ask(flows[i])
	}
	tcp, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, false))
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	n.proxier.Kill()
	n.only("while it is down", n.tcp(bed.Client, vip(1, false), many), all...)
	n.start()
	if r := n.sync(web(all...), dns(all...)); r.StaleFlows != 0 {
		t.Errorf("a restart removed %d flows", r.StaleFlows)
	}
	for i, u := range flows {
		if got := ask(u); got != at[i] {
			t.Errorf("flow %d moved from %s to %s", i, at[i], got)
		}
	}
	if err := tcp.Echo("still there"); err != nil {
		t.Error(err)
	}
	n.proxier.Kill()
	n.start()
	n.sync(web("local1"), dns("local1"))
	for i, u := range flows {
		if got := ask(u); got != "local1" {
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
	n.sync(list(all...)...)
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
	for i := range 10 {
		n.sync(list(all[i%3:]...)...)
		n.sync(list(all...)...)
		n.MustExec(bed.Node, "nft", "add", "chain", "ip", Table, "stray")
		n.resync(true)
		if i%3 == 0 {
			n.proxier.Kill()
			n.start()
			n.sync(list(all...)...)
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
	n.sync(with(dns("local1"), bed.NodePort(30053)))
	u := n.flow(bed.Client, 5002, netip.AddrPortFrom(bed.NodeAddr(2, false), 30053))
	if got := ask(u); got != bed.Node2 {
		t.Fatalf("%s", got)
	}
	if r := n.sync(with(dns("remote1"), bed.NodePort(30053))); r.StaleFlows != 0 {
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
	n.sync(web("remote1"))
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
