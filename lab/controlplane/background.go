package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/utils/ptr"
)

const (
	// BackgroundNamespace holds the dummy Services.
	BackgroundNamespace = "background"

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

// stored is an object as it lies in etcd.
type stored struct {
	key   string
	value []byte
}

// objects yields the background as kube-apiserver would have stored it, had it been created through the API: with
// defaults filled in, addresses allocated, in protobuf.
func (b Background) objects(services netip.Prefix, now time.Time) iter.Seq2[stored, error] {
	enc := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	return func(yield func(stored, error) bool) {
		g := generator{now: metav1.NewTime(now.Truncate(time.Second)), services: services, endpoint: endpointRange.Addr()}
		put := func(key string, gvk schema.GroupVersionKind, obj runtime.Object) bool {
			legacyscheme.Scheme.Default(obj)
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			var buf bytes.Buffer
			err := enc.Encode(obj, &buf)
			return yield(stored{"/registry/" + key, buf.Bytes()}, err)
		}
		if !put("namespaces/"+BackgroundNamespace, corev1.SchemeGroupVersion.WithKind("Namespace"), g.namespace()) {
			return
		}
		ip := services.Addr()
		for range reservedServiceIPs {
			ip = ip.Next()
		}
		for i := range b.Services {
			svc := g.service(i, ip)
			ok := put("ipaddresses/"+ip.String(), networkingv1.SchemeGroupVersion.WithKind("IPAddress"), g.ipAddress(svc)) &&
				put("services/specs/"+svc.Namespace+"/"+svc.Name, corev1.SchemeGroupVersion.WithKind("Service"), svc)
			for n := 0; ok && n*endpointsPerSlice < b.EndpointsPerService; n++ {
				s := g.slice(svc, n, min(endpointsPerSlice, b.EndpointsPerService-n*endpointsPerSlice))
				ok = put("endpointslices/"+s.Namespace+"/"+s.Name, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), s)
			}
			if !ok {
				return
			}
			ip = ip.Next()
		}
	}
}

// generator makes the objects one after the other.
type generator struct {
	now      metav1.Time
	services netip.Prefix
	endpoint netip.Addr // the one given out last
}

func (g *generator) meta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              name,
		Namespace:         namespace,
		UID:               types.UID(uuid.NewString()),
		CreationTimestamp: g.now,
		Labels:            labels,
	}
}

func (g *generator) namespace() *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: g.meta("", BackgroundNamespace, map[string]string{corev1.LabelMetadataName: BackgroundNamespace}),
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

func (g *generator) service(i int, ip netip.Addr) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: g.meta(BackgroundNamespace, fmt.Sprintf("bg-%05d", i), nil),
		Spec: corev1.ServiceSpec{
			ClusterIP:      ip.String(),
			ClusterIPs:     []string{ip.String()},
			IPFamilies:     []corev1.IPFamily{corev1.IPv4Protocol},
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
			Ports:          []corev1.ServicePort{{Port: backgroundPort, TargetPort: intstr.FromInt32(backgroundTargetPort)}},
		},
	}
}

// ipAddress marks the Service's address as taken, as the allocator does (https://kep.k8s.io/1880).
func (g *generator) ipAddress(svc *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: g.meta("", svc.Spec.ClusterIP, map[string]string{
			networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol),
			networkingv1.LabelManagedBy:       "ipallocator.k8s.io",
		}),
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name},
		},
	}
}

func (g *generator) slice(svc *corev1.Service, n, endpoints int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: g.meta(svc.Namespace, fmt.Sprintf("%s-%d", svc.Name, n), map[string]string{
			discoveryv1.LabelServiceName: svc.Name,
			discoveryv1.LabelManagedBy:   "proxylab", // so that no controller thinks it its own
		}),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To(""), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](backgroundTargetPort),
		}},
	}
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID}}
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

// populate writes the background into a new etcd data directory.
func (b Background) populate(ctx context.Context, dataDir string, services netip.Prefix) error {
	cfg := etcdConfig(dataDir)
	e, err := startEtcd(ctx, cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	w := newBatchWriter(e.Server)
	for obj, err := range b.objects(services, time.Now()) {
		if err != nil {
			return fmt.Errorf("encode %s: %w", obj.key, err)
		}
		if err := w.put(ctx, obj); err != nil {
			return err
		}
	}
	return w.close(ctx)
}
