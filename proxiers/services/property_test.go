package services

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"
)

// event is something that happens to one object. Events about different objects may be seen in any order, those
// about one object come in theirs.
type event struct {
	object string
	apply  func(*Tracker)
}

func drawService(t *rapid.T, name string) *corev1.Service {
	return service(func(s *corev1.Service) {
		s.Name = name
		s.Spec.ClusterIPs = rapid.SampledFrom([][]string{{"10.96.0.10"}, {"10.96.0.10", "fd00:10:96::a"}, {"None"}}).Draw(t, "ips")
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}[:len(s.Spec.ClusterIPs)]
		s.Spec.Ports[0].Protocol = rapid.SampledFrom([]corev1.Protocol{"TCP", "UDP"}).Draw(t, "protocol")
		if rapid.Bool().Draw(t, "second port") {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81, Protocol: "TCP"})
		}
		if rapid.Bool().Draw(t, "node port") {
			s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
		}
		if rapid.Bool().Draw(t, "external local") {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		if rapid.Bool().Draw(t, "internal local") {
			s.Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
		}
		if rapid.IntRange(0, 9).Draw(t, "other proxy") == 0 {
			s.Labels = map[string]string{proxyNameLabel: "x"}
		}
	})
}

func drawSlice(t *rapid.T, name string) *discoveryv1.EndpointSlice {
	s := endpointSlice(name)
	s.Labels[discoveryv1.LabelServiceName] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "of")
	s.Ports[0].Protocol = ptr(rapid.SampledFrom([]corev1.Protocol{"TCP", "UDP"}).Draw(t, "protocol"))
	if rapid.Bool().Draw(t, "second port") {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr("more"), Port: ptr(int32(9090)), Protocol: ptr(corev1.ProtocolTCP)})
	}
	format := "10.0.0.%d"
	if rapid.Bool().Draw(t, "v6") {
		s.AddressType, format = discoveryv1.AddressTypeIPv6, "fd00::%d"
	}
	for range rapid.IntRange(0, 4).Draw(t, "endpoints") {
		e := endpoint{
			addr:    fmt.Sprintf(format, rapid.IntRange(1, 4).Draw(t, "address")),
			node:    rapid.SampledFrom([]string{"", self, "node2"}).Draw(t, "node"),
			forZone: rapid.SampledFrom([]string{"", "zone1", "zone2"}).Draw(t, "zone hint"),
			forNode: rapid.SampledFrom([]string{"", self, "node2"}).Draw(t, "node hint"),
		}
		switch rapid.IntRange(0, 5).Draw(t, "state") {
		case 0:
			e.notReady = true
		case 1:
			e.draining = true
		case 2:
			e.stopped = true
		}
		s.Endpoints = append(s.Endpoints, e.api())
	}
	return s
}

func drawEvent(t *rapid.T) event {
	object := rapid.SampledFrom([]string{"a", "b", "s1", "s2", "s3", "node"}).Draw(t, "object")
	gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
	switch {
	case object == "node":
		zone := rapid.SampledFrom([]string{"", "zone1", "zone2"}).Draw(t, "zone")
		return event{object, func(tr *Tracker) {
			tr.SetNode(node(func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }))
		}}
	case object[0] == 's' && gone:
		return event{object, func(tr *Tracker) { tr.DeleteSlice("ns", object) }}
	case object[0] == 's':
		s := drawSlice(t, object)
		return event{object, func(tr *Tracker) { tr.SetSlice(s) }}
	case gone:
		return event{object, func(tr *Tracker) { tr.DeleteService("ns", object) }}
	}
	s := drawService(t, object)
	return event{object, func(tr *Tracker) { tr.SetService(s) }}
}

// shuffle draws another order in which the events about each object keep theirs.
func shuffle(t *rapid.T, events []event) (out []event) {
	queues := map[string][]event{}
	var objects []string
	for _, e := range events {
		queues[e.object] = append(queues[e.object], e)
		objects = append(objects, e.object)
	}
	for _, o := range rapid.Permutation(objects).Draw(t, "order") {
		out = append(out, queues[o][0])
		queues[o] = queues[o][1:]
	}
	return out
}

// TestOrderOfEventsDoesNotMatter also takes snapshots in between and acknowledges some, which must not matter either.
func TestOrderOfEventsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 25).Draw(t, "events")
		one, two := track(), track()
		for _, e := range events {
			e.apply(one)
		}
		for _, e := range shuffle(t, events) {
			e.apply(two)
			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0:
				two.Snapshot()
			case 1:
				two.Synced(two.Snapshot())
			}
		}
		a, b := one.Snapshot(), two.Snapshot()
		if !a.Node.Equal(b.Node) || !equalPorts(a.Ports, b.Ports) {
			t.Fatalf("%s\n%s", show(a.Ports), show(b.Ports))
		}
	})
}

// TestChangedIsExact: Changed is what differs from the acknowledged state, or differed in a snapshot handed out since.
func TestChangedIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := NewTracker(self, began)
		acked, want := map[Key]*ServicePort{}, map[Key]struct{}{}
		fullNode, full := Node{Name: self}, true
		var before Snapshot
		var copyBefore map[Key]ServicePort
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for _, e := range rapid.SliceOfN(rapid.Custom(drawEvent), 0, 6).Draw(t, "events") {
				e.apply(tr)
			}
			s := tr.Snapshot()
			if before.Ports != nil && !reflect.DeepEqual(deref(before.Ports), copyBefore) {
				t.Fatal("a snapshot changed before the next sync has ended")
			}
			before, copyBefore = s, deref(s.Ports)
			maps.Copy(want, differ(acked, s.Ports))
			if !maps.Equal(s.Changed, want) {
				t.Fatalf("Changed is %v, want %v", s.Changed, want)
			}
			if full = full || !s.Node.Equal(fullNode); full && !s.Full {
				t.Fatal("Full is not set")
			}
			for _, e := range rapid.SliceOfN(rapid.Custom(drawEvent), 0, 3).Draw(t, "events during the sync") {
				e.apply(tr)
			}
			if rapid.Bool().Draw(t, "sync succeeds") {
				tr.Synced(s)
				acked, want, fullNode, full = maps.Clone(s.Ports), map[Key]struct{}{}, s.Node, false
			}
		}
	})
}

func deref(ports map[Key]*ServicePort) map[Key]ServicePort {
	out := map[Key]ServicePort{}
	for k, p := range ports {
		out[k] = *p
	}
	return out
}

func equalPorts(a, b map[Key]*ServicePort) bool { return maps.EqualFunc(a, b, (*ServicePort).Equal) }

func differ(a, b map[Key]*ServicePort) map[Key]struct{} {
	out := map[Key]struct{}{}
	for _, m := range []map[Key]*ServicePort{a, b} {
		for k := range m {
			if !reflect.DeepEqual(a[k], b[k]) {
				out[k] = struct{}{}
			}
		}
	}
	return out
}

func show(ports map[Key]*ServicePort) string {
	return fmt.Sprintf("%+v", deref(ports))
}
