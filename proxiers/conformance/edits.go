package conformance

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// What a Service may have beside ports. Each is given to T.Service or Service.Edit.

// WithNodePort gives it node ports.
func WithNodePort(s *service) { s.Spec.Type = corev1.ServiceTypeNodePort }

// WithLoadBalancer gives it node ports and lets Service.Ingress say where its balancer is. It is of a class of ours, which the
// load balancers that a lab may have leave alone.
func WithLoadBalancer(s *service) {
	s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To("proxylab.io/conformance")
}

// ExternalLocal sets externalTrafficPolicy Local.
func ExternalLocal(s *service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// InternalLocal sets internalTrafficPolicy Local.
func InternalLocal(s *service) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	s.Spec.InternalTrafficPolicy = &local
}

// WithAffinity has clients stay with their endpoint until they were silent for that long.
func WithAffinity(timeout time.Duration) func(*service) {
	seconds := int32(timeout / time.Second)
	return func(s *service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

// WithoutAffinity takes it away.
func WithoutAffinity(s *service) {
	s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
}

// WithExternalIPs gives it external addresses.
func WithExternalIPs(addrs ...netip.Addr) func(*service) {
	return func(s *service) { s.Spec.ExternalIPs = texts(addrs) }
}

// WithClusterIPs asks for addresses.
func WithClusterIPs(addrs ...netip.Addr) func(*service) {
	return func(s *service) { s.Spec.ClusterIPs, s.Spec.ClusterIP = texts(addrs), addrs[0].String() }
}

// WithSourceRanges limits who may use the load balancer.
func WithSourceRanges(ranges ...string) func(*service) {
	return func(s *service) { s.Spec.LoadBalancerSourceRanges = ranges }
}

// WithTrafficDistribution says which endpoints are preferred.
func WithTrafficDistribution(which string) func(*service) {
	return func(s *service) { s.Spec.TrafficDistribution = &which }
}

// SingleStack leaves the Service one family.
func SingleStack(f Family) func(*service) {
	return func(s *service) {
		single := corev1.IPFamilyPolicySingleStack
		s.Spec.IPFamilyPolicy = &single
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPFamily(f.String())}
	}
}

func texts(addrs []netip.Addr) []string {
	var all []string
	for _, a := range addrs {
		all = append(all, a.String())
	}
	return all
}

// Endpoints are those of the Service from now on.
func (s *Service) Endpoints(endpoints ...Endpoint) { s.t.Check(s.setEndpoints(s.ctx, endpoints)) }

// Has makes these pods, all ready, the endpoints from now on.
func (s *Service) Has(pods ...string) { s.Endpoints(Ready(pods...)...) }

// Edit changes the Service.
func (s *Service) Edit(changes ...func(*service)) {
	s.t.Check(s.edit(s.ctx, func(svc *service) {
		for _, change := range changes {
			change(svc)
		}
	}))
}

// Remove deletes the Service.
func (s *Service) Remove() { s.t.Check(s.remove(s.ctx)) }

// Ingress says, as a load balancer's controller does, where its balancer is. With mode Proxy packets are not to be
// taken to endpoints directly: https://kubernetes.io/docs/concepts/services-networking/service/#load-balancer-ip-mode.
func (s *Service) Ingress(mode corev1.LoadBalancerIPMode, addrs ...netip.Addr) {
	var ingress []corev1.LoadBalancerIngress
	for _, a := range addrs {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: a.String(), IPMode: &mode})
	}
	s.t.Check(s.setStatus(s.ctx, ingress))
}

// VIP is a port of the cluster IP.
func (s *Service) VIP(f Family, p Port) Target {
	return Target{p.network(), netip.AddrPortFrom(s.ip(f), uint16(p.Port)), "cluster IP"}
}

// NodePort is a port's node port on node 1 or 2.
func (s *Service) NodePort(f Family, node int, p Port) Target {
	return s.NodePortAt(s.t.Node(node).Addr(f), p)
}

// NodePortAt is a port's node port at an address.
func (s *Service) NodePortAt(a netip.Addr, p Port) Target {
	return Target{p.network(), netip.AddrPortFrom(a, uint16(s.port(p).NodePort)), "node port"}
}

// At is a port at an address that the Service was given, such as one of its external ones.
func (s *Service) At(a netip.Addr, p Port, what string) Target {
	return Target{p.network(), netip.AddrPortFrom(a, uint16(p.Port)), what}
}

// HealthCheckNodePort is the one that a load balancer would ask on node 1 or 2.
func (s *Service) HealthCheckNodePort(f Family, node int) Target {
	s.mu.Lock()
	port := s.object.Spec.HealthCheckNodePort
	s.mu.Unlock()
	return Target{"http", netip.AddrPortFrom(s.t.Node(node).Addr(f), uint16(port)), "health check node port"}
}

// ClusterIP is the cluster IP.
func (s *Service) ClusterIP(f Family) netip.Addr { return s.ip(f) }
