package controlplane

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/utils/ptr"
)

const (
	// BackgroundNamespace holds the first dummy Services. More of them are in BackgroundNamespace-1 and so on.
	BackgroundNamespace = "background"

	// For each Service without a selector the controller that mirrors Endpoints looks at all slices in the namespace:
	// with ten thousand in one namespace it keeps two processors busy for a quarter of a minute.
	servicesPerNamespace = 250

	backgroundPort       = 80
	backgroundTargetPort = 8080
	// Kubernetes' own controller puts as many endpoints into a slice (--max-endpoints-per-slice).
	endpointsPerSlice = 100
	// Addresses below this offset are left to those who ask for one by number, as the API server's allocator does
	// (https://kep.k8s.io/3070); the dummy Services start behind them.
	reservedServiceIPs = 256
	// maxEndpoints keeps the endpoints of one Service apart from one another.
	maxEndpoints = 10000
)

// endpointRange is set aside for benchmarks (RFC 2544): nobody answers there.
var endpointRange = netip.MustParsePrefix("198.18.0.0/15")

func (b Background) validate(ranges []netip.Prefix) error {
	var errs []error
	if b.Services < 0 || b.EndpointsPerService < 0 || b.EndpointsPerService > maxEndpoints {
		errs = append(errs, fmt.Errorf("background of %d Services with %d endpoints each: want numbers from 0 on, and at most %d endpoints",
			b.Services, b.EndpointsPerService, maxEndpoints))
	}
	if b.Services <= 0 || len(ranges) == 0 {
		return errors.Join(errs...)
	}
	if r, ok := ipv4Range(ranges); !ok {
		errs = append(errs, errors.New("background Services are IPv4, and there is no IPv4 service range"))
	} else if room := 1<<(32-r.Bits()) - 2*reservedServiceIPs; b.Services > room {
		errs = append(errs, fmt.Errorf("%d background Services do not fit into service range %s, which has room for %d", b.Services, r, max(0, room)))
	}
	return errors.Join(errs...)
}

func ipv4Range(ranges []netip.Prefix) (netip.Prefix, bool) {
	for _, r := range ranges {
		if r.Addr().Is4() {
			return r, true
		}
	}
	return netip.Prefix{}, false
}

// objects yields the background: namespaces, and for each Service itself, the mark that its address is taken, and its
// slices.
func (b Background) objects(services netip.Prefix, now time.Time) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		enc := newEncoder(metav1.NewTime(now.Truncate(time.Second)))
		put := func(resource string, obj object) bool { return yield(enc.encode(resource, obj)) }
		g := generator{endpoint: endpointRange.Addr()}
		ip := services.Addr()
		for range reservedServiceIPs {
			ip = ip.Next()
		}
		for i := range b.Services {
			svc := newService(i, ip)
			ok := true
			if i%servicesPerNamespace == 0 {
				ok = put("namespaces", newNamespace(svc.Namespace))
			}
			ok = ok && put("ipaddresses", newIPAddress(svc)) && put("services/specs", svc)
			for n := 0; ok && n*endpointsPerSlice < b.EndpointsPerService; n++ {
				ok = put("endpointslices", g.slice(svc, n, min(endpointsPerSlice, b.EndpointsPerService-n*endpointsPerSlice)))
			}
			if !ok {
				return
			}
			ip = ip.Next()
		}
	}
}

func backgroundNamespace(i int) string {
	if n := i / servicesPerNamespace; n > 0 {
		return fmt.Sprintf("%s-%d", BackgroundNamespace, n)
	}
	return BackgroundNamespace
}

func newService(i int, ip netip.Addr) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: backgroundNamespace(i), Name: fmt.Sprintf("bg-%05d", i)},
		Spec: corev1.ServiceSpec{
			ClusterIP:      ip.String(),
			ClusterIPs:     []string{ip.String()},
			IPFamilies:     []corev1.IPFamily{corev1.IPv4Protocol},
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
			Ports:          []corev1.ServicePort{{Port: backgroundPort, TargetPort: intstr.FromInt32(backgroundTargetPort)}},
		},
	}
}

// newIPAddress marks the Service's address as taken, as the allocator does (https://kep.k8s.io/1880).
func newIPAddress(svc *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: svc.Spec.ClusterIP, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol),
			networkingv1.LabelManagedBy:       ipallocator.ControllerName,
		}},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name},
		},
	}
}

// generator gives out endpoints.
type generator struct {
	endpoint netip.Addr // the last one
}

// slice has no owner: the garbage collector would ask for each one when it starts.
func (g *generator) slice(svc *corev1.Service, n, endpoints int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  svc.Namespace,
			Name:       fmt.Sprintf("%s-%d", svc.Name, n),
			Generation: 1, // kube-apiserver counts for this kind
			Labels: map[string]string{
				discoveryv1.LabelServiceName: svc.Name,
				discoveryv1.LabelManagedBy:   "proxylab", // so that no controller thinks it its own
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To(""), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](backgroundTargetPort),
		}},
	}
	for range endpoints {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{g.nextEndpoint().String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		})
	}
	return s
}

// nextEndpoint goes round the range, which has more addresses than one Service may have endpoints.
func (g *generator) nextEndpoint() netip.Addr {
	g.endpoint = g.endpoint.Next()
	if !endpointRange.Contains(g.endpoint) {
		g.endpoint = endpointRange.Addr().Next()
	}
	return g.endpoint
}
