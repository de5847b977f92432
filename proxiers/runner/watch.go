package runner

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Selectors that leave out, on the server's side, what no proxier wants: Services of other proxies and headless ones.
const (
	notOtherProxy = "!service.kubernetes.io/service-proxy-name"
	notHeadless   = "!" + corev1.IsHeadlessService + "," + notOtherProxy
	hasClusterIP  = "spec.clusterIP!=" + corev1.ClusterIPNone
)

// sink is told about every object, first of all those that are there.
type sink struct {
	service func(obj *corev1.Service, gone bool)
	slice   func(obj *discoveryv1.EndpointSlice, gone bool)
	node    func(obj *corev1.Node, gone bool)
}

// watch is a set of running informers.
type watch struct {
	kinds     []watched
	factories []informers.SharedInformerFactory
}

type watched struct {
	what   string
	synced cache.InformerSynced // all that was there has been told to the sink
}

// startWatch watches Services, EndpointSlices and one Node until ctx is done. Call wait afterwards.
func startWatch(ctx context.Context, client kubernetes.Interface, node string, to sink, log *slog.Logger) (*watch, error) {
	w := &watch{}
	services := w.factory(client, func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = notOtherProxy, hasClusterIP })
	slices := w.factory(client, func(o *metav1.ListOptions) { o.LabelSelector = notHeadless })
	nodes := w.factory(client, func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + node })
	for _, err := range []error{
		handle(w, "Services", services.Core().V1().Services().Informer(), to.service, log),
		handle(w, "EndpointSlices", slices.Discovery().V1().EndpointSlices().Informer(), to.slice, log),
		handle(w, "the Node "+node, nodes.Core().V1().Nodes().Informer(), to.node, log),
	} {
		if err != nil {
			return nil, err
		}
	}
	for _, f := range w.factories {
		f.StartWithContext(ctx)
	}
	return w, nil
}

// factory makes informers that keep of each object what matters.
func (w *watch) factory(client kubernetes.Interface, tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
	f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(tweak),
		informers.WithTransform(func(obj any) (any, error) { return lean(obj), nil }))
	w.factories = append(w.factories, f)
	return f
}

// lean is an object without what is of no use here. Whoever sent it may go on reading it, as a client for tests does.
func lean(obj any) any {
	switch o := obj.(type) {
	case *corev1.Service:
		return unmanaged(o)
	case *discoveryv1.EndpointSlice:
		return unmanaged(o)
	case *corev1.Node:
		return unmanaged(o)
	}
	return obj
}

func unmanaged[T any, P interface {
	*T
	metav1.Object
}](o P) P {
	l := *o
	P(&l).SetManagedFields(nil)
	return &l
}

// handle passes the events of an informer on.
func handle[T any](w *watch, what string, informer cache.SharedIndexInformer, to func(T, bool), log *slog.Logger) error {
	pass := func(obj any, gone bool) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		if o, ok := obj.(T); ok {
			to(o, gone)
		}
	}
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		log.Warn("cannot watch "+what+"; trying again", "error", err)
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { pass(obj, false) },
		UpdateFunc: func(_, obj any) { pass(obj, false) },
		DeleteFunc: func(obj any) { pass(obj, true) },
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	w.kinds = append(w.kinds, watched{what, registration.HasSynced})
	return nil
}

// missing lists what was not told completely yet.
func (w *watch) missing() (what []string) {
	for _, k := range w.kinds {
		if !k.synced() {
			what = append(what, k.what)
		}
	}
	return what
}

// wait returns when the informers, whose context must be done, have ended.
func (w *watch) wait() {
	var wg sync.WaitGroup
	for _, f := range w.factories {
		wg.Go(f.Shutdown)
	}
	wg.Wait()
}
