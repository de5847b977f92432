package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"proxylab/lab/netns/echo"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/netns/ns"
)

const (
	callTimeout = time.Minute // of one call of the API
	firstRetry  = 200 * time.Millisecond
	lastRetry   = 10 * time.Second
)

// worker runs all pods that bear one name, one after the other. It is told the newest state and works towards it.
type worker struct {
	a   *agent
	key string // namespace/name
	now func() time.Time

	mu     sync.Mutex
	want   *corev1.Pod // nil: no pod
	unread bool
	wake   chan struct{}

	// The rest is the worker's own.
	current *running
	ended   types.UID // the pod that was ended: what is still told about it is old
	removed bool      // and its object was removed
	backoff time.Duration
}

// running is a pod that was taken on.
type running struct {
	uid        types.UID
	namespace  string
	name       string
	node       fabric.Node
	pool       *pool // of addresses of the node
	report     report
	containers []container
	servers    map[string]*echo.Server
	linked     bool      // has its addresses and namespace
	deadline   time.Time // of its end; zero: not being deleted
	grace      int64     // the grace period, in seconds, that the deadline was made of
	sent       []byte    // the newest patch of its status that the API took
}

func newWorker(a *agent, key string) *worker {
	return &worker{a: a, key: key, now: time.Now, wake: make(chan struct{}, 1)}
}

// tell is called with the agent's lock held, as is news.
func (w *worker) tell(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want, w.unread = pod, true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) news() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unread
}

func (w *worker) read() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread = false
	return w.want
}

// nodeName is where it works, or will.
func (w *worker) nodeName() string {
	if w.current != nil {
		return w.current.node.Name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.want == nil {
		return ""
	}
	return w.want.Spec.NodeName
}

func (w *worker) run(ctx context.Context) {
	defer w.closeServers()
	for {
		w.a.nodes.awaitPower(ctx, w.nodeName())
		if ctx.Err() != nil {
			return
		}
		pod := w.read()
		again, err := w.step(ctx, pod)
		if err != nil && ctx.Err() == nil {
			w.backoff = min(max(2*w.backoff, firstRetry), lastRetry)
			again = w.backoff
			w.a.log.Warn("pod: trying again", "pod", w.key, "in", again, "error", err)
		} else {
			w.backoff = 0
		}
		if pod == nil && err == nil && w.a.retire(w) {
			return
		}
		var timer <-chan time.Time
		if again > 0 {
			timer = time.After(again)
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-timer:
		}
	}
}

// step brings the pod nearer to what is wanted. It returns when to look again without being told, 0: no need.
func (w *worker) step(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if w.current != nil && (pod == nil || pod.UID != w.current.uid) {
		if err := w.end(ctx); err != nil {
			return 0, err
		}
	}
	if pod == nil {
		return 0, nil
	}
	if pod.UID == w.ended {
		return 0, w.remove(ctx, pod)
	}
	w.removed = false
	if w.current == nil {
		w.current = w.takeOn(pod)
	}
	if pod.DeletionTimestamp != nil {
		return w.finish(ctx, pod)
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0, w.end(ctx) // somebody else said so, an eviction for instance
	}
	if err := w.ensure(ctx, pod); err != nil {
		return 0, errors.Join(err, w.send(ctx, pod))
	}
	return w.ready(), w.send(ctx, pod)
}

func (w *worker) takeOn(pod *corev1.Pod) *running {
	node, pool, _ := w.a.nodes.get(pod.Spec.NodeName) // or nobody would have told this worker
	r := &running{
		uid: pod.UID, namespace: pod.Namespace, name: pod.Name, node: node, pool: pool, servers: map[string]*echo.Server{},
		report: report{node: node, accepted: w.now(), ready: map[string]bool{}},
	}
	if pod.Status.StartTime != nil { // of before this agent's own start
		r.report.accepted, r.report.conditions = pod.Status.StartTime.Time, pod.Status.Conditions
	}
	return r
}

// ensure has the pod's containers run, as the pod now says.
func (w *worker) ensure(ctx context.Context, pod *corev1.Pod) error {
	r := w.current
	containers, err := workload(pod)
	if refused := refusals(err); len(refused) > 0 {
		w.closeServers() // it may have run with another image before
		if !reflect.DeepEqual(r.report.refused, refused) {
			r.report.refused = refused
			for _, f := range refused {
				w.a.events.Event(pod, corev1.EventTypeWarning, f.reason, f.message)
			}
		}
		return nil
	}
	r.report.refused = nil
	if !r.report.started.IsZero() {
		if reflect.DeepEqual(r.containers, containers) {
			return nil
		}
		w.closeServers() // another image: kubelet restarts the container
		r.report.restarts++
	}
	if err := w.link(ctx, pod); err != nil {
		w.a.events.Event(pod, corev1.EventTypeWarning, reasonSandbox, err.Error())
		return err
	}
	r.containers = containers
	if err := w.serve(ctx); err != nil {
		w.closeServers()
		w.a.events.Event(pod, corev1.EventTypeWarning, reasonRun, err.Error())
		r.report.refused = []refusal{{reason: reasonRun, message: err.Error()}}
		return err
	}
	r.report.started = w.now()
	for _, c := range containers {
		if c.never != "" {
			w.a.events.Event(pod, corev1.EventTypeWarning, reasonUnhealthy, "container "+c.name+": "+c.never)
		}
	}
	return nil
}

// link gives the pod its addresses and its namespace: those of before, if it was running when this agent started.
func (w *worker) link(ctx context.Context, pod *corev1.Pod) error {
	r := w.current
	if r.linked {
		return nil
	}
	pool := r.pool
	addrs := recorded(pod)
	if !pool.reserve(w.key, addrs) {
		var ok bool
		if addrs, ok = fabric.PodAddrsAt(fabric.PodPath(w.a.lab, r.namespace, r.name)); !ok || !pool.reserve(w.key, addrs) {
			var err error
			if addrs, err = pool.take(w.key); err != nil {
				return err
			}
		}
	}
	err := w.a.inKernel(ctx, func() error { return fabric.EnsurePod(w.a.lab, r.node, r.namespace, r.name, addrs) })
	if err != nil {
		pool.free(w.key, addrs)
		return err
	}
	r.report.addrs, r.linked = addrs, true
	return nil
}

// inKernel lets only so many work in the kernel at once.
func (a *agent) inKernel(ctx context.Context, f func() error) error {
	select {
	case a.kernel <- struct{}{}:
		defer func() { <-a.kernel }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *worker) serve(ctx context.Context) error {
	r := w.current
	return ns.Do(fabric.PodPath(w.a.lab, r.namespace, r.name), func() error {
		for _, c := range r.containers {
			if !c.serves {
				continue
			}
			s, err := echo.Serve(ctx, c.options, echo.Local{})
			if err != nil {
				return fmt.Errorf("container %s: %w", c.name, err)
			}
			r.servers[c.name] = s
		}
		return nil
	})
}

// ready finds out which containers are ready. It returns when that will change, 0: not by itself.
func (w *worker) ready() (again time.Duration) {
	r := w.current
	if r.report.started.IsZero() {
		return 0
	}
	age := w.now().Sub(r.report.started)
	for _, c := range r.containers {
		is := c.never == "" && age >= c.readyAfter
		r.report.ready[c.name] = is
		if left := c.readyAfter - age; c.never == "" && !is && (again == 0 || left < again) {
			again = left
		}
	}
	return again
}

// send reports the pod's status if it is news.
func (w *worker) send(ctx context.Context, pod *corev1.Pod) error {
	r := w.current
	p, err := patch(r.uid, r.report.status(pod, w.now()))
	if err != nil || bytes.Equal(p, r.sent) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = w.a.client.CoreV1().Pods(r.namespace).Patch(ctx, r.name, types.StrategicMergePatchType, p, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another pod of that name: we will be told
		return nil
	}
	if err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	r.sent = p
	return nil
}

func (w *worker) closeServers() {
	if w.current == nil {
		return
	}
	for _, s := range w.current.servers {
		_ = s.Close() // never fails
	}
	clear(w.current.servers)
	w.current.report.started = time.Time{}
}
