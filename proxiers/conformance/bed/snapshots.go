package bed

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// Service describes one port of a Service in a few words, for Bed.Snapshot. The zero values are what most tests want.
type Service struct {
	Name       string          // in namespace "test"
	Port       string          // the port's name
	Protocol   corev1.Protocol // TCP if empty
	IP         string          // cluster IPs "v4" or "v4,v6"; or "v6"
	ServerPort uint16          // of the endpoints; the bed's server for the protocol if 0
	Pods       []string        // ready endpoints
	Draining   []string        // serving while terminating: used where Pods is empty, as KEP-1669 says
	// Edit, if not nil, changes the finished port of each family: node port, affinity, policies, ...
	Edit func(*services.ServicePort)
}

// VIP is the cluster IP number n of the bed's Service range.
func VIP(n byte, v6 bool) netip.Addr {
	a := netip.MustParseAddr("10.96.0.0")
	if v6 {
		a = netip.MustParseAddr("fd00:10:96::")
	}
	b := a.AsSlice()
	b[len(b)-1] = n
	vip, _ := netip.AddrFromSlice(b)
	return vip
}

// VIPs are the cluster IPs number n of both families, for Service.IP.
func VIPs(n byte) string { return VIP(n, false).String() + "," + VIP(n, true).String() }

// Snapshot is the complete desired state of node1 with these Services: Port 80, endpoints as listed, Full set.
func (b *Bed) Snapshot(list ...Service) services.Snapshot {
	b.t.Helper()
	s := services.Snapshot{Full: true, Node: nodeFacts(),
		Ports: map[services.Key]*services.ServicePort{}, Changed: map[services.Key]struct{}{}}
	for _, svc := range list {
		for ip := range strings.SplitSeq(svc.IP, ",") {
			addr, err := netip.ParseAddr(ip)
			if err != nil {
				b.t.Fatalf("service %s: %v", svc.Name, err)
			}
			p := b.servicePort(svc, addr)
			if s.Ports[p.Key] != nil {
				b.t.Fatalf("service port %+v is there twice", p.Key)
			}
			s.Ports[p.Key] = p
			s.Changed[p.Key] = struct{}{}
		}
	}
	return s
}

// Next is the same as Snapshot for a node that prev was synced to: Changed says what differs, Full is not set.
func (b *Bed) Next(prev services.Snapshot, list ...Service) services.Snapshot {
	b.t.Helper()
	s := b.Snapshot(list...)
	s.Full = false
	for k, p := range s.Ports {
		if reflect.DeepEqual(prev.Ports[k], p) {
			delete(s.Changed, k)
		}
	}
	for k := range prev.Ports {
		if s.Ports[k] == nil {
			s.Changed[k] = struct{}{}
		}
	}
	return s
}

func nodeFacts() services.Node {
	return services.Node{
		Name:      Node,
		Addresses: []netip.Addr{NodeAddr(1, false), NodeAddr(1, true)},
		PodCIDRs:  []netip.Prefix{podCIDR(1, false), podCIDR(1, true)},
	}
}

func (b *Bed) servicePort(svc Service, vip netip.Addr) *services.ServicePort {
	b.t.Helper()
	family := services.IPv4
	if vip.Is6() {
		family = services.IPv6
	}
	p := &services.ServicePort{
		Key: services.Key{Namespace: "test", Service: svc.Name, Port: svc.Port,
			Protocol: cmp.Or(svc.Protocol, corev1.ProtocolTCP), Family: family},
		ClusterIP: vip,
		Port:      80,
	}
	port := svc.ServerPort
	if port == 0 {
		port = map[corev1.Protocol]uint16{corev1.ProtocolTCP: TCPPort, corev1.ProtocolUDP: UDPPort}[p.Protocol]
	}
	use := svc.Pods
	if len(use) == 0 {
		use = svc.Draining
	}
	for _, name := range use {
		pod := b.Pod(name)
		ready := len(svc.Pods) > 0
		p.ClusterEndpoints = append(p.ClusterEndpoints, services.Endpoint{
			Addr: netip.AddrPortFrom(pod.Addr(vip.Is6()), port), Node: pod.Node, Local: pod.Node == Node,
			Ready: ready, Serving: true, Terminating: !ready})
	}
	slices.SortFunc(p.ClusterEndpoints, func(x, y services.Endpoint) int { return x.Addr.Compare(y.Addr) })
	for _, e := range p.ClusterEndpoints {
		if e.Local {
			p.LocalEndpoints = append(p.LocalEndpoints, e)
		}
	}
	p.HasAnyEndpoints = len(p.ClusterEndpoints) > 0
	if p.Protocol == corev1.ProtocolUDP {
		p.ServingEndpoints = serving(b, svc, vip.Is6(), port)
	}
	if svc.Edit != nil {
		svc.Edit(p)
	}
	if !p.UsesClusterEndpoints() {
		p.ClusterEndpoints = nil
	}
	if !p.UsesLocalEndpoints() {
		p.LocalEndpoints = nil
	}
	return p
}

// serving lists the endpoints whose flows are alive.
func serving(b *Bed, svc Service, v6 bool, port uint16) []netip.AddrPort {
	all := []netip.AddrPort{}
	for _, name := range slices.Concat(svc.Pods, svc.Draining) {
		all = append(all, netip.AddrPortFrom(b.Pod(name).Addr(v6), port))
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// Affinity is a Service.Edit that turns on session affinity.
func Affinity(d time.Duration) func(*services.ServicePort) {
	return func(p *services.ServicePort) { p.AffinityTimeout = d }
}

// NodePort is a Service.Edit that gives the port a node port.
func NodePort(n uint16) func(*services.ServicePort) {
	return func(p *services.ServicePort) { p.NodePort = n }
}

// Edits is a Service.Edit made of several.
func Edits(all ...func(*services.ServicePort)) func(*services.ServicePort) {
	return func(p *services.ServicePort) {
		for _, edit := range all {
			edit(p)
		}
	}
}
