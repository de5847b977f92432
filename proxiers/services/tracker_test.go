package services

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestSeveralSlicesOfAService(t *testing.T) {
	tr := track(endpointSlice("s2", endpoint{addr: "10.0.0.2"}, endpoint{addr: "10.0.0.1"}),
		endpointSlice("s1", endpoint{addr: "10.0.0.1", notReady: true}, endpoint{addr: "10.0.0.3"}), service())
	first := tr.Snapshot()
	want := []string{"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"}
	if got := addrs(first.Ports[key()].ClusterEndpoints); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	tr.DeleteSlice("ns", "s2")
	if got := addrs(tr.Snapshot().Ports[key()].ClusterEndpoints); !reflect.DeepEqual(got, want[2:]) {
		t.Errorf("%v", got)
	}
	if got := addrs(first.Ports[key()].ClusterEndpoints); !reflect.DeepEqual(got, want) {
		t.Errorf("the snapshot before this one changed: %v", got)
	}
}

func TestSliceMovesToAnotherService(t *testing.T) {
	other := service(func(s *corev1.Service) { s.Name = "other" })
	tr := track(service(), other, endpointSlice("s", endpoint{addr: "10.0.0.1"}))
	tr.Synced(tr.Snapshot())
	moved := endpointSlice("s", endpoint{addr: "10.0.0.1"})
	moved.Labels[discoveryv1.LabelServiceName] = "other"
	tr.SetSlice(moved)
	s := tr.Snapshot()
	otherKey := key(func(k *Key) { k.Service = "other" })
	if s.Ports[key()].HasAnyEndpoints || !s.Ports[otherKey].HasAnyEndpoints || len(s.Changed) != 2 {
		t.Errorf("%+v", s)
	}
}

func TestWhatNeedsASync(t *testing.T) {
	tr := track(service(), endpointSlice("s", endpoint{addr: "10.0.0.1"}))
	same := endpointSlice("s", endpoint{addr: "10.0.0.1"})
	same.ResourceVersion, same.Annotations = "99", map[string]string{"x": "y"}
	labelled := service(func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
	orphan := endpointSlice("o", endpoint{addr: "10.0.0.1"})
	orphan.Labels[discoveryv1.LabelServiceName] = "nobody"
	for what, needed := range map[string]bool{
		"slice says the same":         tr.SetSlice(same),
		"Service says the same":       tr.SetService(labelled),
		"slice of no Service":         tr.SetSlice(orphan),
		"slice of no Service is gone": tr.DeleteSlice("ns", "o"),
		"unknown slice is gone":       tr.DeleteSlice("ns", "unknown"),
		"unknown Service is gone":     tr.DeleteService("ns", "unknown"),
		"node says the same":          tr.SetNode(node()),
		"another node":                tr.SetNode(node(func(n *corev1.Node) { n.Name = "node2" })),
	} {
		if needed {
			t.Errorf("%s: asks for a sync", what)
		}
	}
	if !tr.SetSlice(endpointSlice("s", endpoint{addr: "10.0.0.2"})) || !tr.DeleteService("ns", "web") {
		t.Error("a change does not ask for a sync")
	}
}

func TestNode(t *testing.T) {
	tr := track(service(), endpointSlice("s", endpoint{addr: "10.0.0.1", forZone: "zone1"}, endpoint{addr: "10.0.0.2", forZone: "zone2"}))
	s := tr.Snapshot()
	if got := s.Node.Addresses; len(got) != 3 || got[0] != addr("10.10.0.11") || got[2] != addr("192.0.2.1") {
		t.Errorf("%v", got)
	}
	if s.Node.Addr(IPv6) != addr("fd00:10:10::b") || len(s.Node.PodCIDRs) != 2 || !s.Full {
		t.Errorf("%+v", s)
	}
	tr.Synced(s)
	if s = tr.Snapshot(); s.Full || len(s.Changed) != 0 {
		t.Errorf("%+v", s)
	}
	tr.SetNode(node(func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "zone2" }))
	s = tr.Snapshot()
	if got := addrs(s.Ports[key()].ClusterEndpoints); !s.Full || len(s.Changed) != 1 || got[0] != "10.0.0.2:8080" {
		t.Errorf("%+v", s)
	}
	// A node that changes while a snapshot is being synced asks for another full pass.
	tr.SetNode(node())
	tr.Synced(s)
	if s = tr.Snapshot(); !s.Full || len(s.Changed) != 1 {
		t.Errorf("%+v", s)
	}
}

func TestFailedSyncKeepsItsChanges(t *testing.T) {
	tr := track(service(), endpointSlice("s", endpoint{addr: "10.0.0.1"}))
	tr.Synced(tr.Snapshot())
	tr.SetSlice(endpointSlice("s", endpoint{addr: "10.0.0.2"}))
	failed := tr.Snapshot()
	// Back to what the node was last synced to: but the failed sync may have written half of something else.
	tr.SetSlice(endpointSlice("s", endpoint{addr: "10.0.0.1"}))
	retry := tr.Snapshot()
	if _, there := retry.Changed[key()]; !there {
		t.Error("the change of the failed sync is lost")
	}
	if tr.Synced(failed); len(tr.Snapshot().Changed) != 1 {
		t.Error("an old snapshot was acknowledged")
	}
	tr.Synced(tr.Snapshot())
	if s := tr.Snapshot(); len(s.Changed) != 0 {
		t.Errorf("%+v", s.Changed)
	}
	// There and back between two syncs is no change at all.
	tr.SetSlice(endpointSlice("s", endpoint{addr: "10.0.0.2"}))
	tr.Synced(Snapshot{}) // not one of the tracker's
	tr.SetSlice(endpointSlice("s", endpoint{addr: "10.0.0.1"}))
	if s := tr.Snapshot(); len(s.Changed) != 0 {
		t.Errorf("%+v", s.Changed)
	}
}

func TestStatsAndTriggers(t *testing.T) {
	at := func(d time.Duration) *discoveryv1.EndpointSlice {
		s := endpointSlice("s", endpoint{addr: "10.0.0." + string(rune('1'+int(d/time.Second)%9))})
		s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: began.Add(d).Format(time.RFC3339Nano)}
		return s
	}
	tr := track(service(), at(-time.Second))
	tr.SetSlice(at(time.Second))
	if got, want := tr.Stats(), (Stats{1, 1, 2, 2}); got != want {
		t.Errorf("%+v", got)
	}
	s := tr.Snapshot()
	tr.SetSlice(at(2 * time.Second))
	tr.SetService(service(func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }))
	if got, want := tr.Stats(), (Stats{2, 1, 3, 3}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := tr.Synced(s), []Trigger{{IPv4, began.Add(time.Second)}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if got, want := tr.Stats(), (Stats{2, 1, 3, 1}); got != want {
		t.Errorf("%+v", got)
	}
	tr.DeleteSlice("ns", "s")
	if got := tr.Synced(tr.Snapshot()); got != nil {
		t.Errorf("trigger of a slice that is gone: %v", got)
	}
	if got, want := tr.Stats(), (Stats{2, 0, 4, 0}); got != want {
		t.Errorf("%+v", got)
	}
}
