package services

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestServiceToPort(t *testing.T) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	proxy, vip := corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP
	for name, c := range map[string]struct {
		edit func(*corev1.Service)
		want func(*ServicePort) // changes the plain port
	}{
		"plain": {func(*corev1.Service) {}, func(*ServicePort) {}},
		"node port": {
			func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort; s.Spec.Ports[0].NodePort = 30080 },
			func(p *ServicePort) { p.NodePort = 30080 }},
		"protocol defaults to TCP": {func(s *corev1.Service) { s.Spec.Ports[0].Protocol = "" }, func(*ServicePort) {}},
		"UDP": {func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
			func(p *ServicePort) { p.Key.Protocol = corev1.ProtocolUDP }},
		"affinity without configuration": {
			func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			func(p *ServicePort) { p.AffinityTimeout = 3 * time.Hour }},
		"affinity timeout": {
			func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(7))}}
			}, func(p *ServicePort) { p.AffinityTimeout = 7 * time.Second }},
		"configuration of affinity that is off": {
			func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityNone
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(7))}}
			}, func(*ServicePort) {}},
		"internal policy": {func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &local },
			func(p *ServicePort) { p.InternalLocal = true }},
		"external policy of a Service inside only": {
			func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			func(*ServicePort) {}},
		"external policy and health check": {
			func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeLoadBalancer
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				s.Spec.HealthCheckNodePort = 31000
			}, func(p *ServicePort) { p.ExternalLocal, p.HealthCheckNodePort = true, 31000 }},
		"no health check under policy Cluster": {
			func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeLoadBalancer
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
				s.Spec.HealthCheckNodePort = 31000
			}, func(*ServicePort) {}},
		"no health check without a balancer": {
			func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeNodePort
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				s.Spec.HealthCheckNodePort = 31000
			}, func(p *ServicePort) { p.ExternalLocal = true }},
		"external IPs": {
			func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"203.0.113.9", "", "nonsense", "2001:db8::1", "203.0.113.007", "::ffff:203.0.113.9"}
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			}, func(p *ServicePort) {
				p.ExternalIPs = []netip.Addr{addr("203.0.113.7"), addr("203.0.113.9")}
				p.ExternalLocal = true
			}},
		"balancer addresses": {
			func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}, {Hostname: "lb"},
					{IP: "203.0.113.2", IPMode: &proxy}, {IP: "203.0.113.3", IPMode: &vip}, {IP: "2001:db8::1"}}
			}, func(p *ServicePort) { p.LoadBalancerVIPs = []netip.Addr{addr("203.0.113.1"), addr("203.0.113.3")} }},
		"source ranges": {
			func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = []string{" 10.1.2.3/8 ", "2001:db8::/32", "", "x", "192.168.001.0/24", "10.0.0.0/8"}
			}, func(p *ServicePort) {
				p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.1.0/24")}
			}},
		"source range for everybody": {
			func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "0.0.0.0/0"} },
			func(*ServicePort) {}},
		"an old object without ClusterIPs": {
			func(s *corev1.Service) { s.Spec.ClusterIPs, s.Spec.IPFamilies = nil, nil }, func(*ServicePort) {}},
	} {
		t.Run(name, func(t *testing.T) {
			want := ServicePort{Key: key(), ClusterIP: addr("10.96.0.10"), Port: 80}
			c.want(&want)
			got := portsOf(service(c.edit))
			if len(got) != 1 || !got[0].Equal(&want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestServiceThatIsNotProxied(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Service){
		"headless":     func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} },
		"no IP yet":    func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil },
		"ExternalName": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"other proxy":  func(s *corev1.Service) { s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": ""} },
	} {
		if got := portsOf(service(edit)); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
		// And it goes when it becomes so.
		tr := track(service())
		tr.Synced(tr.Snapshot())
		if !tr.SetService(service(edit)) {
			t.Errorf("%s: no need to sync", name)
		}
		if s := tr.Snapshot(); len(s.Ports) != 0 || len(s.Changed) != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestDualStackAndSeveralPorts(t *testing.T) {
	ports := portsOf(service(func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "fd00:10:96::a", []string{"fd00:10:96::a", "10.96.0.10"}
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		s.Spec.Ports = []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: "UDP"}, {Name: "dns-tcp", Port: 53, Protocol: "TCP"},
			{Name: "dns", Port: 5353, Protocol: "UDP"}} // the API refuses such a third one
		s.Spec.ExternalIPs = []string{"203.0.113.9", "2001:db8::9"}
		s.Spec.LoadBalancerSourceRanges = []string{"::/0", "10.0.0.0/8"}
	}))
	if len(ports) != 4 {
		t.Fatalf("%+v", ports)
	}
	seen := map[Key]bool{}
	for _, p := range ports {
		seen[p.Key] = true
		if p.Family == IPv6 && (p.ClusterIP != addr("fd00:10:96::a") || p.ExternalIPs[0] != addr("2001:db8::9") || p.SourceRanges != nil) ||
			p.Family == IPv4 && (p.ClusterIP != addr("10.96.0.10") || p.ExternalIPs[0] != addr("203.0.113.9") || len(p.SourceRanges) != 1) ||
			p.Port != 53 {
			t.Errorf("%+v", p)
		}
	}
	if len(seen) != 4 {
		t.Errorf("%v", seen)
	}
}

// TestEqualSeesEveryField guards the hand-written comparison against a new field.
func TestEqualSeesEveryField(t *testing.T) {
	samples := map[reflect.Type]any{
		reflect.TypeFor[Key]():              key(func(k *Key) { k.Port = "x" }),
		reflect.TypeFor[netip.Addr]():       addr("192.0.2.9"),
		reflect.TypeFor[uint16]():           uint16(9),
		reflect.TypeFor[[]netip.Addr]():     []netip.Addr{addr("192.0.2.9")},
		reflect.TypeFor[[]netip.Prefix]():   []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		reflect.TypeFor[time.Duration]():    time.Second,
		reflect.TypeFor[bool]():             true,
		reflect.TypeFor[[]Endpoint]():       []Endpoint{{}},
		reflect.TypeFor[string]():           "x",
		reflect.TypeFor[[]netip.AddrPort](): []netip.AddrPort{{}},
	}
	for i := range reflect.TypeFor[ServicePort]().NumField() {
		a, b := ServicePort{}, ServicePort{}
		f := reflect.ValueOf(&b).Elem().Field(i)
		if samples[f.Type()] == nil {
			t.Fatalf("the test has no sample of type %s", f.Type())
		}
		f.Set(reflect.ValueOf(samples[f.Type()]))
		if a.Equal(&b) || !b.Equal(&b) {
			t.Errorf("Equal does not see field %s", reflect.TypeFor[ServicePort]().Field(i).Name)
		}
	}
	for i := range reflect.TypeFor[Node]().NumField() {
		var a, b Node
		f := reflect.ValueOf(&b).Elem().Field(i)
		if samples[f.Type()] == nil {
			t.Fatalf("the test has no sample of type %s", f.Type())
		}
		f.Set(reflect.ValueOf(samples[f.Type()]))
		if same := b; a.Equal(b) || !b.Equal(same) {
			t.Errorf("Node.Equal does not see field %s", reflect.TypeFor[Node]().Field(i).Name)
		}
	}
}
