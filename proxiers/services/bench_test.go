package services

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// bulk is n dual-stack Services with four endpoints each.
func bulk(tr *Tracker, n int) {
	for i := range n {
		name := fmt.Sprintf("svc-%05d", i)
		tr.SetService(service(func(s *corev1.Service) {
			s.Name = name
			s.Spec.ClusterIP = fmt.Sprintf("10.96.%d.%d", i/250, i%250+1)
			s.Spec.ClusterIPs = []string{s.Spec.ClusterIP, fmt.Sprintf("fd00:10:96::%x", i+1)}
		}))
		tr.SetSlice(bulkSlice(name, i, 0))
		six := bulkSlice(name, i, 0)
		six.Name += "-6"
		six.AddressType = discoveryv1.AddressTypeIPv6
		for e := range six.Endpoints {
			six.Endpoints[e].Addresses = []string{fmt.Sprintf("fd00::%x:%x", i, e)}
		}
		tr.SetSlice(six)
	}
}

func bulkSlice(service string, i, round int) *discoveryv1.EndpointSlice {
	s := endpointSlice(service)
	s.Labels[discoveryv1.LabelServiceName] = service
	for e := range 4 {
		s.Endpoints = append(s.Endpoints, endpoint{addr: fmt.Sprintf("10.%d.%d.%d", round%200+e, i/250, i%250), node: self}.api())
	}
	return s
}

// BenchmarkFirstSnapshot: 10,000 Services x 4 endpoints in both families, from nothing.
func BenchmarkFirstSnapshot(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		tr := NewTracker(self, began)
		bulk(tr, 10000)
		if s := tr.Snapshot(); len(s.Ports) != 20000 {
			b.Fatal(len(s.Ports))
		}
	}
}

// BenchmarkOneSliceChanged is one changed slice and its snapshot, acknowledged, beside that many others.
func BenchmarkOneSliceChanged(b *testing.B) {
	for _, n := range []int{100, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tr := NewTracker(self, began)
			bulk(tr, n)
			tr.Synced(tr.Snapshot())
			round := 0
			b.ReportAllocs()
			for b.Loop() {
				round++
				tr.SetSlice(bulkSlice("svc-00042", 42, round))
				s := tr.Snapshot()
				if len(s.Changed) != 1 {
					b.Fatal(len(s.Changed))
				}
				tr.Synced(s)
			}
		})
	}
}
