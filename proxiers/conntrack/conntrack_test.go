package conntrack

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"proxylab/proxiers/services"
)

// fakeTable is a conntrack table without a kernel.
type fakeTable struct {
	flows map[services.Family][]Flow
	dumps int
	err   error
}

func (f *fakeTable) deleteIf(_ context.Context, fam services.Family, stale func(Flow) bool) (removed int, err error) {
	f.dumps++
	if f.err != nil {
		return 0, f.err
	}
	var kept []Flow
	for _, flow := range f.flows[fam] {
		if stale(flow) {
			removed++
		} else {
			kept = append(kept, flow)
		}
	}
	f.flows[fam] = kept
	return removed, nil
}

func (f *fakeTable) localAddrs(services.Family) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("10.10.0.11")}, nil
}

func newTracker(f *fakeTable) *Tracker {
	t := New(Options{Log: slog.New(slog.DiscardHandler)})
	t.table = f
	return t
}

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func port(vip string, nodePort uint16, endpoints ...string) *services.ServicePort {
	sp := &services.ServicePort{ClusterIP: netip.MustParseAddr(vip), Port: 53, NodePort: nodePort,
		Key: services.Key{Namespace: "n", Service: vip, Protocol: corev1.ProtocolUDP, Family: services.IPv4}}
	for _, ep := range endpoints {
		sp.ClusterEndpoints = append(sp.ClusterEndpoints, services.Endpoint{Addr: ap(ep)})
	}
	return sp
}

func snapshot(ports ...*services.ServicePort) services.Snapshot {
	s := services.Snapshot{Ports: map[services.Key]*services.ServicePort{}, Changed: map[services.Key]struct{}{}}
	for _, p := range ports {
		s.Ports[p.Key] = p
		s.Changed[p.Key] = struct{}{}
	}
	return s
}

// Each step is a sync; the flows are there before it.
func TestStaleFlows(t *testing.T) {
	const a, b, vip = "10.244.0.1:53", "10.244.0.2:53", "10.96.0.1"
	to := func(dst, ep string) Flow { return Flow{ap(dst), ap(ep)} }
	live, dead, raw := to(vip+":53", a), to(vip+":53", b), to(vip+":53", vip+":53")
	nodeDead, elsewhere := to("10.10.0.11:30053", b), to("10.10.0.12:30053", b)
	serving := port(vip, 0, a)
	serving.ServingEndpoints = []netip.AddrPort{ap(b)}
	for _, c := range []struct {
		name   string
		before []*services.ServicePort // state of an earlier sync; nil: this is the first
		now    []*services.ServicePort
		flows  []Flow
		left   []Flow
		dumps  int
	}{
		{"first sync keeps live flows and removes dead ones", nil, []*services.ServicePort{port(vip, 0, a)},
			[]Flow{live, dead, raw}, []Flow{live}, 1},
		{"first sync without endpoints", nil, []*services.ServicePort{port(vip, 0)}, []Flow{dead, raw}, nil, 1},
		{"an endpoint goes", []*services.ServicePort{port(vip, 0, a, b)}, []*services.ServicePort{port(vip, 0, a)},
			[]Flow{live, dead}, []Flow{live}, 1},
		{"it still serves", []*services.ServicePort{port(vip, 0, a, b)}, []*services.ServicePort{serving},
			[]Flow{live, dead}, []Flow{live, dead}, 0},
		{"the last one goes", []*services.ServicePort{port(vip, 30053, b)}, []*services.ServicePort{port(vip, 30053)},
			[]Flow{dead, nodeDead, elsewhere}, []Flow{elsewhere}, 1},
		{"an endpoint comes", []*services.ServicePort{port(vip, 0, a)}, []*services.ServicePort{port(vip, 0, a, b)},
			[]Flow{live}, []Flow{live}, 0},
		{"the first one comes", []*services.ServicePort{port(vip, 0)}, []*services.ServicePort{port(vip, 0, a)},
			[]Flow{raw}, nil, 1},
		{"a Service comes", []*services.ServicePort{}, []*services.ServicePort{port(vip, 0, a)}, []Flow{raw}, nil, 1},
		{"a Service without endpoints comes", []*services.ServicePort{}, []*services.ServicePort{port(vip, 0)}, nil, nil, 0},
		{"a Service goes", []*services.ServicePort{port(vip, 30053, b)}, nil, []Flow{dead, nodeDead, elsewhere}, []Flow{elsewhere}, 1},
		{"a node port is another", []*services.ServicePort{port(vip, 30053, b)}, []*services.ServicePort{port(vip, 30054, b)},
			[]Flow{dead, nodeDead, elsewhere}, []Flow{dead, elsewhere}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := &fakeTable{flows: map[services.Family][]Flow{}}
			tr := newTracker(table)
			if c.before != nil {
				if _, err := tr.Sync(context.Background(), snapshot(c.before...)); err != nil {
					t.Fatal(err)
				}
			}
			table.flows[services.IPv4], table.dumps = c.flows, 0
			want := snapshot(c.now...)
			for _, p := range c.before {
				want.Changed[p.Key] = struct{}{}
			}
			n, err := tr.Sync(context.Background(), want)
			left := table.flows[services.IPv4]
			if err != nil || n != len(c.flows)-len(left) || len(left) != len(c.left) || table.dumps != c.dumps {
				t.Fatalf("removed %d in %d listings, left %v, %v", n, table.dumps, left, err)
			}
			for i := range left {
				if left[i] != c.left[i] {
					t.Errorf("left %v, want %v", left, c.left)
				}
			}
		})
	}
}

func TestTCPIsLeftAlone(t *testing.T) {
	table := &fakeTable{}
	tr := newTracker(table)
	p := port("10.96.0.1", 0, "10.244.0.1:53")
	p.Protocol = corev1.ProtocolTCP
	if _, err := tr.Sync(context.Background(), snapshot(p)); err != nil || table.dumps != 0 {
		t.Errorf("%d listings, %v", table.dumps, err)
	}
}

// What a failure left is removed later, by what the Service is then.
func TestFailureIsMadeUpFor(t *testing.T) {
	const vip, a, b = "10.96.0.1", "10.244.0.1:53", "10.244.0.2:53"
	table := &fakeTable{flows: map[services.Family][]Flow{}}
	tr := newTracker(table)
	mustSync := func(want services.Snapshot) {
		t.Helper()
		if _, err := tr.Sync(context.Background(), want); err != nil {
			t.Fatal(err)
		}
	}
	mustSync(snapshot(port(vip, 0, a, b)))
	table.flows[services.IPv4] = []Flow{{ap(vip + ":53"), ap(a)}, {ap(vip + ":53"), ap(b)}}
	table.err = errors.New("no memory")
	if _, err := tr.Sync(context.Background(), snapshot(port(vip, 0, a))); err == nil {
		t.Fatal("no error")
	}
	table.err = nil
	mustSync(snapshot(port(vip, 0, a, b))) // it came back meanwhile
	if n := len(table.flows[services.IPv4]); n != 2 {
		t.Errorf("%d flows left, both are alive", n)
	}
}

// An address that moves from one Service to another in one sync, in whatever order the two are looked at, keeps the
// flows of its new owner.
func TestAddressMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ext := netip.MustParseAddr("203.0.113.1")
		table := &fakeTable{flows: map[services.Family][]Flow{}}
		tr := newTracker(table)
		p, q := port("10.96.0.1", 0, "10.244.0.1:53"), port("10.96.0.2", 0, "10.244.0.2:53")
		p.ExternalIPs = []netip.Addr{ext}
		_, _ = tr.Sync(context.Background(), snapshot(p, q))
		p2, q2 := *p, *q
		p2.ExternalIPs, q2.ExternalIPs = nil, []netip.Addr{ext}
		table.flows[services.IPv4] = []Flow{{netip.AddrPortFrom(ext, 53), ap("10.244.0.1:53")}, {netip.AddrPortFrom(ext, 53), ap("10.244.0.2:53")}}
		want := snapshot(&p2, &q2)
		want.Full = rapid.Bool().Draw(t, "full")
		if n, err := tr.Sync(context.Background(), want); n != 1 || err != nil {
			t.Fatalf("removed %d, %v", n, err)
		}
	})
}

// The kernel's table can be read where the test runs.
func TestKernelTable(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, f := range []services.Family{services.IPv4, services.IPv6} {
		n, err := kernel{}.deleteIf(ctx, f, func(Flow) bool { return false })
		if err != nil {
			t.Skipf("conntrack cannot be read here: %v", err)
		}
		if n != 0 {
			t.Errorf("%d flows removed", n)
		}
	}
}
