package netns_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/lab"
	"proxylab/lab/netns"
)

// Nodes come and go: what the cluster and its traffic see of it.
func TestElastic(t *testing.T) {
	spec := lab.ProxierSpec{Name: "works", MinSyncPeriod: time.Second, SyncPeriod: 30 * time.Second}
	l, client := up(t, netns.Options{Name: name("elastic"), Nodes: 1, Proxier: &spec})
	ctx := t.Context()
	added, err := l.AddNode(ctx)
	if err != nil || added.Name != "node2" {
		t.Fatalf("added %+v, error %v", added, err)
	}
	nodes, err := l.Nodes(ctx)
	if err != nil || len(nodes) != 2 {
		t.Fatalf("nodes %v, error %v", nodes, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "there"}, Spec: corev1.PodSpec{
		NodeName: "node2", Containers: []corev1.Container{{Name: "c", Image: "proxylab/echo"}},
	}}
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var ip string
	await(t, "pod on the added node", func() error {
		p, err := client.CoreV1().Pods("default").Get(ctx, "there", metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		if err == nil {
			ip = p.Status.PodIP
		}
		return err
	})
	ask := "curl -sS --max-time 3 -o /dev/null http://" + ip + ":8080/"
	sh(t, l, lab.Place{}, ask)
	sh(t, l, lab.Place{Node: "node1"}, ask) // which has learnt the route

	if err := l.StartProxier(ctx, "node2", spec); err != nil {
		t.Fatal(err)
	}
	if err := l.KillNode(ctx, "node2"); err != nil {
		t.Fatal(err)
	}
	if is, err := l.Proxier(ctx, "node2"); err != nil || is != nil {
		t.Errorf("on a dead node runs %+v, error %v", is, err)
	}
	sh(t, l, lab.Place{}, "! "+ask)
	if err := l.ReviveNode(ctx, "node2"); err != nil {
		t.Fatal(err)
	}
	sh(t, l, lab.Place{}, ask)

	if err := l.KillNode(ctx, "node2"); err != nil {
		t.Fatal(err)
	}
	again, err := netns.Open(l.Name())
	if err == nil {
		err = again.Up(ctx) // it completes what is missing: a node is
	}
	if err != nil {
		t.Fatal(err)
	}
	sh(t, l, lab.Place{}, ask)
	if err := l.RemoveNode(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Get(ctx, "node2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a removed node: %v", err)
	}
	if err := l.RemoveNode(ctx); err == nil {
		t.Error("the only node was removed")
	}
	if added, err := l.AddNode(ctx); err != nil || added.Name != "node2" {
		t.Fatalf("added %+v, error %v", added, err)
	}
	if err := l.Down(context.Background()); err != nil {
		t.Fatal(err)
	}
}
