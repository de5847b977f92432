package play

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// api is what a run uses of the Kubernetes API.
type api struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
}

func connect(kubeconfig string) (*api, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 500, 1000
	config.UserAgent = "proxylab-run"
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	typed, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, err
	}
	return &api{
		typed: typed, dynamic: dyn,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)),
	}, nil
}

// stage is the namespace that one subject is played in, and a live view of it.
type stage struct {
	*api
	namespace string
	factory   informers.SharedInformerFactory
	stop      context.CancelFunc

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change in the namespace

	// onEndpoints hears of every change of a Service's ready endpoints.
	onEndpoints func(endpointChange)
	ready       map[string]map[string]bool // Service -> pods that are ready behind it
}

// endpointChange is a change of the pods that are ready behind a Service, as the API told it.
type endpointChange struct {
	service        string
	at             time.Time
	added, removed []string
}

// newStage makes the namespace and watches it. onEndpoints is called from one goroutine.
func newStage(ctx context.Context, a *api, namespace string, onEndpoints func(endpointChange)) (*stage, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "proxylab"}}}
	if _, err := a.typed.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	watch, stop := context.WithCancel(ctx)
	s := &stage{
		api: a, namespace: namespace, stop: stop,
		factory:     informers.NewSharedInformerFactoryWithOptions(a.typed, 0, informers.WithNamespace(namespace)),
		changed:     make(chan struct{}),
		onEndpoints: onEndpoints,
		ready:       map[string]map[string]bool{},
	}
	for _, informer := range []cache.SharedIndexInformer{
		s.factory.Core().V1().Pods().Informer(),
		s.factory.Core().V1().Services().Informer(),
		s.factory.Apps().V1().Deployments().Informer(),
	} {
		if _, err := informer.AddEventHandler(s.handler(func(any) {})); err != nil {
			stop()
			return nil, err
		}
	}
	if _, err := s.factory.Discovery().V1().EndpointSlices().Informer().AddEventHandler(s.handler(s.endpointsChanged)); err != nil {
		stop()
		return nil, err
	}
	s.factory.Start(watch.Done())
	for kind, ok := range s.factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			stop()
			return nil, fmt.Errorf("namespace %s: no list of %v from the API", namespace, kind)
		}
	}
	return s, nil
}

// handler runs f with each object that changed and then wakes whoever awaits something.
func (s *stage) handler(f func(any)) cache.ResourceEventHandlerFuncs {
	tell := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		f(object)
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell,
		UpdateFunc: func(_, object any) { tell(object) },
	}
}

// endpointsChanged works out what became ready or stopped being so behind the Service of a slice. Only IPv4 slices
// count: the ones of the other family say the same a moment earlier or later.
func (s *stage) endpointsChanged(object any) {
	at := time.Now()
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok || slice.AddressType != discoveryv1.AddressTypeIPv4 {
		return
	}
	service := slice.Labels[discoveryv1.LabelServiceName]
	now := s.readyPods(service)
	change := endpointChange{service: service, at: at}
	before := s.ready[service]
	for pod := range now {
		if !before[pod] {
			change.added = append(change.added, pod)
		}
	}
	for pod := range before {
		if !now[pod] {
			change.removed = append(change.removed, pod)
		}
	}
	s.ready[service] = now
	if len(change.added)+len(change.removed) > 0 {
		s.onEndpoints(change)
	}
}

// readyPods are the pods that are ready behind a Service, by the EndpointSlices seen so far.
func (s *stage) readyPods(service string) map[string]bool {
	slices, err := s.factory.Discovery().V1().EndpointSlices().Lister().EndpointSlices(s.namespace).
		List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil { // a lister of a cache has no error to give
		return nil
	}
	pods := map[string]bool{}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			isReady := e.Conditions.Ready == nil || *e.Conditions.Ready
			if isReady && e.TargetRef != nil && slice.AddressType == discoveryv1.AddressTypeIPv4 {
				pods[e.TargetRef.Name] = true
			}
		}
	}
	return pods
}

// await returns once cond holds. It is asked again after every change in the namespace; what it returns beside says
// how far things are, for the error.
func (s *stage) await(ctx context.Context, what string, limit time.Duration, cond func() (bool, string)) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		ok, state := cond()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("%s: not after %s: %s", what, limit, state)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%s)", what, context.Cause(ctx), state)
		}
	}
}

// apply makes the objects as they are written, in the stage's namespace unless they name another.
func (s *stage) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		resource, err := s.resource(object.GroupVersionKind().GroupKind().String(), object)
		if err != nil {
			return err
		}
		_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "proxylab", Force: true})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (s *stage) resource(what string, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := object.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, object.GetName(), err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return s.dynamic.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = s.namespace
	}
	return s.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// awaitDeployment returns once a Deployment's pods are as it says, all of them Ready.
func (s *stage) awaitDeployment(ctx context.Context, name string) error {
	return s.await(ctx, "Deployment "+name+" ready", 2*time.Minute, func() (bool, string) {
		d, err := s.factory.Apps().V1().Deployments().Lister().Deployments(s.namespace).Get(name)
		if err != nil {
			return false, err.Error()
		}
		return deploymentSettled(d), fmt.Sprintf("%d of %d replicas ready, %d updated",
			d.Status.ReadyReplicas, replicasOf(d), d.Status.UpdatedReplicas)
	})
}

func deploymentSettled(d *appsv1.Deployment) bool {
	want := replicasOf(d)
	return d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == want &&
		d.Status.ReadyReplicas == want && d.Status.UpdatedReplicas == want
}

func replicasOf(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// awaitPod returns once a pod is Ready.
func (s *stage) awaitPod(ctx context.Context, name string) (*corev1.Pod, error) {
	var pod *corev1.Pod
	err := s.await(ctx, "Pod "+name+" ready", time.Minute, func() (bool, string) {
		p, err := s.factory.Core().V1().Pods().Lister().Pods(s.namespace).Get(name)
		if err != nil {
			return false, err.Error()
		}
		pod = p
		return podReady(p), "phase " + string(p.Status.Phase)
	})
	return pod, err
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

// readyPodsOf lists the pods of a Deployment that are Ready and not on their way out.
func (s *stage) readyPodsOf(deployment string) ([]*corev1.Pod, error) {
	d, err := s.factory.Apps().V1().Deployments().Lister().Deployments(s.namespace).Get(deployment)
	if err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, err
	}
	all, err := s.factory.Core().V1().Pods().Lister().Pods(s.namespace).List(selector)
	if err != nil {
		return nil, err
	}
	ready := all[:0:0]
	for _, p := range all {
		if podReady(p) {
			ready = append(ready, p)
		}
	}
	return ready, nil
}

// service is a Service of the stage, as last seen.
func (s *stage) service(name string) (*corev1.Service, error) {
	return s.factory.Core().V1().Services().Lister().Services(s.namespace).Get(name)
}

// patch merges a patch (JSON, RFC 7386) into an object of the stage's namespace.
func (s *stage) patch(ctx context.Context, kind, name string, patch []byte) error {
	mapping, err := s.mappingOf(kind)
	if err != nil {
		return err
	}
	_, err = s.dynamic.Resource(mapping.Resource).Namespace(s.namespace).
		Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "proxylab"})
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", kind, name, err)
	}
	return nil
}

// remove deletes an object and returns once it is gone from the API.
func (s *stage) remove(ctx context.Context, kind, name string) error {
	mapping, err := s.mappingOf(kind)
	if err != nil {
		return err
	}
	resource := s.dynamic.Resource(mapping.Resource).Namespace(s.namespace)
	if err := resource.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete %s %s: %w", kind, name, err)
	}
	return nil
}

// mappingOf finds the resource behind a kind written as in a scenario: "service", "deployment".
func (s *stage) mappingOf(kind string) (*meta.RESTMapping, error) {
	resource, err := s.mapper.ResourceFor(schemaResource(kind))
	if err != nil {
		return nil, fmt.Errorf("kind %q: %w", kind, err)
	}
	gvk, err := s.mapper.KindFor(resource)
	if err != nil {
		return nil, err
	}
	return s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// close deletes all that was played and stops watching. The namespace's own end is not awaited: what could disturb
// the next subject (Services with their node ports, pods) is gone when close returns.
func (s *stage) close(ctx context.Context) error {
	defer s.stop()
	now := int64(0)
	atOnce := metav1.DeleteOptions{GracePeriodSeconds: &now}
	none := metav1.ListOptions{}
	if err := s.typed.AppsV1().Deployments(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, none); err != nil {
		return fmt.Errorf("delete Deployments of %s: %w", s.namespace, err)
	}
	services, err := s.factory.Core().V1().Services().Lister().Services(s.namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	for _, svc := range services {
		if err := s.typed.CoreV1().Services(s.namespace).Delete(ctx, svc.Name, atOnce); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Service %s: %w", svc.Name, err)
		}
	}
	if err := s.typed.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete namespace %s: %w", s.namespace, err)
	}
	return s.await(ctx, "pods of "+s.namespace+" gone", 30*time.Second, func() (bool, string) {
		pods, err := s.factory.Core().V1().Pods().Lister().Pods(s.namespace).List(labels.Everything())
		if err != nil {
			return false, err.Error()
		}
		for _, p := range pods {
			if p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds > 0 {
				// A pod on its way out with a grace period serves until that is over: nobody needs it any more.
				err := s.typed.CoreV1().Pods(s.namespace).Delete(ctx, p.Name, atOnce)
				if err != nil && !apierrors.IsNotFound(err) {
					return false, err.Error()
				}
			}
		}
		return len(pods) == 0, fmt.Sprintf("%d left", len(pods))
	})
}
