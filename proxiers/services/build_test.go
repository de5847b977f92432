package services

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects in a few words, for the tests of this package.

const self = "node1"

func ptr[T any](v T) *T { return &v }

func service(edits ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, e := range edits {
		e(s)
	}
	return s
}

// endpoint is one entry of a slice: "10.0.0.1" is ready on some other node.
type endpoint struct {
	addr, node                  string
	notReady, draining, stopped bool // stopped: terminating and no longer serving
	forNode, forZone            string
}

func (e endpoint) api() discoveryv1.Endpoint {
	out := discoveryv1.Endpoint{Addresses: []string{e.addr}}
	if e.node != "" {
		out.NodeName = &e.node
	}
	out.Conditions.Ready = ptr(!e.notReady && !e.draining && !e.stopped)
	out.Conditions.Serving = ptr(!e.notReady && !e.stopped)
	out.Conditions.Terminating = ptr(e.draining || e.stopped)
	if e.forNode != "" || e.forZone != "" {
		out.Hints = &discoveryv1.EndpointHints{}
		if e.forNode != "" {
			out.Hints.ForNodes = []discoveryv1.ForNode{{Name: e.forNode}}
		}
		if e.forZone != "" {
			out.Hints.ForZones = []discoveryv1.ForZone{{Name: e.forZone}}
		}
	}
	return out
}

func endpointSlice(name string, endpoints ...endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)}},
	}
	for _, e := range endpoints {
		s.Endpoints = append(s.Endpoints, e.api())
	}
	return s
}

func node(edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: self, Labels: map[string]string{corev1.LabelTopologyZone: "zone1"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24", "fd00:10:244:1::/64"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeExternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeHostName, Address: self},
			{Type: corev1.NodeInternalIP, Address: "10.10.0.11"}, {Type: corev1.NodeInternalIP, Address: "fd00:10:10::b"}}},
	}
	for _, e := range edits {
		e(n)
	}
	return n
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// track makes a Tracker that knows its node and the objects.
func track(objects ...any) *Tracker {
	t := NewTracker(self, began)
	t.SetNode(node())
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Service:
			t.SetService(o)
		case *discoveryv1.EndpointSlice:
			t.SetSlice(o)
		case *corev1.Node:
			t.SetNode(o)
		default:
			panic(fmt.Sprintf("test gives %T", o))
		}
	}
	return t
}

func key(edits ...func(*Key)) Key {
	k := Key{Namespace: "ns", Service: "web", Port: "http", Protocol: corev1.ProtocolTCP, Family: IPv4}
	for _, e := range edits {
		e(&k)
	}
	return k
}

func addrs(endpoints []Endpoint) (out []string) {
	for _, e := range endpoints {
		out = append(out, e.Addr.String())
	}
	return out
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
