package ipvs

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/ipvs/kernel"
)

// A connection to a server that is removed goes on; new ones do not meet it, also from a port that met it before; the
// server is back at once when its endpoint is.
func TestDraining(t *testing.T) {
	eachBackend(t, func(n *node) {
		n.Sync(web("local1", "remote1"))
		var open *bed.TCP
		for open == nil || open.Pod != "remote1" {
			c, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, false))
			if err != nil {
				t.Fatal(err)
			}
			if c.Pod != "remote1" {
				c.Close()
				continue
			}
			open = c
		}
		defer open.Close()
		used := bed.From{Place: bed.Client, Port: 40001}
		for {
			a, err := n.DialTCPFrom(used, vip(1, false))
			if err != nil {
				t.Fatal(err)
			}
			if a.Pod == "remote1" {
				break
			}
			used.Port++
		}
		n.Sync(web("local1"))
		if err := open.Echo("still here"); err != nil {
			t.Errorf("a connection to a server that drains: %v", err)
		}
		n.Only("new ones", n.TCP(bed.Client, vip(1, false), 4), "local1")
		for range 3 {
			a, err := n.DialTCPFrom(used, vip(1, false))
			if err == nil && a.Pod != "local1" || err != nil && bed.Kind(err) != bed.KindBusyPort {
				t.Errorf("from port %d, which was used with the server that drains: %+v, %v", used.Port, a, err)
			}
		}
		n.Sync(web("local1", "remote1"))
		n.Only("back", n.TCP(bed.Client, vip(1, false), 4), "local1", "remote1")
		if err := open.Echo("and now"); err != nil {
			t.Errorf("a connection to a server that came back: %v", err)
		}
		n.Sync(web())
		n.Only("none left", n.TCP(bed.Client, vip(1, false), 1), bed.KindRefused)
		n.Only("none left, from the node", n.TCP(bed.Node, vip(1, false), 1), bed.KindRefused)
		if err := open.Echo("to the end"); err != nil {
			t.Errorf("a connection to the last server, which drains: %v", err)
		}
	})
}

// Over a restart connections go on, weights come back to 1, and what was to go still goes.
func TestRestart(t *testing.T) {
	n := newNode(t, "legacy")
	n.Sync(web("local1", "remote1"), dns("local1", "remote1"))
	flow, err := n.OpenUDP(bed.From{Place: bed.Client}, vip(2, false))
	if err != nil {
		t.Fatal(err)
	}
	defer flow.Close()
	before, err := flow.Ask()
	if err != nil {
		t.Fatal(err)
	}
	open, err := n.OpenTCP(bed.From{Place: bed.Client}, vip(1, false))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	n.Sync(web(), dns("local1", "remote1")) // all weights 0
	n.Running.Kill()
	n.Start()
	n.Sync(web("local1", "remote1"), dns("local1", "remote1"))
	if err := open.Echo("over a restart"); err != nil {
		t.Error(err)
	}
	n.Only("after the restart", n.TCP(bed.Client, vip(1, false), 4), "local1", "remote1")
	if after, err := flow.Ask(); err != nil || after.Pod != before.Pod {
		t.Errorf("a UDP flow was with %s, then %s, %v", before.Pod, after.Pod, err)
	}
}

// A UDP flow moves at the sync that removes its endpoint, and is refused when there is none.
func TestUDPFlowsMove(t *testing.T) {
	n := newNode(t, "legacy")
	n.Sync(dns("local1", "remote1"))
	for _, v6 := range both {
		flow, err := n.OpenUDP(bed.From{Place: bed.Client}, vip(2, v6))
		if err != nil {
			t.Fatal(err)
		}
		defer flow.Close()
		first, err := flow.Ask()
		if err != nil {
			t.Fatal(err)
		}
		other := map[string]string{"local1": "remote1", "remote1": "local1"}[first.Pod]
		n.Sync(dns(other))
		if a, err := flow.Ask(); err != nil || a.Pod != other {
			t.Errorf("the flow is with %s, not %s: %v", a.Pod, other, err)
		}
		n.Sync(dns())
		if a, err := flow.Ask(); bed.Kind(err) != bed.KindRefused {
			t.Errorf("without endpoints: %+v, %v", a, err)
		}
		n.Sync(dns("local1", "remote1"))
	}
}

// A datagram sent before there is a Service does not keep the flow from it.
func TestSenderBeforeTheService(t *testing.T) {
	n := newNode(t, "legacy")
	n.Sync(web("local1"))
	flow, err := n.OpenUDP(bed.From{Place: bed.Client}, vip(2, false))
	if err != nil {
		t.Fatal(err)
	}
	defer flow.Close()
	if a, err := flow.Ask(); err == nil {
		t.Fatalf("there is no Service, yet: %+v", a)
	}
	n.Sync(web("local1"), dns("local1"))
	if a, err := flow.Ask(); err != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

// The kernel has them all, and clients meet servers by those that work in ways of their own.
func TestSchedulers(t *testing.T) {
	needIPVS(t)
	for _, s := range Schedulers() {
		if err := kernel.Check(t.Context(), s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	b := bed.New(t)
	for _, s := range []string{"wlc", "sh", "mh"} {
		n := &node{Host: &bed.Host{Bed: b, Name: "scheduler/" + s}, t: t}
		n.Start()
		n.Sync(web("local1", "remote1"))
		if got := n.servers(); !strings.Contains(got, " "+s+" ") {
			t.Errorf("scheduler %s: %s", s, got)
		}
		if got := n.TCP(bed.Client, vip(1, false), 4); got["local1"]+got["remote1"] != 4 {
			t.Errorf("scheduler %s: answers %v", s, got)
		}
		n.Sync(web("local1"))
		n.Only("with one that drains, "+s, n.TCP(bed.Client, vip(1, false), 4), "local1")
		n.Running.Stop()
	}
}

func TestUnknownScheduler(t *testing.T) {
	if _, err := New(Options{Scheduler: "random"}); err == nil || !strings.Contains(err.Error(), "accepted are rr, wrr") {
		t.Errorf("%v", err)
	}
	needIPVS(t)
	err := kernel.Check(t.Context(), "random")
	if err == nil || !strings.Contains(err.Error(), "modprobe ip_vs_random") {
		t.Errorf("%v", err)
	}
}

func TestSCTPServers(t *testing.T) {
	n := newNode(t, "legacy")
	n.Sync(bed.Service{Name: "sctp", IP: bed.VIPs(6), Protocol: corev1.ProtocolSCTP, ServerPort: 9999,
		Pods: []string{"local1", "remote2"}, Edit: bed.NodePort(30999)})
	if got := n.servers(); strings.Count(got, "SCTP") < 4 {
		t.Errorf("%s", got)
	}
}
