package services

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestWhichEndpointsServe(t *testing.T) {
	external := func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = 30080
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	internal := func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal) }
	here, there := self, "node2"
	const a, b, c = "10.0.0.1", "10.0.0.2", "10.0.0.3"
	ports := func(addrs ...string) (out []string) {
		for _, a := range addrs {
			out = append(out, a+":8080")
		}
		return out
	}
	for name, x := range map[string]struct {
		edit      func(*corev1.Service)
		endpoints []endpoint
		cluster   []string
		local     []string
		any       bool
	}{
		"none":                              {nil, nil, nil, nil, false},
		"ready ones, sorted":                {nil, []endpoint{{addr: b}, {addr: a}}, ports(a, b), nil, true},
		"not ready":                         {nil, []endpoint{{addr: a, notReady: true}}, nil, nil, false},
		"ready beats draining":              {nil, []endpoint{{addr: a, draining: true}, {addr: b}}, ports(b), nil, true},
		"draining where none is ready":      {nil, []endpoint{{addr: a, draining: true}, {addr: b, notReady: true}, {addr: c, stopped: true}}, ports(a), nil, true},
		"stopped only":                      {nil, []endpoint{{addr: a, stopped: true}}, nil, nil, false},
		"external Local needs both lists":   {external, []endpoint{{addr: a, node: here}, {addr: b, node: there}}, ports(a, b), ports(a), true},
		"external Local, elsewhere only":    {external, []endpoint{{addr: b, node: there}}, ports(b), nil, true},
		"external Local, draining here":     {external, []endpoint{{addr: a, node: here, draining: true}, {addr: b, node: there}}, ports(b), ports(a), true},
		"internal Local has no other list":  {internal, []endpoint{{addr: a, node: here}, {addr: b, node: there}}, nil, ports(a), true},
		"internal Local, elsewhere only":    {internal, []endpoint{{addr: b, node: there}}, nil, nil, true},
		"internal Local, draining there":    {internal, []endpoint{{addr: b, node: there, draining: true}}, nil, nil, true},
		"internal Local, nowhere":           {internal, []endpoint{{addr: b, node: there, notReady: true}}, nil, nil, false},
		"zone hints":                        {nil, []endpoint{{addr: a, forZone: "zone1"}, {addr: b, forZone: "zone2"}}, ports(a), nil, true},
		"a hint is missing":                 {nil, []endpoint{{addr: a, forZone: "zone1"}, {addr: b, forZone: "zone2"}, {addr: c}}, ports(a, b, c), nil, true},
		"no hint for this zone":             {nil, []endpoint{{addr: a, forZone: "zone2"}, {addr: b, forZone: "zone3"}}, ports(a, b), nil, true},
		"hints of not ready ones are moot":  {nil, []endpoint{{addr: a, forZone: "zone1"}, {addr: b, notReady: true}, {addr: c, forZone: "zone2"}}, ports(a), nil, true},
		"node hints before zone hints":      {nil, []endpoint{{addr: a, forNode: here, forZone: "zone1"}, {addr: b, forNode: there, forZone: "zone1"}}, ports(a), nil, true},
		"no hint for this node, so zones":   {nil, []endpoint{{addr: a, forNode: "x", forZone: "zone1"}, {addr: b, forNode: there, forZone: "zone2"}}, ports(a), nil, true},
		"a node hint is missing, so zones":  {nil, []endpoint{{addr: a, forNode: here, forZone: "zone2"}, {addr: b, forZone: "zone1"}}, ports(b), nil, true},
		"hints do not hold under Local":     {external, []endpoint{{addr: a, node: here, forZone: "zone2"}, {addr: b, node: there, forZone: "zone1"}}, ports(b), ports(a), true},
		"hints do not hold for draining":    {nil, []endpoint{{addr: a, draining: true, forZone: "zone2"}, {addr: b, draining: true, forZone: "zone1"}}, ports(a, b), nil, true},
		"address not parsable or of IPv6":   {nil, []endpoint{{addr: "x"}, {addr: "fd00::1"}, {addr: a}}, ports(a), nil, true},
		"old spelling of an address":        {nil, []endpoint{{addr: "010.000.0.01"}}, ports(a), nil, true},
		"an address twice: the live counts": {nil, []endpoint{{addr: a, draining: true}, {addr: a}, {addr: a, stopped: true}}, ports(a), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			if x.edit == nil {
				x.edit = func(*corev1.Service) {}
			}
			p := track(service(x.edit), endpointSlice("s", x.endpoints...)).Snapshot().Ports[key()]
			if got := addrs(p.ClusterEndpoints); !reflect.DeepEqual(got, x.cluster) {
				t.Errorf("cluster: %v, want %v", got, x.cluster)
			}
			if got := addrs(p.LocalEndpoints); !reflect.DeepEqual(got, x.local) {
				t.Errorf("local: %v, want %v", got, x.local)
			}
			if p.HasAnyEndpoints != x.any {
				t.Errorf("HasAnyEndpoints: %v", p.HasAnyEndpoints)
			}
		})
	}
}

func TestSlicesThatDoNotCount(t *testing.T) {
	for name, edit := range map[string]func(*discoveryv1.EndpointSlice){
		"names":         func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN },
		"other family":  func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 },
		"headless":      func(s *discoveryv1.EndpointSlice) { s.Labels[corev1.IsHeadlessService] = "" },
		"other proxy":   func(s *discoveryv1.EndpointSlice) { s.Labels[proxyNameLabel] = "x" },
		"no Service":    func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) },
		"other Service": func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" },
		"other port":    func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = ptr("metrics") },
		"unnamed port":  func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = nil },
		"protocol":      func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = ptr(corev1.ProtocolUDP) },
		"all ports":     func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil },
		"port 0":        func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr(int32(0)) },
		"no address":    func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = nil },
	} {
		s := endpointSlice("s", endpoint{addr: "10.0.0.1"})
		edit(s)
		if p := track(service(), s).Snapshot().Ports[key()]; p == nil || p.HasAnyEndpoints {
			t.Errorf("%s: %+v", name, p)
		}
		// A slice that becomes so takes its endpoints away.
		tr := track(service(), endpointSlice("s", endpoint{addr: "10.0.0.1"}))
		tr.Synced(tr.Snapshot())
		if needed := tr.SetSlice(s); !needed {
			t.Errorf("%s: no need to sync", name)
		}
		if p := tr.Snapshot().Ports[key()]; p.HasAnyEndpoints {
			t.Errorf("%s, later: %+v", name, p)
		}
	}
}

func TestDefaultsOfSlices(t *testing.T) {
	s := endpointSlice("s", endpoint{addr: "10.0.0.1", node: self})
	s.Endpoints[0].Conditions = discoveryv1.EndpointConditions{}
	s.Ports[0] = discoveryv1.EndpointPort{Port: ptr(int32(8080))}
	p := track(service(func(s *corev1.Service) { s.Spec.Ports[0].Name = "" }), s).Snapshot().Ports[key(func(k *Key) { k.Port = "" })]
	want := Endpoint{Addr: p.ClusterEndpoints[0].Addr, Node: self, Local: true, Ready: true, Serving: true}
	if p.ClusterEndpoints[0] != want {
		t.Errorf("%+v", p)
	}
}

func TestServingEndpointsOfUDP(t *testing.T) {
	udp := func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }
	s := endpointSlice("s", endpoint{addr: "10.0.0.4", draining: true}, endpoint{addr: "10.0.0.1", forZone: "zone1"},
		endpoint{addr: "10.0.0.2", forZone: "zone2"}, endpoint{addr: "10.0.0.3", stopped: true})
	s.Ports[0].Protocol = ptr(corev1.ProtocolUDP)
	p := track(service(udp), s).Snapshot().Ports[key(func(k *Key) { k.Protocol = corev1.ProtocolUDP })]
	want := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:8080"), netip.MustParseAddrPort("10.0.0.2:8080"), netip.MustParseAddrPort("10.0.0.4:8080")}
	if !slices.Equal(p.ServingEndpoints, want) || len(p.ClusterEndpoints) != 1 {
		t.Errorf("%+v", p)
	}
	p = track(service(udp)).Snapshot().Ports[p.Key]
	if p.ServingEndpoints == nil {
		t.Error("that none serves is known, and not said")
	}
}
