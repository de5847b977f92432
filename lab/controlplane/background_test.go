package controlplane

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/discovery"
	discoveryvalidation "k8s.io/kubernetes/pkg/apis/discovery/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingvalidation "k8s.io/kubernetes/pkg/apis/scheduling/validation"
	"pgregory.net/rapid"
)

// decode reads an object as kube-apiserver reads it from etcd.
func decode(t rapid.TB, s stored) runtime.Object {
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), s.value)
	if err != nil {
		t.Fatalf("%s: %v", s.key, err)
	}
	m := obj.(interface{ GetName() string })
	if !strings.HasSuffix(s.key, "/"+m.GetName()) {
		t.Errorf("%s holds %s", s.key, m.GetName())
	}
	return obj
}

// invalid is what kube-apiserver's validation says.
func invalid(t rapid.TB, obj runtime.Object) field.ErrorList {
	switch o := obj.(type) {
	case *core.Namespace:
		return corevalidation.ValidateNamespace(o)
	case *core.Service:
		return corevalidation.ValidateServiceCreate(o)
	case *discovery.EndpointSlice:
		return discoveryvalidation.ValidateEndpointSliceCreate(o)
	case *networking.IPAddress:
		return networkingvalidation.ValidateIPAddress(o)
	case *rbac.ClusterRole:
		return rbacvalidation.ValidateClusterRole(o, rbacvalidation.ClusterRoleValidationOptions{})
	case *rbac.ClusterRoleBinding:
		return rbacvalidation.ValidateClusterRoleBinding(o)
	case *rbac.Role:
		return rbacvalidation.ValidateRole(o)
	case *rbac.RoleBinding:
		return rbacvalidation.ValidateRoleBinding(o)
	case *scheduling.PriorityClass:
		return schedulingvalidation.ValidatePriorityClass(o)
	default:
		t.Fatalf("unexpected %T", obj)
		return nil
	}
}

func TestBackgroundObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Background{
			Services:            rapid.IntRange(0, 30).Draw(t, "services"),
			EndpointsPerService: rapid.SampledFrom([]int{0, 1, 4, 99, 100, 101, 250}).Draw(t, "endpoints"),
		}
		if rapid.IntRange(0, 9).Draw(t, "many") == 0 {
			b = Background{Services: servicesPerNamespace + b.Services, EndpointsPerService: 1}
		}
		ranges := rapid.SampledFrom([]netip.Prefix{
			netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("172.20.4.0/22"),
		}).Draw(t, "range")
		if err := b.validate([]netip.Prefix{ranges}); err != nil {
			t.Fatal(err)
		}
		keys, endpoints, taken := map[string]bool{}, map[string]int{}, map[string]string{}
		namespaces := map[string]bool{} // of those that were seen: an object comes after its own
		services := map[string]*core.Service{}
		for s, err := range b.objects(ranges, time.Now()) {
			if err != nil {
				t.Fatal(err)
			}
			if keys[s.key] {
				t.Fatalf("%s twice", s.key)
			}
			keys[s.key] = true
			obj := decode(t, s)
			if errs := invalid(t, obj); len(errs) > 0 {
				t.Errorf("%s: %v", s.key, errs)
			}
			switch o := obj.(type) {
			case *core.Namespace:
				namespaces[o.Name] = true
			case *core.Service:
				services[o.Name] = o
				if !namespaces[o.Namespace] {
					t.Errorf("no namespace %s", o.Namespace)
				}
			case *networking.IPAddress:
				taken[o.Name] = o.Spec.ParentRef.Name
			case *discovery.EndpointSlice:
				addrs := map[string]bool{}
				for _, e := range o.Endpoints {
					addrs[e.Addresses[0]] = true
					if !endpointRange.Contains(netip.MustParseAddr(e.Addresses[0])) {
						t.Errorf("endpoint %s", e.Addresses[0])
					}
				}
				endpoints[o.Labels["kubernetes.io/service-name"]] += len(addrs)
			}
		}
		checkServices(t, b, ranges, services, taken, endpoints)
	})
}

func checkServices(t *rapid.T, b Background, r netip.Prefix, services map[string]*core.Service, taken map[string]string, endpoints map[string]int) {
	if len(services) != b.Services || len(taken) != b.Services {
		t.Errorf("%d Services and %d addresses instead of %d", len(services), len(taken), b.Services)
	}
	for name, svc := range services {
		ip := netip.MustParseAddr(svc.Spec.ClusterIPs[0])
		if !r.Contains(ip) || taken[ip.String()] != name {
			t.Errorf("%s has %s, which belongs to %q", name, ip, taken[ip.String()])
		}
		if endpoints[name] != b.EndpointsPerService {
			t.Errorf("%s has %d endpoints", name, endpoints[name])
		}
	}
}

func TestManyEndpointsGoRound(t *testing.T) {
	g := generator{endpoint: endpointRange.Addr()}
	seen := map[netip.Addr]int{}
	for range 300_000 {
		seen[g.nextEndpoint()]++
	}
	if most := slices.Max(slices.Collect(maps.Values(seen))); most != 3 || len(seen) != 1<<17-1 {
		t.Errorf("%d addresses, one of them %d times", len(seen), most)
	}
}

func TestBootstrapObjects(t *testing.T) {
	all, err := bootstrapObjects(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, s := range all {
		if keys[s.key] {
			t.Errorf("%s twice", s.key)
		}
		keys[s.key] = true
		if errs := invalid(t, decode(t, s)); len(errs) > 0 {
			t.Errorf("%s: %v", s.key, errs)
		}
	}
	for _, k := range []string{bootstrapMark, "/registry/namespaces/default", "/registry/clusterrolebindings/system:node-proxier",
		"/registry/priorityclasses/system-node-critical", "/registry/roles/kube-system/extension-apiserver-authentication-reader"} {
		if !keys[k] {
			t.Errorf("%s is missing", k)
		}
	}
	if len(all) > int(etcdConfig(t.TempDir()).MaxTxnOps) {
		t.Errorf("%d objects do not fit into one transaction", len(all))
	}
}
