package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"golang.org/x/sys/unix"

	"proxylab/lab/procs"
)

// TestControlPlane goes through the life of one control plane; each step builds on those before.
func TestControlPlane(t *testing.T) {
	lab := labName("life")
	cfg := testConfig(t, lab)
	cfg.NetNS = newNetNS(t, lab)
	stopAfterwards(t, lab)
	l := &life{cfg: cfg}
	l.up(t)
	for _, step := range []struct {
		name string
		f    func(*life, *testing.T)
	}{
		{"both sides answer", (*life).bothSides},
		{"no anonymous access", (*life).anonymous},
		{"the proxier's rights", (*life).proxierRights},
		{"Deployment to EndpointSlice", (*life).deployment},
		{"namespace deletion", (*life).namespaceDeletion},
		{"up again is a no-op", (*life).upAgain},
		{"other settings", (*life).otherSettings},
		{"killed components come back", (*life).kill},
		{"another port", (*life).otherPort},
		{"stop and start", (*life).stopAndStart},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.f(l, t) }) {
			return
		}
	}
}

type life struct {
	cfg    Config
	cp     *ControlPlane
	client kubernetes.Interface
}

func (l *life) up(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cp, err := Start(ctx, l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.cp, l.client = cp, clientOf(t, cp.AdminKubeconfig(), "")
}

func (l *life) pids(t *testing.T) map[string]int {
	t.Helper()
	all, err := procs.Find(l.cfg.Lab)
	if err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	for _, p := range all {
		pids[p.Part] = p.PID
	}
	return pids
}

func (l *life) bothSides(t *testing.T) {
	for kubeconfig, netns := range map[string]string{
		l.cp.AdminKubeconfig(): "", l.cp.AgentKubeconfig(): "", l.cp.NodeKubeconfig(): l.cfg.NetNS, l.cp.ProxierKubeconfig(): l.cfg.NetNS,
	} {
		client := clientOf(t, kubeconfig, netns)
		if _, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: %v", kubeconfig, err)
		}
		v, err := client.Discovery().ServerVersion()
		if err != nil || v.GitVersion != kubernetesVersion() {
			t.Errorf("version %v, %v", v, err)
		}
	}
	svc, err := l.client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || svc.Spec.ClusterIP != "10.96.0.1" {
		t.Errorf("service kubernetes: %v, %v", svc.Spec.ClusterIP, err)
	}
	slice, err := l.client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != "10.10.0.1" || *slice.Ports[0].Port != labPort {
		t.Errorf("service kubernetes leads to %+v", slice)
	}
}

func (l *life) anonymous(t *testing.T) {
	for kubeconfig, netns := range map[string]string{l.cp.AdminKubeconfig(): "", l.cp.NodeKubeconfig(): l.cfg.NetNS} {
		good := restConfig(t, kubeconfig, netns)
		nobody := rest.AnonymousClientConfig(good)
		client, err := rest.HTTPClientFor(nobody)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/api", "/readyz", "/livez", "/version", "/metrics", "/openapi/v2", "/api/v1/services"} {
			resp, err := client.Get(good.Host + path)
			if err != nil {
				t.Errorf("%s%s: %v", good.Host, path, err)
				continue
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s%s without a certificate: %s", good.Host, path, resp.Status)
			}
		}
		refuseForeigner(t, nobody)
	}
}

// refuseForeigner tries a certificate for an administrator from another lab.
func refuseForeigner(t *testing.T, config *rest.Config) {
	t.Helper()
	foreign, _ := madePKI(t)
	cert, err := tls.LoadX509KeyPair(foreign.pki(admin.file+".crt"), foreign.pki(admin.file+".key"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	own.Certificates = []tls.Certificate{cert}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: own, DialContext: config.Dial}}
	resp, err := client.Get(config.Host + "/api/v1/services")
	if err != nil {
		return // refused in the handshake, which is as good
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s with another lab's certificate: %s", config.Host, resp.Status)
	}
}

func (l *life) proxierRights(t *testing.T) {
	client := clientOf(t, l.cp.ProxierKubeconfig(), l.cfg.NetNS)
	ctx := t.Context()
	for what, err := range map[string]error{
		"services": second(client.CoreV1().Services("").List(ctx, metav1.ListOptions{})),
		"slices":   second(client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})),
		"nodes":    second(client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})),
		"events": second(client.CoreV1().Events("default").Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "hello"},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "kubernetes"},
		}, metav1.CreateOptions{})),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"secrets": second(client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})),
		"delete":  client.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

var web = map[string]string{"app": "web"}

func newDeployment(namespace string, selector map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: web},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: web},
				Spec:       corev1.PodSpec{NodeSelector: selector, Containers: []corev1.Container{{Name: "web", Image: "proxylab/echo"}}},
			},
		},
	}
}

func newDualStackService(namespace string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: web, Ports: []corev1.ServicePort{{Port: 80}},
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack),
		},
	}
}

func (l *life) deployment(t *testing.T) {
	ctx := t.Context()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node1"},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24", "fd00:10:244:1::/64"}},
		Status: corev1.NodeStatus{
			Capacity:   corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, err := range []error{
		second(l.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})),
		second(l.client.CoreV1().Services("default").Create(ctx, newDualStackService("default"), metav1.CreateOptions{})),
		second(l.client.AppsV1().Deployments("default").Create(ctx, newDeployment("default", nil), metav1.CreateOptions{})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	svc, err := l.client.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil || len(svc.Spec.ClusterIPs) != 2 || svc.Spec.Ports[0].NodePort < 30000 {
		t.Errorf("service %+v, %v", svc.Spec, err)
	}
	eventually(t, "three pods on a node", func(ctx context.Context) error { return l.readyPods(ctx, 3) })
	eventually(t, "slices of both families", func(ctx context.Context) error { return l.endpoints(ctx, 3) })
}

// readyPods plays the kubelet: pods that were scheduled become ready. It fails until there are as many as asked for.
func (l *life) readyPods(ctx context.Context, want int) error {
	pods, err := l.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return err
	}
	ready := 0
	for i, pod := range pods.Items {
		if pod.Spec.NodeName != "node1" || len(pod.Spec.Volumes) != 0 || pod.OwnerReferences[0].Kind != "ReplicaSet" {
			return fmt.Errorf("pod %s: on %q, volumes %v", pod.Name, pod.Spec.NodeName, pod.Spec.Volumes)
		}
		ready++
		if len(pod.Status.PodIPs) > 0 {
			continue
		}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP = fmt.Sprintf("10.244.1.%d", i+2)
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}, {IP: fmt.Sprintf("fd00:10:244:1::%d", i+2)}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if _, err := l.client.CoreV1().Pods("default").UpdateStatus(ctx, &pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if ready != want {
		return fmt.Errorf("%d pods", ready)
	}
	return nil
}

func (l *life) endpoints(ctx context.Context, want int) error {
	slices, err := l.client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
	if err != nil {
		return err
	}
	n := map[discoveryv1.AddressType]int{}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if *e.Conditions.Ready {
				n[s.AddressType]++
			}
		}
	}
	if n[discoveryv1.AddressTypeIPv4] != want || n[discoveryv1.AddressTypeIPv6] != want {
		return fmt.Errorf("endpoints %v", n)
	}
	return nil
}

func (l *life) namespaceDeletion(t *testing.T) {
	ctx, name := t.Context(), "short"
	for _, err := range []error{
		second(l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})),
		second(l.client.CoreV1().Services(name).Create(ctx, newDualStackService(name), metav1.CreateOptions{})),
		second(l.client.AppsV1().Deployments(name).Create(ctx, newDeployment(name, map[string]string{"no": "such"}), metav1.CreateOptions{})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "pods", func(ctx context.Context) error {
		pods, err := l.client.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) != 3 {
			err = fmt.Errorf("%d pods", len(pods.Items))
		}
		return err
	})
	if err := l.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace gone", func(ctx context.Context) error {
		ns, err := l.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("still there: %+v", ns.Status.Phase), err)
	})
}

func (l *life) upAgain(t *testing.T) {
	before := l.pids(t)
	l.up(t)
	if after := l.pids(t); !reflect.DeepEqual(before, after) || len(before) != len(parts) {
		t.Errorf("processes were %v, are %v", before, after)
	}
}

func (l *life) otherSettings(t *testing.T) {
	other := l.cfg
	other.ServiceCIDRs = prefixes("10.97.0.0/16")
	if _, err := Start(t.Context(), other); err == nil || !strings.Contains(err.Error(), "10.97.0.0/16") {
		t.Errorf("started with other settings: %v", err)
	}
}

func (l *life) kill(t *testing.T) {
	for _, killed := range [][]string{{etcdPart}, {kubeAPIServer}, {kubeControllerManager}, {kubeScheduler}, parts} {
		server, before := l.cp.Server(), l.pids(t)
		for _, part := range killed {
			if err := unix.Kill(before[part], unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "death", func(context.Context) error {
			for _, part := range killed {
				if l.pids(t)[part] == before[part] {
					return errors.New("still there")
				}
			}
			return nil
		})
		l.up(t)
		if l.cp.Server() != server {
			t.Errorf("the API moved from %s to %s", server, l.cp.Server())
		}
		after := l.pids(t)
		for _, part := range parts {
			if after[part] == 0 {
				t.Errorf("%s did not come back", part)
			}
		}
		eventually(t, "data after a kill", func(ctx context.Context) error { return l.endpoints(ctx, 3) })
		l.scale(t, 4)
		l.scale(t, 3)
	}
}

// scale shows that controllers and scheduler work.
func (l *life) scale(t *testing.T, n int) {
	t.Helper()
	eventually(t, "scale", func(ctx context.Context) error {
		s, err := l.client.AppsV1().Deployments("default").GetScale(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Spec.Replicas = int32(n)
		return second(l.client.AppsV1().Deployments("default").UpdateScale(ctx, "web", s, metav1.UpdateOptions{}))
	})
	eventually(t, "pods", func(ctx context.Context) error {
		if err := l.reap(ctx); err != nil {
			return err
		}
		return l.readyPods(ctx, n)
	})
	eventually(t, "endpoints", func(ctx context.Context) error { return l.endpoints(ctx, n) })
}

// reap plays the kubelet: pods that are to go do so.
func (l *life) reap(ctx context.Context) error {
	pods, err := l.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			err := l.client.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// otherPort has somebody else take the API's port on the loopback while the server is down.
func (l *life) otherPort(t *testing.T) {
	before := l.pids(t)
	if err := procs.Stop(t.Context(), l.cfg.Lab, kubeAPIServer, 2*goodbye); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", l.cp.state.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	server := l.cp.Server()
	l.up(t)
	if l.cp.Server() == server {
		t.Error("two at one port")
	}
	after := l.pids(t)
	if after[kubeScheduler] == before[kubeScheduler] || after[kubeControllerManager] == before[kubeControllerManager] || after[etcdPart] != before[etcdPart] {
		t.Errorf("processes were %v, are %v", before, after)
	}
	l.scale(t, 4)
	l.scale(t, 3)
}

func (l *life) stopAndStart(t *testing.T) {
	socket := paths{l.cfg.Dir}.etcdSocket()
	if _, err := os.Stat(socket); err != nil {
		t.Fatal(err)
	}
	for range 2 { // stopping what is stopped is fine
		if err := Stop(t.Context(), l.cfg.Lab); err != nil {
			t.Fatal(err)
		}
	}
	if left := l.pids(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket: %v", err)
	}
	eventually(t, "the API's port is free", func(context.Context) error {
		if c, err := net.Dial("tcp4", strings.TrimPrefix(l.cp.Server(), "https://")); err == nil {
			return errors.Join(errors.New("still answers"), c.Close())
		}
		return nil
	})
	l.up(t)
	if err := l.endpoints(t.Context(), 3); err != nil {
		t.Errorf("data after a stop: %v", err)
	}
}
