// Package agent is the node agent of an embedded lab: one process that is to Kubernetes what a kubelet is on each of
// the lab's nodes. Pods are network namespaces, and their containers are servers of this process whose sockets were
// opened in there (package echo).
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
)

// Config says which nodes the agent is. Their network must be there.
type Config struct {
	Plan       fabric.Plan
	Dead       []string     // nodes of the plan that have no power
	Changes    <-chan Nodes // which nodes it is from then on; nil: they stay the same
	Kubeconfig string       // with all rights
	Log        *slog.Logger
}

// atOnce bounds how many pods' namespaces are made or removed at the same time: the kernel does it one by one anyway.
const atOnce = 8

type agent struct {
	lab    string
	client kubernetes.Interface
	log    *slog.Logger
	events record.EventRecorder
	nodes  *nodeSet
	execs  execs
	kernel chan struct{} // holds a token for each that works in the kernel

	mu      sync.Mutex
	workers map[string]*worker // by namespace/name
	running sync.WaitGroup
}

// Run registers the nodes, runs the pods that are bound to them and renews their leases until ctx ends. Namespaces
// of pods that vanished in between are removed; those of pods that are still wanted go on with their addresses.
func Run(ctx context.Context, cfg Config) error {
	client, err := connect(cfg.Kubeconfig)
	if err != nil {
		return fmt.Errorf("node agent: %w", err)
	}
	return run(ctx, cfg, client)
}

func run(ctx context.Context, cfg Config, client kubernetes.Interface) error {
	a := &agent{
		lab: cfg.Plan.Lab, client: client, log: cfg.Log, kernel: make(chan struct{}, atOnce),
		nodes: newNodeSet(cfg.Plan), workers: map[string]*worker{},
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	a.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "proxylab-agent"})

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { a.keepNodes(ctx, Nodes{cfg.Plan.Count, cfg.Dead}, cfg.Changes); return nil })
	g.Go(func() error { return a.keepPods(ctx) })
	return g.Wait()
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // programming latency is measured against what the agent reports: it must not wait
	cfg.UserAgent = "proxylab-agent"
	cfg.ContentType, cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(cfg)
}

// keepNodes registers the nodes and then renews the leases of those that have power.
func (a *agent) keepNodes(ctx context.Context, nodes Nodes, changes <-chan Nodes) {
	var kept sync.WaitGroup
	defer kept.Wait()
	for {
		a.nodes.set(ctx, nodes, func(ctx context.Context, n fabric.Node) {
			kept.Go(func() { a.keepNode(ctx, n) })
		})
		select {
		case nodes = <-changes:
			a.log.Info("nodes have changed", "count", nodes.Count, "dead", nodes.Dead)
		case <-ctx.Done():
			return
		}
	}
}

func (a *agent) keepNode(ctx context.Context, n fabric.Node) {
	retry := func(what string, f func() error) bool {
		for {
			err := f()
			if err == nil {
				return true
			}
			if ctx.Err() != nil {
				return false
			}
			a.log.Warn("cannot "+what+", trying again", "node", n.Name, "error", err)
			if procs.Sleep(ctx, 200*time.Millisecond) != nil {
				return false
			}
		}
	}
	var node *corev1.Node
	if !retry("register", func() (err error) { node, err = a.register(ctx, n); return err }) {
		return
	}
	a.log.Info("node is registered", "node", n.Name)
	for {
		if !retry("renew lease", func() error { return renew(ctx, a.client, n, node.UID) }) || procs.Sleep(ctx, renewEvery) != nil {
			return
		}
	}
}

func (a *agent) register(ctx context.Context, n fabric.Node) (*corev1.Node, error) {
	version, err := a.client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("version of the API server: %w", err)
	}
	return register(ctx, a.client, n, version.GitVersion)
}

// keepPods hands each change of a pod of ours to that pod's worker.
func (a *agent) keepPods(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(a.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}),
		informers.WithTransform(func(o any) (any, error) {
			if pod, ok := o.(*corev1.Pod); ok {
				lean := *pod // whoever sent it may go on reading it, as a client for tests does
				lean.ManagedFields = nil
				return &lean, nil
			}
			return o, nil
		}))
	informer := factory.Core().V1().Pods().Informer()
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	a.adopt(informer.GetStore().List())
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { a.pod(ctx, o, false) },
		UpdateFunc: func(_, o any) { a.pod(ctx, o, false) },
		DeleteFunc: func(o any) { a.pod(ctx, o, true) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	<-ctx.Done()
	a.running.Wait()
	return nil
}

// adopt sets addresses aside that pods have already, and removes namespaces whose pod is gone.
func (a *agent) adopt(pods []any) {
	wanted := map[string]bool{}
	for _, o := range pods {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			continue
		}
		_, pool, ours := a.nodes.get(pod.Spec.NodeName)
		if !ours {
			continue
		}
		key := pod.Namespace + "/" + pod.Name
		path := fabric.PodPath(a.lab, pod.Namespace, pod.Name)
		wanted[path] = true
		pool.reserve(key, recorded(pod))
		if has, ok := fabric.PodAddrsAt(path); ok && len(pod.Status.PodIPs) == 0 {
			pool.reserve(key, has)
		}
	}
	paths, err := fabric.PodPaths(a.lab)
	if err != nil {
		a.log.Warn("cannot look for namespaces of pods that are gone", "error", err)
	}
	for _, path := range paths {
		if !wanted[path] {
			a.log.Info("removing the namespace of a pod that is gone", "path", path)
			if err := fabric.RemovePodAt(path); err != nil {
				a.log.Warn("cannot remove the namespace of a pod that is gone", "error", err)
			}
		}
	}
}

// pod tells the pod's worker about a change.
func (a *agent) pod(ctx context.Context, o any, gone bool) {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	if _, _, ours := a.nodes.get(pod.Spec.NodeName); !ours {
		return
	}
	key := pod.Namespace + "/" + pod.Name
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[key]
	if w == nil {
		if gone {
			return
		}
		w = newWorker(a, key)
		a.workers[key] = w
		a.running.Go(func() { w.run(ctx) })
	}
	if gone {
		pod = nil
	}
	w.tell(pod)
}

// retire ends a worker that has nothing to do, unless there is news for it.
func (a *agent) retire(w *worker) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.news() {
		return false
	}
	delete(a.workers, w.key)
	return true
}
