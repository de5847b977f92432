package play

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

	"proxylab/lab"
	"proxylab/scenarios"
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

// stage is where one subject is played: a live view of the namespaces that the scenario uses, and what was put there.
type stage struct {
	*api
	factories map[string]informers.SharedInformerFactory // by namespace
	stop      context.CancelFunc

	mu      sync.Mutex
	changed chan struct{}                // closed and replaced at every change in the namespaces
	applied []*unstructured.Unstructured // in order
	ready   map[string]map[string]bool   // namespace/Service -> pods that are ready behind it

	published *publisher // hears of Services; nil: nobody does

	// onEndpoints hears of every change of a Service's ready endpoints. It is called from one goroutine per namespace.
	onEndpoints func(endpointChange)
}

// endpointChange is a change of the pods that are ready behind a Service, as the API told it.
type endpointChange struct {
	service        string // namespace/name
	at             time.Time
	added, removed []string
}

// newStage watches the namespaces, which it makes where they are missing.
func newStage(ctx context.Context, a *api, namespaces []string, onEndpoints func(endpointChange), published *publisher) (*stage, error) {
	watch, stop := context.WithCancel(ctx)
	s := &stage{
		api: a, stop: stop, onEndpoints: onEndpoints, published: published,
		factories: map[string]informers.SharedInformerFactory{},
		changed:   make(chan struct{}),
		ready:     map[string]map[string]bool{},
	}
	for _, namespace := range namespaces {
		if err := s.watch(watch, namespace); err != nil {
			stop()
			return nil, fmt.Errorf("namespace %s: %w", namespace, err)
		}
	}
	return s, nil
}

func (s *stage) watch(ctx context.Context, namespace string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{lab.MadeLabel: lab.Manager}}}
	if _, err := s.typed.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(s.typed, 0, informers.WithNamespace(namespace))
	nothing := func(any) {}
	service := nothing
	if s.published != nil {
		service = s.published.shown
	}
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		changed  func(any)
	}{
		{factory.Core().V1().Pods().Informer(), nothing},
		{factory.Core().V1().Services().Informer(), service},
		{factory.Apps().V1().Deployments().Informer(), nothing},
		{factory.Discovery().V1().EndpointSlices().Informer(), s.endpointsChanged},
	} {
		if _, err := w.informer.AddEventHandler(s.handler(w.changed)); err != nil {
			return err
		}
	}
	s.factories[namespace] = factory
	factory.Start(ctx.Done())
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("no list of %v from the API", kind)
		}
	}
	return nil
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
	change := endpointChange{service: slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName], at: at}
	now := s.readyPods(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])
	s.mu.Lock()
	before := s.ready[change.service]
	s.ready[change.service] = now
	s.mu.Unlock()
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
	if len(change.added)+len(change.removed) > 0 {
		s.onEndpoints(change)
	}
}

// readyPods are the pods that are ready behind a Service, by the EndpointSlices seen so far.
func (s *stage) readyPods(namespace, service string) map[string]bool {
	found, err := s.factories[namespace].Discovery().V1().EndpointSlices().Lister().EndpointSlices(namespace).
		List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil { // a lister of a cache has no error to give
		return nil
	}
	pods := map[string]bool{}
	for _, slice := range found {
		for _, e := range slice.Endpoints {
			serves := e.Conditions.Ready == nil || *e.Conditions.Ready
			if serves && e.TargetRef != nil && slice.AddressType == discoveryv1.AddressTypeIPv4 {
				pods[e.TargetRef.Name] = true
			}
		}
	}
	return pods
}

// await returns once cond holds. It is asked again after every change in the namespace; what it returns beside says
// how far things are, for the error.
func (s *stage) await(ctx context.Context, what string, limit time.Duration, cond func() (bool, string)) error {
	timer := time.NewTimer(lab.Patience(limit))
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

// apply makes the objects as they are written, with a label by which they are known, and returns once the watches have shown them.
func (s *stage) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		resource, err := s.resource(object)
		if err != nil {
			return err
		}
		if object, err = ownOf(ctx, resource, object); err != nil {
			return err
		}
		s.mu.Lock()
		s.applied = append(s.applied, object)
		s.mu.Unlock()
		if s.published != nil {
			s.published.created(object)
		}
		made, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: lab.Manager, Force: true})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		what := fmt.Sprintf("watch shows %s %s", object.GetKind(), object.GetName())
		err = s.await(ctx, what, 30*time.Second, func() (bool, string) { return s.shown(made), "not shown" })
		if err != nil {
			return err
		}
	}
	return nil
}

// ownOf is the object with our label. That there is one of its name already which somebody else has made is an error: it would be
// changed, and deleted in the end.
func ownOf(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	is, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	case is.GetLabels()[lab.MadeLabel] == "":
		return nil, fmt.Errorf("there is a %s %s already that this program did not make: remove it, or play on another lab", object.GetKind(), object.GetName())
	}
	own := object.DeepCopy()
	labels := own.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[lab.MadeLabel] = lab.Manager
	own.SetLabels(labels)
	return own, nil
}

// shown: the watch of the object's kind, if there is one, has shown this very object and not one of that name before it.
func (s *stage) shown(object *unstructured.Unstructured) bool {
	factory, watched := s.factories[object.GetNamespace()]
	if !watched {
		return true
	}
	informers := map[string]cache.SharedIndexInformer{
		"Service":       factory.Core().V1().Services().Informer(),
		"Pod":           factory.Core().V1().Pods().Informer(),
		"Deployment":    factory.Apps().V1().Deployments().Informer(),
		"EndpointSlice": factory.Discovery().V1().EndpointSlices().Informer(),
	}
	informer, watched := informers[object.GetKind()]
	if !watched {
		return true
	}
	seen, exists, err := informer.GetStore().GetByKey(object.GetNamespace() + "/" + object.GetName())
	if err != nil || !exists {
		return false
	}
	is, err := meta.Accessor(seen)
	return err == nil && is.GetUID() == object.GetUID()
}

// resource is where an object belongs.
func (s *stage) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := object.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return s.dynamic.Resource(mapping.Resource), nil
	}
	return s.dynamic.Resource(mapping.Resource).Namespace(namespaceOf(object)), nil
}

func namespaceOf(object *unstructured.Unstructured) string {
	if namespace := object.GetNamespace(); namespace != "" {
		return namespace
	}
	return "default"
}

// at is the resource that a step's target names.
func (s *stage) at(ref scenarios.Ref) (dynamic.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	resource := s.dynamic.Resource(gv.WithResource(ref.Resource))
	if ref.Namespace == "" {
		return resource, nil
	}
	return resource.Namespace(ref.Namespace), nil
}

// patch merges a patch (RFC 7396) into an object.
func (s *stage) patch(ctx context.Context, ref scenarios.Ref, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	resource, err := s.at(ref)
	if err != nil {
		return err
	}
	_, err = resource.Patch(ctx, ref.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: lab.Manager})
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", ref.Kind, ref.Name, err)
	}
	return nil
}

// remove deletes an object and returns once it is gone from the API.
func (s *stage) remove(ctx context.Context, ref scenarios.Ref) error {
	resource, err := s.at(ref)
	if err != nil {
		return err
	}
	if err := resource.Delete(ctx, ref.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete %s %s: %w", ref.Kind, ref.Name, err)
	}
	return s.await(ctx, ref.Kind+" "+ref.Name+" gone", time.Minute, func() (bool, string) {
		_, err := resource.Get(ctx, ref.Name, metav1.GetOptions{})
		if gone := apierrors.IsNotFound(err); !gone {
			return false, "still there"
		}
		if s.published != nil && ref.Kind == "Service" {
			s.published.forget(ref.Namespace + "/" + ref.Name)
		}
		return true, ""
	})
}

// close deletes what was applied, last first, waits until the pods of it are gone, and stops watching.
func (s *stage) close(ctx context.Context) error {
	defer s.stop()
	now := int64(0)
	atOnce := metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}
	s.mu.Lock()
	applied := s.applied
	s.mu.Unlock()
	for _, object := range slices.Backward(applied) {
		resource, err := s.resource(object)
		if err != nil {
			return err
		}
		if err := resource.Delete(ctx, object.GetName(), atOnce); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	if err := s.balancersGone(ctx, applied); err != nil {
		return err
	}
	return s.await(ctx, "pods of the scenario gone", time.Minute, func() (bool, string) {
		left := s.podsOf(applied)
		for _, p := range left {
			if p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0 {
				continue
			}
			// A pod with a grace period serves until that is over: nobody needs it any more.
			err := s.typed.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, atOnce)
			if err != nil && !apierrors.IsNotFound(err) {
				return false, err.Error()
			}
		}
		return len(left) == 0, fmt.Sprintf("%d left", len(left))
	})
}

// balancersGone returns when Services that have load balancers are gone: their controller deletes those first.
func (s *stage) balancersGone(ctx context.Context, applied []*unstructured.Unstructured) error {
	if s.published == nil {
		return nil
	}
	for _, object := range applied {
		if object.GetKind() != "Service" {
			continue
		}
		name, namespace := object.GetName(), namespaceOf(object)
		err := s.await(ctx, "Service "+name+" gone", time.Minute, func() (bool, string) {
			_, err := s.service(namespace, name)
			return err != nil, "still there"
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var background = metav1.DeletePropagationBackground
