package cloud

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// manyPorts counts writes: the whole tree is one, a node is one for each pool, and what has not changed is none.
func manyPorts(t *testing.T) {
	r := newRig(t)
	all, nodes := portsAndNodes(5, 20)
	r.nodes = nodes
	svc := r.add(newService(ports(all...)))
	r.ensure(svc)
	if d := cmp.Diff([]string{"POST loadbalancers"}, r.writes()); d != "" {
		t.Error("create", d)
	}
	r.right(svc)
	r.nodes = append(r.nodes, node("node-z", "10.0.0.99"))
	if err := r.p.UpdateLoadBalancer(t.Context(), "kubernetes", r.now(svc), r.nodes); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(slices.Repeat([]string{"PUT members"}, 5), r.writes()); d != "" {
		t.Error("node", d)
	}
	for _, p := range r.tree(svc).Pools {
		if len(p.Members) != 21 {
			t.Errorf("%s has %d members", p.Name, len(p.Members))
		}
	}
	r.writes()
	r.remove(svc)
	if d := cmp.Diff(1, len(r.writes())); d != "" {
		t.Error("delete", d)
	}
}

func portsAndNodes(nports, nnodes int) (all []corev1.ServicePort, nodes []*corev1.Node) {
	for n := range nports {
		all = append(all, port("TCP", int32(80+n), int32(30080+n)))
	}
	for n := range nnodes {
		nodes = append(nodes, node(fmt.Sprintf("node-%02d", n), fmt.Sprintf("10.0.1.%d", n+1)))
	}
	return all, nodes
}

// BenchmarkManyPorts is row cpo 2858 with the latency of a cloud: a balancer of 5 ports and 20 nodes is made, gets a node
// and goes; and what that takes of requests.
func BenchmarkManyPorts(b *testing.B) {
	r := newRig(b, func(s *setup) { s.server.ProvisionDelay, s.options.Balancers.Wait = 200*time.Millisecond, Wait{} })
	all, nodes := portsAndNodes(5, 20)
	reads, writes := 0, 0
	for b.Loop() {
		svc := newService(ports(all...))
		r.nodes = nodes
		if _, err := r.p.EnsureLoadBalancer(b.Context(), "", r.add(svc), r.nodes); err != nil {
			b.Fatal(err)
		}
		r.nodes = slices.Concat(nodes, []*corev1.Node{node("node-new", "10.0.2.1")})
		if err := r.p.UpdateLoadBalancer(b.Context(), "", r.now(svc), r.nodes); err != nil {
			b.Fatal(err)
		}
		r.remove(svc)
		if err := r.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("services"), "default", "web"); err != nil {
			b.Fatal(err)
		}
		reads += r.reads()
		writes += len(r.writes())
	}
	b.ReportMetric(float64(reads)/float64(b.N), "reads/op")
	b.ReportMetric(float64(writes)/float64(b.N), "writes/op")
}

func emptied(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	h := r.tree(svc)
	for _, p := range h.Pools {
		r.write(h.Balancer.ID, step{Kind: setMembers, ID: p.ID, Members: &memberChange{All: []batchMember{}}})
	}
	if err := r.drift(svc); err != nil {
		t.Fatal(err)
	}
	r.said("RepairedLoadBalancer", "set members of pool 80/TCP +node-1 +node-2; set members of pool 53/UDP +node-1 +node-2")
	for _, p := range r.tree(svc).Pools {
		if len(p.Members) != 2 {
			t.Errorf("%s: %+v", p.Name, p.Members)
		}
	}
	r.right(svc)
}

func partsChanged(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService(localPolicy))
	r.ensure(svc)
	h := r.tree(svc)
	r.write(h.Balancer.ID,
		step{Kind: deleteMonitor, ID: h.Pools[0].Monitor.ID},
		step{Kind: updateMonitor, ID: h.Pools[1].Monitor.ID, Patch: patch{"delay": 60}},
		step{Kind: setMembers, ID: h.Pools[0].ID, Members: &memberChange{All: []batchMember{{"address": "10.9.9.9", "protocol_port": 1}}}},
		step{Kind: updateListener, ID: h.Listeners[0].ID, Patch: patch{"connection_limit": 1}},
		step{Kind: deleteListener, ID: h.Listeners[1].ID},
	)
	if err := r.drift(svc); err != nil {
		t.Fatal(err)
	}
	r.right(svc)
	if h := r.tree(svc); len(h.Listeners) != 2 || len(h.Pools) != 2 || h.Pools[0].Monitor == nil || h.Pools[1].Monitor == nil {
		t.Errorf("%+v", h)
	}
}

func localUDP(t *testing.T) {
	r := newRig(t, func(s *setup) { s.server.Version = "v2.15" })
	svc := r.add(newService(localPolicy))
	status := r.ensure(svc)
	r.said("MonitorRequired", "2.15 has no HTTP monitor for UDP")
	if d := cmp.Diff("loadbalancer.openstack.org/MonitorRequired", *status.Ingress[0].Ports[0].Error); d != "" || status.Ingress[0].Ports[0].Port != 53 {
		t.Errorf("%+v", status)
	}
	if h := r.tree(svc); len(h.Listeners) != 1 || h.Pools[0].Monitor.Type != "HTTP" || h.Pools[0].Members[0].MonitorPort != 32000 {
		t.Errorf("%+v", h)
	}
	r.change(svc, ports(port("UDP", 53, 30053)))
	if _, err := r.try(svc); err == nil || !strings.Contains(err.Error(), "port 53/UDP: externalTrafficPolicy is Local") {
		t.Errorf("nothing but what cannot be had: %v", err)
	}
}

func proxyLater(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService(ports(port("TCP", 80, 30080))))
	if mode := *r.ensure(svc).Ingress[0].IPMode; mode != corev1.LoadBalancerIPModeVIP {
		t.Error(mode)
	}
	before := r.tree(svc)
	r.change(svc, annotated(annProxy, "true"))
	if mode := *r.ensure(svc).Ingress[0].IPMode; mode != corev1.LoadBalancerIPModeProxy {
		t.Error(mode)
	}
	after := r.tree(svc)
	if after.Listeners[0].ID != before.Listeners[0].ID || len(after.Pools) != 1 || after.Pools[0].Protocol != "PROXY" || len(after.Pools[0].Members) != 2 {
		t.Errorf("%+v", after)
	}
	// The listener changes over to a pool that is whole, and only then the old one goes.
	if d := cmp.Diff([]string{"POST loadbalancers", "POST pools", "PUT members", "PUT listeners", "DELETE pools"}, r.writes()); d != "" {
		t.Error(d)
	}
	r.right(svc)
}

func affinity(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	for _, want := range []bool{true, false, true} {
		r.change(svc, func(s *corev1.Service) {
			s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
			if want {
				clientIP(90)(s)
			}
		})
		r.ensure(svc)
		for _, p := range r.tree(svc).Pools {
			if (p.Persistence != nil) != want || (want && p.Protocol == "UDP" && *p.Persistence.Timeout != 90) {
				t.Errorf("affinity %v: %s %+v", want, p.Protocol, p.Persistence)
			}
		}
		r.right(svc)
	}
}

func mixedProxy(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService(annotated(annProxy, "v2")))
	r.ensure(svc)
	protocols := func() (all []string, ids []string) {
		for _, p := range r.tree(svc).Pools {
			all, ids = append(all, p.Protocol), append(ids, p.ID)
		}
		slices.Sort(all)
		return all, ids
	}
	first, ids := protocols()
	if d := cmp.Diff([]string{"PROXYV2", "UDP"}, first); d != "" {
		t.Error(d)
	}
	r.right(svc)
	if _, again := protocols(); cmp.Diff(ids, again) != "" {
		t.Errorf("pools were %v, are %v", ids, again)
	}
}

func orphaned(t *testing.T) {
	r := newRig(t)
	kept, gone := r.add(newService()), r.add(newService(func(s *corev1.Service) { s.Name = "gone" }))
	r.ensure(kept)
	r.ensure(gone)
	if err := r.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("services"), "default", "gone"); err != nil {
		t.Fatal(err)
	}
	if err := r.p.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b := r.only(); b.Name != balancerName("kubernetes", kept) {
		t.Errorf("%+v", b)
	}
	r.right(kept)
	// A stale member goes with its node.
	r.nodes = r.nodes[:1]
	if err := r.p.UpdateLoadBalancer(t.Context(), "kubernetes", r.now(kept), r.nodes); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.tree(kept).Pools {
		if len(p.Members) != 1 {
			t.Errorf("%+v", p.Members)
		}
	}
}

func notReady(t *testing.T) {
	r := newRig(t)
	r.nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	excluded, included := node("node-3", "10.0.0.13"), node("node-4", "10.0.0.14")
	excluded.Labels[corev1.LabelNodeExcludeBalancers] = ""
	included.Labels[corev1.LabelNodeExcludeBalancers] = "false"
	tainted := node("node-5", "10.0.0.15")
	tainted.Spec.Taints = []corev1.Taint{{Key: deletedTaint}}
	var names []string
	for _, n := range eligible(append(r.nodes, excluded, included, tainted)) {
		names = append(names, n.Name)
	}
	if d := cmp.Diff([]string{"node-1", "node-2", "node-4"}, names); d != "" {
		t.Error(d)
	}
	svc := r.add(newService())
	r.ensure(svc)
	if m := r.tree(svc).Pools[0].Members; len(m) != 2 {
		t.Errorf("%+v", m)
	}
}
