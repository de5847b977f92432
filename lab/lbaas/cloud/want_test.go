package cloud

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const subnet = "6c3f7bb1-1111-4444-8888-000000000001"

// newest is the features of an Octavia that has them all.
var newest = features{Minor: 26}

func node(name string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func twoNodes() []*corev1.Node {
	return []*corev1.Node{node("node-1", "10.0.0.11", "fd00::11"), node("node-2", "10.0.0.12", "fd00::12")}
}

func port(protocol corev1.Protocol, number, nodePort int32) corev1.ServicePort {
	return corev1.ServicePort{Protocol: protocol, Port: number, NodePort: nodePort}
}

// newService has a TCP and a UDP port.
func newService(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1", Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{port("TCP", 80, 30080), port("UDP", 53, 30053)},
		},
	}
	for _, f := range change {
		f(svc)
	}
	return svc
}

func annotated(pairs ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			svc.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func localPolicy(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	svc.Spec.HealthCheckNodePort = 32000
}

func dualStack(svc *corev1.Service) {
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

func clientIP(seconds int32) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

func ports(all ...corev1.ServicePort) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.Ports = all }
}

func requestFor(t *testing.T, svc *corev1.Service, f features, c Config) request {
	t.Helper()
	if c.SubnetID == "" {
		c.SubnetID = subnet
	}
	s, err := settingsOf(svc, c.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	return request{service: svc, nodes: twoNodes(), settings: s, features: f, cluster: "kubernetes", clusterID: "c1"}
}

// TestWantedAsTheCommunitysProvider compares the request with what that one was recorded to send, tags and the weight of
// members apart.
func TestWantedAsTheCommunitysProvider(t *testing.T) {
	svc := newService(localPolicy, clientIP(10800), func(svc *corev1.Service) { svc.Name = "web-monitor-local"; svc.Spec.SessionAffinityConfig = nil })
	r := requestFor(t, svc, newest, Config{})
	r.provider = "noop_driver"
	w := wanted(r)
	w.Balancer.Listeners = w.Listeners
	recorded := `{"description":"Kubernetes external service default/web-monitor-local from cluster kubernetes","listeners":[{"allowed_cidrs":["0.0.0.0/0"],"connection_limit":-1,"default_pool":{"healthmonitor":{"delay":5,"expected_codes":"200","http_method":"GET","max_retries":1,"max_retries_down":3,"name":"monitor_0_kube_service_kubernetes_default_web-monitor-local","timeout":3,"type":"HTTP","url_path":"/healthz"},"lb_algorithm":"ROUND_ROBIN","members":[{"address":"10.0.0.11","monitor_port":32000,"name":"node-1","protocol_port":30080,"subnet_id":"6c3f7bb1-1111-4444-8888-000000000001"},{"address":"10.0.0.12","monitor_port":32000,"name":"node-2","protocol_port":30080,"subnet_id":"6c3f7bb1-1111-4444-8888-000000000001"}],"name":"pool_0_kube_service_kubernetes_default_web-monitor-local","protocol":"TCP","session_persistence":{"type":"SOURCE_IP"}},"name":"listener_0_kube_service_kubernetes_default_web-monitor-local","protocol":"TCP","protocol_port":80,"tags":["kube_service_kubernetes_default_web-monitor-local"],"timeout_client_data":50000,"timeout_member_connect":5000,"timeout_member_data":50000,"timeout_tcp_inspect":0},{"allowed_cidrs":["0.0.0.0/0"],"connection_limit":-1,"default_pool":{"healthmonitor":{"delay":5,"expected_codes":"200","http_method":"GET","max_retries":1,"max_retries_down":3,"name":"monitor_1_kube_service_kubernetes_default_web-monitor-local","timeout":3,"type":"HTTP","url_path":"/healthz"},"lb_algorithm":"ROUND_ROBIN","members":[{"address":"10.0.0.11","monitor_port":32000,"name":"node-1","protocol_port":30053,"subnet_id":"6c3f7bb1-1111-4444-8888-000000000001"},{"address":"10.0.0.12","monitor_port":32000,"name":"node-2","protocol_port":30053,"subnet_id":"6c3f7bb1-1111-4444-8888-000000000001"}],"name":"pool_1_kube_service_kubernetes_default_web-monitor-local","protocol":"UDP","session_persistence":{"type":"SOURCE_IP"}},"name":"listener_1_kube_service_kubernetes_default_web-monitor-local","protocol":"UDP","protocol_port":53,"tags":["kube_service_kubernetes_default_web-monitor-local"],"timeout_client_data":50000,"timeout_member_connect":5000,"timeout_member_data":50000,"timeout_tcp_inspect":0}],"name":"kube_service_kubernetes_default_web-monitor-local","provider":"noop_driver","tags":["kube_service_kubernetes_default_web-monitor-local"],"vip_subnet_id":"6c3f7bb1-1111-4444-8888-000000000001"}`
	if !slices.Contains(w.Balancer.Tags, "kube_cluster_c1") {
		t.Errorf("tags %v", w.Balancer.Tags)
	}
	w.Balancer.Tags = w.Balancer.Tags[:1]
	sent, err := json.Marshal(w.Balancer)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(sent), `"weight":1,`, "")), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(recorded), &want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// brief is a wanted balancer in few words, for tables.
func brief(w want) []string {
	var all []string
	for _, l := range w.Listeners {
		text := portName(l) + " pool " + l.Pool.Protocol
		if p := l.Pool.Persistence; p != nil {
			text += " sticky"
			if p.Timeout != nil {
				text += " " + (patch{"s": *p.Timeout}).text("s")
			}
		}
		if m := l.Pool.Monitor; m != nil {
			text += " monitor " + m.Type
		}
		if len(l.InsertHeaders) > 0 {
			text += " forwarded-for"
		}
		all = append(all, text)
	}
	for _, r := range w.Refused {
		all = append(all, "refused "+portName(wantListener{Port: int(r.Port), Protocol: string(r.Protocol)})+" "+r.Reason)
	}
	for _, n := range w.Notes {
		all = append(all, "note "+n.Reason)
	}
	return all
}

func (p patch) text(field string) string { b, _ := json.Marshal(p[field]); return string(b) }

func TestWanted(t *testing.T) {
	proxy := annotated(annProxy, "true")
	tests := []struct {
		name     string
		row      string // of the table of faults, if it is one
		service  *corev1.Service
		features features
		config   Config
		want     []string
	}{
		{name: "plain", service: newService(), features: newest, want: []string{"80/TCP pool TCP", "53/UDP pool UDP"}},
		{name: "monitors by configuration", service: newService(), features: newest, config: Config{CreateMonitor: true},
			want: []string{"80/TCP pool TCP monitor TCP", "53/UDP pool UDP monitor UDP-CONNECT"}},
		{name: "monitors off by annotation", service: newService(annotated(annMonitor, "false")), features: newest, config: Config{CreateMonitor: true},
			want: []string{"80/TCP pool TCP", "53/UDP pool UDP"}},
		{name: "affinity", service: newService(clientIP(60)), features: newest,
			want: []string{"80/TCP pool TCP sticky", "53/UDP pool UDP sticky 60"}},
		{name: "UDP stays plain beside PROXY", row: "TCP+UDP Service with PROXY protocol", service: newService(proxy), features: newest,
			want: []string{"80/TCP pool PROXY", "53/UDP pool UDP"}},
		{name: "PROXY v2", service: newService(annotated(annProxy, "v2")), features: newest,
			want: []string{"80/TCP pool PROXYV2", "53/UDP pool UDP"}},
		{name: "PROXY v2 too new", service: newService(annotated(annProxy, "v2")), features: features{Minor: 21},
			want: []string{"80/TCP pool PROXY", "53/UDP pool UDP", "note ProxyV2NotSupported"}},
		{name: "forwarded for", service: newService(annotated(annForwardedFor, "true")), features: newest,
			want: []string{"80/HTTP pool HTTP forwarded-for", "53/UDP pool UDP"}},
		{name: "TLS", service: newService(annotated(annTLS, "https://kms/v1/containers/x")), features: newest,
			want: []string{"80/TERMINATED_HTTPS pool HTTP", "53/UDP pool UDP"}},
		{name: "TLS and PROXY", service: newService(annotated(annTLS, "x"), proxy), features: newest,
			want: []string{"80/TERMINATED_HTTPS pool PROXY", "53/UDP pool UDP"}},
		{name: "Local", service: newService(localPolicy), features: newest,
			want: []string{"80/TCP pool TCP monitor HTTP", "53/UDP pool UDP monitor HTTP"}},
		{name: "Local and no monitor", row: "cpo 1999, 2866", service: newService(localPolicy, annotated(annMonitor, "false")), features: newest,
			want: []string{"80/TCP pool TCP monitor HTTP", "53/UDP pool UDP monitor HTTP", "note MonitorRequired"}},
		{name: "Local, UDP, before 2.16", row: "cpo 1999, 2866", service: newService(localPolicy), features: features{Minor: 15},
			want: []string{"80/TCP pool TCP monitor HTTP", "refused 53/UDP MonitorRequired"}},
		{name: "Local and a provider without monitors", row: "cpo 1999, 2866", service: newService(localPolicy), features: features{Minor: 26, NoMonitors: true},
			want: []string{"refused 80/TCP MonitorRequired", "refused 53/UDP MonitorRequired"}},
		{name: "a provider without monitors", service: newService(), features: features{Minor: 26, NoMonitors: true}, config: Config{CreateMonitor: true},
			want: []string{"80/TCP pool TCP", "53/UDP pool UDP", "note MonitorNotSupported"}},
		{name: "a provider without UDP", service: newService(), features: features{Minor: 26, NoUDP: true},
			want: []string{"80/TCP pool TCP", "refused 53/UDP UDPNotSupported"}},
		{name: "no node ports", service: newService(ports(port("TCP", 80, 0), port("TCP", 81, 30081))), features: newest,
			want: []string{"81/TCP pool TCP", "refused 80/TCP NodePortMissing"}},
		{name: "SCTP", service: newService(ports(port("SCTP", 80, 30080)), annotated(annMonitor, "true"), proxy), features: newest,
			want: []string{"80/SCTP pool SCTP monitor SCTP"}},
		{name: "SCTP too new", service: newService(ports(port("SCTP", 80, 30080))), features: features{Minor: 22},
			want: []string{"refused 80/SCTP SCTPNotSupported"}},
		{name: "too old for all that is asked", features: features{Minor: 0},
			service: newService(annotated(annFlavor, "f", annZone, "z"), func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }),
			want:    []string{"80/TCP pool TCP", "53/UDP pool UDP", "note FlavorIgnored", "note AvailabilityZoneIgnored", "note SourceRangesIgnored"}},
		{name: "no node fits", service: newService(annotated(annNodeSelector, "name=node-3")), features: newest,
			want: []string{"80/TCP pool TCP", "53/UDP pool UDP", "note NoMembers"}},
		{name: "second family too new", service: newService(dualStack), features: features{Minor: 25}, config: Config{SubnetID6: "six"},
			want: []string{"80/TCP pool TCP", "53/UDP pool UDP", "note SecondFamilyIgnored"}},
		{name: "second family without a subnet", service: newService(dualStack), features: newest,
			want: []string{"80/TCP pool TCP", "53/UDP pool UDP", "note SecondFamilyIgnored"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, brief(wanted(requestFor(t, tt.service, tt.features, tt.config)))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWantedVersions(t *testing.T) {
	svc := newService(annotated(annFlavor, "f", annZone, "z"))
	for minor, want := range map[int]string{
		0:  "",
		1:  "timeouts",
		5:  "timeouts tags",
		6:  "timeouts tags flavor",
		12: "timeouts tags flavor cidrs",
		14: "timeouts tags flavor cidrs zone",
	} {
		w := wanted(requestFor(t, svc, features{Minor: minor}, Config{}))
		l, got := w.Listeners[0], []string{}
		for _, f := range []struct {
			name string
			has  bool
		}{
			{"timeouts", l.ClientData != nil}, {"tags", len(l.Tags) > 0 && len(w.Balancer.Tags) > 0}, {"flavor", w.Balancer.FlavorID != ""},
			{"cidrs", len(l.AllowedCIDRs) > 0}, {"zone", w.Balancer.AvailabilityZone != ""},
		} {
			if f.has {
				got = append(got, f.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("2.%d: %v, want %q", minor, got, want)
		}
	}
}

func TestAllowedCIDRs(t *testing.T) {
	six := func(svc *corev1.Service) { svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }
	tests := []struct {
		name   string
		change func(*corev1.Service)
		ranges []string
		want   []string
	}{
		{"everyone", func(*corev1.Service) {}, nil, []string{"0.0.0.0/0"}},
		{"everyone, IPv6", six, nil, []string{"::/0"}},
		{"everyone, both", dualStack, nil, []string{"0.0.0.0/0", "::/0"}},
		{"ranges, as networks", func(*corev1.Service) {}, []string{"192.168.32.1/24", "10.0.0.0/8", "10.0.0.0/8"}, []string{"10.0.0.0/8", "192.168.32.0/24"}},
		{"ranges of the other family let nobody in", func(*corev1.Service) {}, []string{"2001:db8::/32"}, []string{"0.0.0.0/32"}},
		{"ranges of one of two families", dualStack, []string{"10.0.0.0/8"}, []string{"10.0.0.0/8", "::/128"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			svc := newService(tt.change)
			svc.Spec.LoadBalancerSourceRanges = tt.ranges
			w := wanted(requestFor(t, svc, newest, Config{SubnetID6: "six"}))
			if d := cmp.Diff(tt.want, w.Listeners[0].AllowedCIDRs); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFamilies(t *testing.T) {
	w := wanted(requestFor(t, newService(dualStack), newest, Config{SubnetID6: "six"}))
	if d := cmp.Diff([]vip{{SubnetID: "six"}}, w.Balancer.AdditionalVIPs); d != "" || w.Balancer.SubnetID != subnet {
		t.Errorf("VIPs in %s and %s", w.Balancer.SubnetID, d)
	}
	addresses := func(l wantListener) (all []string) {
		for _, m := range l.Pool.Members {
			all = append(all, m.Address+" "+m.SubnetID)
		}
		return all
	}
	if d := cmp.Diff([]string{"10.0.0.11 " + subnet, "10.0.0.12 " + subnet}, addresses(w.Listeners[0])); d != "" {
		t.Error("TCP", d)
	}
	// A datagram keeps its family on the way to the member.
	if d := cmp.Diff([]string{"10.0.0.11 " + subnet, "fd00::11 six", "10.0.0.12 " + subnet, "fd00::12 six"}, addresses(w.Listeners[1])); d != "" {
		t.Error("UDP", d)
	}
	w = wanted(requestFor(t, newService(func(svc *corev1.Service) { svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }), newest, Config{SubnetID6: "six"}))
	if d := cmp.Diff([]string{"fd00::11 six", "fd00::12 six"}, addresses(w.Listeners[0])); d != "" || w.Balancer.SubnetID != "six" {
		t.Error("IPv6", w.Balancer.SubnetID, d)
	}
}

func TestAddresses(t *testing.T) {
	r := requestFor(t, newService(annotated(annInternal, "true"), func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "10.10.0.200" }), newest, Config{})
	if w := wanted(r); w.Balancer.Address != "10.10.0.200" {
		t.Errorf("internal: address %q", w.Balancer.Address)
	}
	r = requestFor(t, newService(func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "203.0.113.7" }), newest, Config{})
	if w := wanted(r); w.Balancer.Address != "" {
		t.Errorf("a floating IP as VIP: %q", w.Balancer.Address)
	}
	r = requestFor(t, newService(dualStack), newest, Config{SubnetID6: "six"})
	r.last = []netip.Addr{netip.MustParseAddr("10.10.0.130"), netip.MustParseAddr("fd00:10:10::130")}
	if w := wanted(r); w.Balancer.Address != "10.10.0.130" || w.Balancer.AdditionalVIPs[0].Address != "fd00:10:10::130" {
		t.Errorf("addresses of before: %+v", w.Balancer)
	}
	r = requestFor(t, newService(annotated(annPort, "p")), newest, Config{})
	r.last = []netip.Addr{netip.MustParseAddr("10.10.0.130")}
	if w := wanted(r); w.Balancer.PortID != "p" || w.Balancer.SubnetID != "" || w.Balancer.Address != "" {
		t.Errorf("port: %+v", w.Balancer)
	}
	r = requestFor(t, newService(annotated(annNetwork, "n")), newest, Config{})
	if w := wanted(r); w.Balancer.NetworkID != "n" || w.Balancer.SubnetID != "" {
		t.Errorf("network: %+v", w.Balancer)
	}
}

func TestStatus(t *testing.T) {
	four, six := netip.MustParseAddr("10.10.0.130"), netip.MustParseAddr("fd00::1")
	vipMode, proxyMode := ptr.To(corev1.LoadBalancerIPModeVIP), ptr.To(corev1.LoadBalancerIPModeProxy)
	tests := []struct {
		name     string
		row      string
		settings settings
		config   Config
		refused  []refusal
		want     []corev1.LoadBalancerIngress
	}{
		{name: "plain", want: []corev1.LoadBalancerIngress{{IP: "10.10.0.130", IPMode: vipMode}, {IP: "fd00::1", IPMode: vipMode}}},
		{name: "PROXY protocol", row: "cpo 1287, 1167", settings: settings{Proxy: "PROXY"},
			want: []corev1.LoadBalancerIngress{{IP: "10.10.0.130", IPMode: proxyMode}, {IP: "fd00::1", IPMode: proxyMode}}},
		{name: "PROXY protocol for old proxiers", settings: settings{Proxy: "PROXYV2"}, config: Config{EnableIngressHostname: true, IngressHostnameSuffix: "nip.io"},
			want: []corev1.LoadBalancerIngress{{Hostname: "10.10.0.130.nip.io"}, {Hostname: "fd00--1.nip.io"}}},
		{name: "host name", settings: settings{Hostname: "web.example.org"}, want: []corev1.LoadBalancerIngress{{Hostname: "web.example.org"}}},
		{name: "a port that there is not", settings: settings{Hostname: "h"}, refused: []refusal{{Port: 53, Protocol: "UDP", Reason: "UDPNotSupported"}},
			want: []corev1.LoadBalancerIngress{{Hostname: "h", Ports: []corev1.PortStatus{{Port: 53, Protocol: "UDP", Error: ptr.To("loadbalancer.openstack.org/UDPNotSupported")}}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := statusOf(tt.settings, tt.config, []netip.Addr{four, six}, tt.refused)
			if d := cmp.Diff(tt.want, got.Ingress); d != "" {
				t.Error(d)
			}
		})
	}
}
