package agent

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"proxylab/lab/netns/fabric"
	"proxylab/lab/netns/ns"
)

// bench is an agent on a real network and an API of memory.
type bench struct {
	*testing.T
	plan   fabric.Plan
	client *fake.Clientset
	nodes  chan Nodes
	mounts string
	stop   func()
}

func newBench(t *testing.T) *bench {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	b := &bench{T: t, nodes: make(chan Nodes), client: fake.NewClientset(), plan: fabric.Plan{Lab: fmt.Sprintf("agent%d", os.Getpid()), Count: 2}}
	mounts := filepath.Join(t.TempDir(), "mounts")
	b.mounts = mounts
	t.Cleanup(func() {
		if err := fabric.Unmount(mounts); err != nil {
			t.Error(err)
		}
		if err := fabric.Remove(b.plan.Lab); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t)
	})
	if err := fabric.EnsureFabric(b.plan.Lab); err != nil {
		t.Fatal(err)
	}
	if err := fabric.EnsureNodes(b.plan, mounts); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

func (b *bench) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(b.Output(), nil))
	go func() { done <- run(ctx, Config{Plan: b.plan, Changes: b.nodes, Log: log}, b.client) }()
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		b.stop = func() {}
	}
}

// await looks until check is content.
func (b *bench) await(what string, check func() error) {
	b.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%s: %v", what, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (b *bench) create(name, node, uid string, args ...string) {
	b.Helper()
	pod := podOf(corev1.Container{Name: "c", Image: "proxylab/echo", Args: args})
	pod.Name, pod.Spec.NodeName, pod.UID = name, node, types.UID(name+uid)
	if _, err := b.client.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get(name string) (*corev1.Pod, error) {
	return b.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
}

// ready waits until the pod is ready, and returns it.
func (b *bench) ready(name string) (pod *corev1.Pod) {
	b.Helper()
	b.await(name+" ready", func() (err error) {
		if pod, err = b.get(name); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("status is %+v", pod.Status)
	})
	return pod
}

// hold connects to a pod from the fabric and says which pod answered.
func (b *bench) hold(ip string) (c net.Conn, who string, err error) {
	err = ns.Do(fabric.Path(b.plan.Lab), func() error {
		c, err = net.DialTimeout("tcp", net.JoinHostPort(ip, "8081"), 5*time.Second)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	line, err := bufio.NewReader(c).ReadString(' ')
	return c, line, err
}

func (b *bench) answers(name, ip string) {
	b.Helper()
	c, who, err := b.hold(ip)
	if err != nil || who != name+" " {
		b.Fatalf("%s at %s: %q, %v", name, ip, who, err)
	}
	_ = c.Close()
}

func TestPodLife(t *testing.T) {
	b := newBench(t)
	b.create("web", "node1", "")
	pod := b.ready("web")
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.PodIPs) != 2 || pod.Status.HostIP != "10.10.0.11" {
		t.Errorf("status %+v", pod.Status)
	}
	for _, ip := range pod.Status.PodIPs {
		b.answers("web", ip.IP)
	}
	c, _, err := b.hold(pod.Status.PodIP)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()

	// Deleted with a grace period: it goes on until that is over.
	grace := int64(1)
	now := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	begin := time.Now()
	if _, err := b.client.CoreV1().Pods("default").Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.answers("web", pod.Status.PodIP)
	b.await("pod gone", func() error {
		_, err := b.get("web")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %w", err)
	})
	if took := time.Since(begin); took < time.Second {
		t.Errorf("gone after %v, its grace period is 1 s", took)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("connection to a pod that is gone: %v", err)
	}
	if c, _, err := b.hold(pod.Status.PodIP); err == nil {
		_ = c.Close()
		t.Error("a pod that is gone answers")
	}
	if paths, err := fabric.PodPaths(b.plan.Lab); err != nil || len(paths) > 0 {
		t.Errorf("left over: %v, %v", paths, err)
	}
}

func TestReplacedAtOnceUnderTheSameName(t *testing.T) {
	b := newBench(t)
	for i, node := range []string{"node1", "node2", "node2"} {
		b.create("web", node, fmt.Sprint(i))
		pod := b.ready("web")
		b.answers("web", pod.Status.PodIP)
		if err := b.client.CoreV1().Pods("default").Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.await("namespaces gone", func() error {
		paths, err := fabric.PodPaths(b.plan.Lab)
		if err == nil && len(paths) > 0 {
			err = fmt.Errorf("%v", paths)
		}
		return err
	})
}

func TestReadiness(t *testing.T) {
	b := newBench(t)
	b.create("slow", "node1", "", "--slow-start=300ms")
	b.create("never", "node1", "", "--not-ready")
	b.await("slow runs", func() error {
		pod, err := b.get("slow")
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return err
	})
	slow := b.ready("slow")
	if started := slow.Status.ContainerStatuses[0].State.Running; started == nil {
		t.Errorf("status %+v", slow.Status)
	}
	never, err := b.get("never")
	if err != nil || never.Status.Phase != corev1.PodRunning || never.Status.ContainerStatuses[0].Ready {
		t.Errorf("never: %+v, %v", never.Status, err)
	}
}

func TestRestartOfTheAgent(t *testing.T) {
	b := newBench(t)
	b.create("stays", "node1", "")
	b.create("goes", "node2", "")
	before, gone := b.ready("stays"), b.ready("goes")
	b.stop()
	inode := func() os.FileInfo {
		st, err := os.Stat(fabric.PodPath(b.plan.Lab, "default", "stays"))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	was := inode()
	if err := b.client.CoreV1().Pods("default").Delete(context.Background(), "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.create("new", "node1", "")
	b.answers("new", b.ready("new").Status.PodIP)
	b.await("stays answers again", func() error {
		c, _, err := b.hold(before.Status.PodIP)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if after := b.ready("stays"); after.Status.PodIP != before.Status.PodIP {
		t.Errorf("address was %s, is %s", before.Status.PodIP, after.Status.PodIP)
	}
	if !os.SameFile(was, inode()) {
		t.Error("its namespace is another one: what ran in it lost its network")
	}
	if _, err := os.Stat(fabric.PodPath(b.plan.Lab, "default", "goes")); err == nil {
		t.Errorf("namespace of %s is left", gone.Name)
	}
}
