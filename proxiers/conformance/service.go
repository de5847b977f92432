package conformance

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"proxylab/proxiers/conformance/dialer"
)

type service = corev1.Service

// Port is a port of a Service. Its name is that of the network that it is asked by, unless Network says otherwise.
type Port struct {
	Name    string
	Network string // dialer.TCP, ...; empty: as the name
	Port    int32  // of the Service
	Target  int32  // of the pods; 0: where package echo answers in that network
}

func (p Port) network() string {
	if p.Network != "" {
		return p.Network
	}
	return p.Name
}

func (p Port) protocol() corev1.Protocol {
	switch p.network() {
	case dialer.UDP:
		return corev1.ProtocolUDP
	case dialer.SCTP:
		return corev1.ProtocolSCTP
	}
	return corev1.ProtocolTCP
}

func (p Port) target() int32 {
	if p.Target != 0 {
		return p.Target
	}
	return map[string]int32{dialer.TCP: tcpPort, dialer.UDP: udpPort, dialer.HTTP: httpPort, dialer.SCTP: sctpPort}[p.network()]
}

// The ports that most rows use.
var (
	TCP  = Port{Name: dialer.TCP, Port: 80}
	UDP  = Port{Name: dialer.UDP, Port: 80}
	HTTP = Port{Name: dialer.HTTP, Port: 8000}
	SCTP = Port{Name: dialer.SCTP, Port: 80}
)

// Endpoint is an endpoint of a Service: a pod, and what its slice says of it.
type Endpoint struct {
	Pod                         string
	Unready, Unserving, Leaving bool // conditions ready: false, serving: false, terminating: true
	ForZone, ForNode            int  // hints: for the zone of node 1 or 2, for node 1 or 2; 0: no hint
	// Addr replaces the pod's addresses.
	Addr map[Family]netip.Addr
}

// Ready are pods that are ready.
func Ready(pods ...string) []Endpoint {
	var all []Endpoint
	for _, p := range pods {
		all = append(all, Endpoint{Pod: p})
	}
	return all
}

// Draining are pods that are on their way out and still serve.
func Draining(pods ...string) []Endpoint {
	var all []Endpoint
	for _, p := range pods {
		all = append(all, Endpoint{Pod: p, Unready: true, Leaving: true})
	}
	return all
}

// Service is a Service that a row made, without selector: its slices are the row's to write.
type Service struct {
	ctx             context.Context // of the row
	t               *T              // nil: no row's
	world           *world
	namespace, name string
	suffix          string // of its slices' names
	ports           []Port
	edits           []func(*corev1.Service)

	mu     sync.Mutex
	object *corev1.Service
	slices map[Family]*discoveryv1.EndpointSlice
}

func (s *Service) create() error {
	dual := corev1.IPFamilyPolicyRequireDualStack
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.namespace},
		Spec:       corev1.ServiceSpec{IPFamilyPolicy: &dual},
	}
	for _, p := range s.ports {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{
			Name: p.Name, Protocol: p.protocol(), Port: p.Port, TargetPort: intstr.FromInt32(p.target()),
		})
	}
	for _, e := range s.edits {
		e(svc)
	}
	services := s.world.cluster.Client().CoreV1().Services(s.namespace)
	made, err := services.Create(s.ctx, svc, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // an earlier run was cut off
		if err := services.Delete(s.ctx, s.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Service %s of an earlier run: %w", s.name, err)
		}
		made, err = services.Create(s.ctx, svc, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create Service %s: %w", s.name, err)
	}
	s.object, s.slices = made, map[Family]*discoveryv1.EndpointSlice{}
	return nil
}

// edit changes the Service, also while others do.
func (s *Service) edit(ctx context.Context, change func(*corev1.Service)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	services := s.world.cluster.Client().CoreV1().Services(s.namespace)
	svc := s.object.DeepCopy()
	change(svc)
	updated, err := services.Update(ctx, svc, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // a controller wrote in between
		if svc, err = services.Get(ctx, s.name, metav1.GetOptions{}); err == nil {
			change(svc)
			updated, err = services.Update(ctx, svc, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("update Service %s: %w", s.name, err)
	}
	s.object = updated
	return nil
}

// setStatus writes what a load balancer's controller would.
func (s *Service) setStatus(ctx context.Context, ingress []corev1.LoadBalancerIngress) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	svc := s.object.DeepCopy()
	svc.Status.LoadBalancer.Ingress = ingress
	updated, err := s.world.cluster.Client().CoreV1().Services(s.namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("status of Service %s: %w", s.name, err)
	}
	s.object = updated
	return nil
}

// setEndpoints writes the slices, one for each family.
func (s *Service) setEndpoints(ctx context.Context, endpoints []Endpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range []Family{IPv4, IPv6} {
		if err := s.setSlice(ctx, f, endpoints); err != nil {
			return fmt.Errorf("endpoints of Service %s, %s: %w", s.name, f, err)
		}
	}
	return nil
}

func (s *Service) setSlice(ctx context.Context, f Family, endpoints []Endpoint) error {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.sliceName(f), Namespace: s.namespace,
			Labels: map[string]string{discoveryv1.LabelServiceName: s.name, discoveryv1.LabelManagedBy: "proxylab"},
		},
		AddressType: discoveryv1.AddressType(f.String()),
	}
	for _, p := range s.ports {
		name, protocol, target := p.Name, p.protocol(), p.target()
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &target})
	}
	for _, e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, s.endpoint(f, e))
	}
	slices := s.world.cluster.Client().DiscoveryV1().EndpointSlices(s.namespace)
	var err error
	if s.slices[f] == nil {
		s.slices[f], err = slices.Create(ctx, slice, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	s.slices[f], err = slices.Update(ctx, slice, metav1.UpdateOptions{})
	return err
}

func (s *Service) sliceName(f Family) string { return fmt.Sprintf("%s%s-v%d", s.name, s.suffix, f) }

func (s *Service) endpoint(f Family, e Endpoint) discoveryv1.Endpoint {
	pod := s.world.pods[e.Pod]
	addr := pod.ips[f]
	if e.Addr != nil {
		addr = e.Addr[f]
	}
	ready, serving, leaving := !e.Unready, !e.Unserving, e.Leaving
	zone := s.world.zones[0]
	if pod.node == s.world.nodes[1].Name {
		zone = s.world.zones[1]
	}
	ep := discoveryv1.Endpoint{
		Addresses: []string{addr.String()}, NodeName: &pod.node, Zone: &zone,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &leaving},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: Namespace, Name: e.Pod},
	}
	if e.ForZone+e.ForNode > 0 {
		ep.Hints = &discoveryv1.EndpointHints{}
	}
	if e.ForZone > 0 {
		ep.Hints.ForZones = []discoveryv1.ForZone{{Name: s.world.zones[e.ForZone-1]}}
	}
	if e.ForNode > 0 {
		ep.Hints.ForNodes = []discoveryv1.ForNode{{Name: s.world.nodes[e.ForNode-1].Name}}
	}
	return ep
}

// remove deletes the slices and the Service.
func (s *Service) remove(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.slices {
		err := s.world.cluster.Client().DiscoveryV1().EndpointSlices(s.namespace).Delete(ctx, s.sliceName(f), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the endpoints of Service %s: %w", s.name, err)
		}
	}
	s.slices = map[Family]*discoveryv1.EndpointSlice{}
	err := s.world.cluster.Client().CoreV1().Services(s.namespace).Delete(ctx, s.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Service %s: %w", s.name, err)
	}
	return nil
}

// ip is the cluster IP in a family.
func (s *Service) ip(f Family) netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ip := range s.object.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(ip); err == nil && a.Is6() == (f == IPv6) {
			return a
		}
	}
	return netip.Addr{}
}

func (s *Service) port(p Port) corev1.ServicePort {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.object.Spec.Ports {
		if sp.Name == p.Name {
			return sp
		}
	}
	return corev1.ServicePort{}
}
