package agent

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/lab/netns/fabric"
)

func (b *bench) registered(name string) {
	b.Helper()
	b.await(name+" registered", func() error {
		lease, err := b.client.CoordinationV1().Leases("kube-node-lease").Get(context.Background(), name, metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime == nil {
			err = fmt.Errorf("lease %+v", lease.Spec)
		}
		return err
	})
}

// A node without power runs no pod, ends none and gives no sign of life, until it has power again.
func TestDeadNode(t *testing.T) {
	b := newBench(t)
	for _, n := range []string{"node1", "node2"} {
		b.registered(n)
	}
	b.create("before", "node2", "")
	b.ready("before")
	b.nodes <- Nodes{Count: 2, Dead: []string{"node2"}}
	b.nodes <- Nodes{Count: 2, Dead: []string{"node2"}} // taken when the first one is in effect
	for _, name := range []string{"node1", "node2"} {
		if err := b.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.client.CoreV1().Pods("default").Delete(context.Background(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.create("after", "node2", "")
	b.create("elsewhere", "node1", "")
	b.ready("elsewhere")
	if pod, err := b.get("after"); err != nil || len(pod.Status.Conditions) > 0 {
		t.Errorf("a pod of a dead node has the status %+v, error %v", pod.Status, err)
	}
	paths, err := fabric.PodPaths(b.plan.Lab)
	if err != nil || len(paths) != 2 { // of elsewhere, and of before, whose end nobody on that node has heard of
		t.Errorf("namespaces %v, error %v", paths, err)
	}
	b.nodes <- Nodes{Count: 2}
	b.ready("after")
	b.await("registered again", func() error {
		_, err := b.client.CoreV1().Nodes().Get(context.Background(), "node2", metav1.GetOptions{})
		return err
	})
	b.await("before is gone", func() error {
		paths, err := fabric.PodPaths(b.plan.Lab)
		if err == nil && len(paths) != 2 {
			err = fmt.Errorf("namespaces %v", paths)
		}
		return err
	})
}

func TestNodesComeAndGo(t *testing.T) {
	b := newBench(t)
	more := fabric.Plan{Lab: b.plan.Lab, Count: 3}
	if err := fabric.EnsureNodes(more, b.mounts); err != nil {
		t.Fatal(err)
	}
	b.nodes <- Nodes{Count: 3}
	b.registered("node3")
	b.create("web", "node3", "")
	pod := b.ready("web")
	b.answers("web", pod.Status.PodIP)

	b.nodes <- Nodes{Count: 2}
	if err := b.client.CoreV1().Pods("default").Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.await("its pod is gone", func() error {
		paths, err := fabric.PodPaths(b.plan.Lab)
		if err == nil && len(paths) > 0 {
			err = fmt.Errorf("namespaces %v", paths)
		}
		return err
	})
	if _, err := b.get("web"); !apierrors.IsNotFound(err) {
		t.Errorf("the pod: %v", err)
	}
}
