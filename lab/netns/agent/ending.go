package agent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/lab/netns/fabric"
)

// finish ends a pod that is being deleted. Its servers are such that ignore the polite signal: they go on answering,
// and the pod stays ready if it was, so that its endpoint is serving and terminating, until the grace period is over
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination). A client ends at once.
func (w *worker) finish(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	r := w.current
	var grace int64
	if pod.DeletionGracePeriodSeconds != nil {
		grace = *pod.DeletionGracePeriodSeconds
	}
	switch {
	case r.deadline.IsZero() && r.report.started.IsZero():
		// This agent is new, and the pod was terminating already: it serves for what is left of its time.
		r.grace, r.deadline = grace, pod.DeletionTimestamp.Time
		if pod.Status.Phase == corev1.PodRunning && r.deadline.After(w.now()) {
			if err := w.ensure(ctx, pod); err != nil {
				w.a.log.Warn("cannot bring back a pod that terminates", "pod", w.key, "error", err)
			}
		}
	case r.deadline.IsZero(), grace < r.grace: // a second deletion may shorten it
		r.grace, r.deadline = grace, w.now().Add(time.Duration(grace)*time.Second)
	}
	if left := r.deadline.Sub(w.now()); left > 0 && len(r.servers) > 0 {
		if again := w.ready(); again > 0 {
			left = min(left, again)
		}
		return left, w.send(ctx, pod)
	}
	if err := w.end(ctx); err != nil {
		return 0, err
	}
	w.ended = pod.UID
	return 0, w.remove(ctx, pod)
}

// end closes what the pod serves, ends what runs in it and removes its network.
func (w *worker) end(ctx context.Context) error {
	r := w.current
	if r == nil {
		return nil
	}
	w.closeServers()
	if err := w.a.execs.end(ctx, w.a.lab, r.namespace, r.name); err != nil {
		w.a.log.Warn("cannot end what runs in a pod", "pod", w.key, "error", err)
	}
	if r.linked {
		err := w.a.inKernel(ctx, func() error { return fabric.RemovePod(w.a.lab, r.node, r.namespace, r.name) })
		if err != nil {
			return fmt.Errorf("remove network: %w", err)
		}
		r.pool.free(w.key, r.report.addrs)
	}
	w.current = nil
	return nil
}

// remove takes the pod's object out of the API, which waits for its kubelet to say that nothing of it runs.
func (w *worker) remove(ctx context.Context, pod *corev1.Pod) error {
	if w.removed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := int64(0)
	err := w.a.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod: %w", err)
	}
	w.removed = true
	return nil
}

// ExecPart is the part (see procs.Spec) of commands that run in a pod's network. They end with the pod.
func ExecPart(namespace, pod string) string { return "exec/pod/" + namespace + "/" + pod }
