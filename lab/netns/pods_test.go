package netns_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"proxylab/lab"
	"proxylab/lab/netns"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/netns/ns"
)

func podSpec(grace int64, image string, args ...string) corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{{Name: "c", Image: image, Args: args}},
	}
}

// createPod makes a pod, labelled with its name, and waits until it is ready.
func createPod(t testing.TB, client kubernetes.Interface, name, image string, args ...string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: podSpec(2, image, args...)}
	if _, err := client.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, name+" ready", func() (err error) {
		if pod, err = client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if cs := pod.Status.ContainerStatuses; len(cs) != 1 || !cs[0].Ready {
			return fmt.Errorf("status is %+v", pod.Status)
		}
		return nil
	})
	return pod
}

func gone(client kubernetes.Interface, name string) func() error {
	return func() error {
		_, err := client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("still there"), err)
	}
}

// testPods has a client pod ask an echo pod, in both families.
func testPods(t *testing.T, l *netns.Lab, client kubernetes.Interface) {
	server := createPod(t, client, "server", "proxylab/echo:v1")
	createPod(t, client, "client", "proxylab/client")
	at := lab.Place{Pod: "client"}
	for _, ip := range server.Status.PodIPs {
		// bash, because its /dev/tcp needs no other program.
		got := sh(t, l, at, fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/%s/8081; head -n 1 <&3'", ip.IP))
		if !strings.HasPrefix(got, "server "+server.Spec.NodeName+" ") {
			t.Errorf("at %s answers %q", ip.IP, got)
		}
	}
	// What runs in a pod ends with it, and a client does not use up its grace period.
	p, err := l.Exec(t.Context(), at, lab.Command{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "client", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "client gone", gone(client, "client"))
	if err := p.Wait(); err == nil {
		t.Error("it ended well, though its pod was deleted")
	}
	// Deleted by force, the object goes first.
	now := int64(0)
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "server", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	await(t, "namespace gone", func() error {
		if _, err := os.Stat(fabric.PodPath(l.Name(), "default", "server")); err == nil {
			return errors.New("still there")
		}
		return nil
	})
}

func testRefused(t *testing.T, client kubernetes.Interface) {
	bad := podSpec(2, "proxylab/echo", "--nope", "--http=x")
	host := podSpec(2, "proxylab/echo")
	host.HostNetwork = true
	for name, tc := range map[string]struct {
		spec    corev1.PodSpec
		reason  string
		message []string
	}{
		"image":     {podSpec(30, "nginx:1"), "ImageNotInLab", []string{"nginx:1", "--lab kind"}},
		"arguments": {bad, "InvalidArguments", []string{"--nope", "--http=x"}},
		"host":      {host, "HostNetworkNotSupported", []string{"--lab kind"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "refused-" + name}, Spec: tc.spec}
			if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			await(t, "reason", func() error {
				pod, err := client.CoreV1().Pods("default").Get(context.Background(), pod.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if cs := pod.Status.ContainerStatuses; pod.Status.Phase != corev1.PodPending || len(cs) == 0 || cs[0].State.Waiting == nil ||
					cs[0].State.Waiting.Reason != tc.reason || !containsAll(cs[0].State.Waiting.Message, tc.message) {
					return fmt.Errorf("status is %+v", pod.Status)
				}
				return nil
			})
			await(t, "event", func() error {
				events, err := client.CoreV1().Events("default").List(context.Background(), metav1.ListOptions{
					FieldSelector: "involvedObject.name=" + pod.Name + ",reason=" + tc.reason})
				if err != nil || len(events.Items) == 0 || !containsAll(events.Items[0].Message, tc.message) {
					return errors.Join(fmt.Errorf("events %+v", events), err)
				}
				return nil
			})
			if err := client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			await(t, "gone at once", gone(client, pod.Name))
		})
	}
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// testTermination follows a pod that is deleted: its endpoint is serving and terminating while it answers on.
func testTermination(t *testing.T, l *netns.Lab, client kubernetes.Interface) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "ending"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "ending"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	if _, err := client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := createPod(t, client, "ending", "proxylab/echo")
	conditions := func() string {
		slices, err := client.DiscoveryV1().EndpointSlices("default").List(context.Background(), metav1.ListOptions{
			LabelSelector: "kubernetes.io/service-name=ending"})
		if err != nil || len(slices.Items) == 0 || len(slices.Items[0].Endpoints) == 0 {
			return "none"
		}
		c := slices.Items[0].Endpoints[0].Conditions
		is := func(b *bool) bool { return b != nil && *b }
		return fmt.Sprintf("ready %v, serving %v, terminating %v", is(c.Ready), is(c.Serving), is(c.Terminating))
	}
	endpoint := func(want string) func() error {
		return func() error {
			if got := conditions(); got != want {
				return errors.New(got)
			}
			return nil
		}
	}
	await(t, "endpoint", endpoint("ready true, serving true, terminating false"))
	c := connect(t, l, pod.Status.PodIP)
	grace := int64(3)
	begin := time.Now()
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "ending", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	await(t, "endpoint of the ending pod", endpoint("ready false, serving true, terminating true"))
	_ = connect(t, l, pod.Status.PodIP)
	await(t, "pod gone", gone(client, "ending"))
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("gone after %v, its grace period is 3 s", took)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("connection to a pod that is gone: %v", err)
	}
	await(t, "no endpoint", endpoint("none"))
}

// connect connects to a pod from outside, reads its greeting and keeps the connection for the test's time.
func connect(t *testing.T, l *netns.Lab, ip string) (c net.Conn) {
	t.Helper()
	err := ns.Do(fabric.Path(l.Name()), func() (err error) {
		c, err = net.DialTimeout("tcp", net.JoinHostPort(ip, "8081"), 10*time.Second)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return c
}

// testManyPods says how long 200 pods take; on two idle cores the goal is 15 s.
func testManyPods(t *testing.T, client kubernetes.Interface) {
	replicas := int32(200)
	labels := map[string]string{"app": "many"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "many"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(1, "proxylab/echo")},
		},
	}
	begin := time.Now()
	d, err := client.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "200 pods", func() error {
		d, err := client.AppsV1().Deployments("default").Get(context.Background(), "many", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != 200 {
			err = fmt.Errorf("%d are ready", d.Status.ReadyReplicas)
		}
		return err
	})
	t.Logf("200 pods are ready after %.1f s", time.Since(begin).Seconds())
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=many"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, p := range pods.Items {
		for _, ip := range p.Status.PodIPs {
			if other := seen[ip.IP]; other != "" {
				t.Errorf("%s and %s both have %s", other, p.Name, ip.IP)
			}
			seen[ip.IP] = p.Name
		}
	}
	begin = time.Now()
	if err := client.AppsV1().Deployments("default").Delete(t.Context(), d.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "no pods", func() error {
		pods, err := client.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{LabelSelector: "app=many"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d are left", len(pods.Items))
		}
		return err
	})
	t.Logf("they are gone after %.1f s, a grace period of 1 s included", time.Since(begin).Seconds())
}
