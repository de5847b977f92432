package controlplane

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// A new kube-apiserver fills an empty etcd with RBAC's built-in roles and the system's priority classes, one request
// after the other and after a pause of a second, and is not ready before: that is half of its start. Here etcd is
// filled with the same objects before the server starts, and those steps are left out.

// bootstrapHooks are the steps of kube-apiserver that bootstrap makes superfluous.
var bootstrapHooks = []string{rbacrest.PostStartHookName, schedulingrest.PostStartHookName}

func skipBootstrapHooks(c *app.Config) {
	c.KubeAPIs.ControlPlane.Generic.DisabledPostStartHooks.Insert(bootstrapHooks...)
}

// bootstrapMark is there when the others are: they are written in one transaction.
const bootstrapMark = "/registry/clusterroles/cluster-admin"

// bootstrap fills a new etcd.
func bootstrap(ctx context.Context, s *etcdserver.EtcdServer) error {
	client := v3client.New(s)
	defer client.Close()
	have, err := client.Get(ctx, bootstrapMark, clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("built-in objects: %w", err)
	}
	if have.Count > 0 {
		return nil
	}
	objects, err := bootstrapObjects(time.Now())
	if err != nil {
		return err
	}
	var ops []clientv3.Op
	for _, o := range objects {
		ops = append(ops, clientv3.OpPut(o.key, string(o.value)))
	}
	if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
		return fmt.Errorf("built-in objects: %w", err)
	}
	return nil
}

func bootstrapObjects(now time.Time) (all []stored, err error) {
	enc := newEncoder(metav1.NewTime(now.Truncate(time.Second)))
	add := func(resource string, obj object) {
		s, e := enc.encode(resource, obj)
		if e != nil && err == nil {
			err = e
		}
		all = append(all, s)
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		add("namespaces", newNamespace(name))
	}
	for _, c := range schedulingv1.SystemPriorityClasses() {
		c = c.DeepCopy()
		c.Generation = 1 // kube-apiserver counts for this kind
		add("priorityclasses", c)
	}
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		add("clusterroles", &r)
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		add("clusterrolebindings", &b)
	}
	for ns, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			r.Namespace = ns
			add("roles", &r)
		}
	}
	for ns, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			b.Namespace = ns
			add("rolebindings", &b)
		}
	}
	return all, err
}

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}
