package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/utils/ptr"
)

// TestBackgroundLives shows that kube-apiserver and its repair loops take the background for their own work.
func TestBackgroundLives(t *testing.T) {
	lab := labName("background")
	cfg := testConfig(t, lab)
	cfg.Background = Background{Services: 60, EndpointsPerService: 3}
	stopAfterwards(t, lab)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cp, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, cp.AdminKubeconfig(), "")
	services, err := client.CoreV1().Services(BackgroundNamespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(services.Items) != 60 {
		t.Fatalf("%d Services, %v", len(services.Items), err)
	}
	slices, err := client.DiscoveryV1().EndpointSlices(BackgroundNamespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(slices.Items) != 60 || len(slices.Items[7].Endpoints) != 3 {
		t.Fatalf("%d slices, %v", len(slices.Items), err)
	}
	t.Run("as if made through the API", func(t *testing.T) { compareWithAPI(t, cfg, client, services.Items[3], slices.Items[3]) })
	t.Run("addresses are taken", func(t *testing.T) { addressesTaken(t, client, services.Items[5]) })
	t.Run("can be changed", func(t *testing.T) { changeBackground(t, client, services.Items[8]) })
	t.Run("nothing to repair", func(t *testing.T) { nothingRepaired(t, cfg, client) })
}

// compareWithAPI creates the same Service and slice through the API and compares what etcd has.
func compareWithAPI(t *testing.T, cfg Config, client kubernetes.Interface, svc corev1.Service, slice discoveryv1.EndpointSlice) {
	ctx := t.Context()
	newSvc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: BackgroundNamespace, Name: "like"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: svc.Spec.Ports[0].Port, TargetPort: svc.Spec.Ports[0].TargetPort}}},
	}
	newSlice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: BackgroundNamespace, Name: "like", Labels: slice.Labels},
		AddressType: slice.AddressType, Ports: slice.Ports, Endpoints: slice.Endpoints,
	}
	made, err := client.CoreV1().Services(BackgroundNamespace).Create(ctx, newSvc, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.DiscoveryV1().EndpointSlices(BackgroundNamespace).Create(ctx, newSlice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + paths{cfg.Dir}.etcdSocket()}})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	for ours, theirs := range map[string]string{
		"services/specs/background/" + svc.Name:   "services/specs/background/like",
		"endpointslices/background/" + slice.Name: "endpointslices/background/like",
		"ipaddresses/" + svc.Spec.ClusterIP:       "ipaddresses/" + made.Spec.ClusterIP,
		"namespaces/" + BackgroundNamespace:       "namespaces/default",
	} {
		a, b := normalised(t, etcd, ours), normalised(t, etcd, theirs)
		if a.kind != b.kind || !equality.Semantic.DeepEqual(a.obj, b.obj) {
			t.Errorf("%s and %s differ:\n%s %+v\n%s %+v", ours, theirs, a.kind, a.obj, b.kind, b.obj)
		}
	}
	if err := client.CoreV1().Services(BackgroundNamespace).Delete(ctx, "like", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

type etcdObject struct {
	kind string // with its version
	obj  object
}

// normalised reads an object from etcd without what is each object's own.
func normalised(t *testing.T, etcd *clientv3.Client, key string) etcdObject {
	t.Helper()
	resp, err := etcd.Get(t.Context(), "/registry/"+key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("%s: %v, %v", key, resp, err)
	}
	// Not the universal decoder, which would convert to the internal version.
	raw, gvk, err := legacyscheme.Codecs.UniversalDeserializer().Decode(resp.Kvs[0].Value, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	obj := raw.(object)
	if created := obj.GetCreationTimestamp(); obj.GetUID() == "" || created.IsZero() {
		t.Errorf("%s has no identity", key)
	}
	obj.SetUID("")
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetManagedFields(nil)
	obj.SetName("")
	obj.SetGenerateName("")
	if obj.GetNamespace() == "" {
		obj.SetLabels(map[string]string{"compared": fmt.Sprint(len(obj.GetLabels()))})
	}
	switch o := raw.(type) {
	case *corev1.Service:
		o.Spec.ClusterIP, o.Spec.ClusterIPs = "", nil
	case *networkingv1.IPAddress:
		o.Spec.ParentRef.Name = ""
	}
	return etcdObject{kind: gvk.String(), obj: obj}
}

func addressesTaken(t *testing.T, client kubernetes.Interface, svc corev1.Service) {
	twin := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "twin"},
		Spec:       corev1.ServiceSpec{ClusterIP: svc.Spec.ClusterIP, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	_, err := client.CoreV1().Services("default").Create(t.Context(), twin, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("a second Service with %s: %v", svc.Spec.ClusterIP, err)
	}
}

func changeBackground(t *testing.T, client kubernetes.Interface, svc corev1.Service) {
	ctx, services := t.Context(), client.CoreV1().Services(BackgroundNamespace)
	patch := []byte(`{"spec":{"sessionAffinity":"ClientIP","type":"NodePort"}}`)
	changed, err := services.Patch(ctx, svc.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil || changed.Spec.Ports[0].NodePort == 0 {
		t.Fatalf("%v, %v", changed.Spec, err)
	}
	apply := []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"` + svc.Name + `","labels":{"a":"b"}}}`)
	if _, err := services.Patch(ctx, svc.Name, types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "test", Force: ptr.To(true)}); err != nil {
		t.Errorf("apply: %v", err)
	}
	if err := services.Delete(ctx, svc.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "address free again", func(ctx context.Context) error {
		_, err := client.NetworkingV1().IPAddresses().Get(ctx, svc.Spec.ClusterIP, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("still there"), err)
	})
}

func nothingRepaired(t *testing.T, cfg Config, client kubernetes.Interface) {
	events, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if strings.HasPrefix(e.Reason, "ClusterIP") || strings.HasPrefix(e.Reason, "IPAddress") {
			t.Errorf("%s: %s", e.Reason, e.Note)
		}
	}
	log, err := os.ReadFile(paths{cfg.Dir}.log(kubeAPIServer))
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.DeleteFunc(strings.Split(string(log), "\n"), func(l string) bool {
		return !strings.Contains(l, "repairing") && !strings.Contains(l, "panic")
	})
	if len(bad) > 0 {
		t.Errorf("the log has:\n%s", strings.Join(bad, "\n"))
	}
}
