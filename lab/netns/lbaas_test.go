package netns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"proxylab/lab"
	"proxylab/lab/netns"
	"proxylab/lab/procs"
)

// A lab with load balancers: a Service gets a VIP, which leads to its node port, also when parts of the lab die. In the end
// nothing is left.
func TestLoadBalancers(t *testing.T) {
	needsLab(t)
	before := snapshot(t, name("balanced"))
	l, client := up(t, netns.Options{Name: name("balanced"), Nodes: 1, LBaaS: &lab.LBaaSSpec{Standby: true}})
	serveNodePort(t, l)
	vip := balanced(t, client)
	ask := "curl -gsS --max-time 2 -o /dev/null http://" + vip + "/"
	answers := func(what string) {
		t.Helper()
		await(t, what, func() error { return try(l, ask) })
	}
	answers("the VIP answers")
	t.Run("described", func(t *testing.T) { testDescribed(t, l) })
	for _, part := range []string{"lbaas-instance/lb1", "lbaas", "cloud-controller-manager"} {
		p, err := procs.Root(l.Name(), part)
		if err != nil || p == nil {
			t.Fatalf("%s: %+v, %v", part, p, err)
		}
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if part == "lbaas-instance/lb1" {
			answers("the other instance answers")
		}
	}
	if err := l.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers("the VIP answers after a restart, which forgot nothing")
	if again := balanced(t, client); again != vip {
		t.Errorf("the VIP was %s and is %s", vip, again)
	}
	other, err := netns.New(netns.Options{Name: l.Name(), LBaaS: &lab.LBaaSSpec{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "take it down first") {
		t.Errorf("became a lab with other load balancers: %v", err)
	}
	if err := procs.Stop(context.Background(), l.Name(), "", 0); err != nil {
		t.Fatal(err)
	}
	if err := netns.Remove(context.Background(), l.Name()); err != nil {
		t.Fatal(err)
	}
	if left := snapshot(t, name("balanced")); !slices.Equal(left, before) {
		t.Errorf("left:\n%s", difference(left, before))
	}
}

// try runs a script outside, in the fabric.
func try(l *netns.Lab, script string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p, err := l.Exec(ctx, lab.Place{}, lab.Command{Args: []string{"sh", "-c", script}})
	if err != nil {
		return err
	}
	return p.Wait()
}

// serveNodePort answers on the node's port as a proxier would have it do.
func serveNodePort(t *testing.T, l *netns.Lab) {
	t.Helper()
	python := `import http.server; http.server.HTTPServer(("", 30080), http.server.SimpleHTTPRequestHandler).serve_forever()`
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	p, err := l.Exec(ctx, lab.Place{Node: "node1"}, lab.Command{Args: []string{"python3", "-c", python}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.Wait() }() // ends with ctx
}

// balanced makes the Service unless it is there, and returns its VIP.
func balanced(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080}},
	}}
	_, _ = client.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}) // the second time it is there
	var vip string
	await(t, "VIP", func() error {
		is, err := client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(is.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("none")
		}
		vip = is.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return vip
}

// testDescribed asks the API at the address that the lab says.
func testDescribed(t *testing.T, l *netns.Lab) {
	b, err := l.LBaaS(t.Context())
	if err != nil || b == nil {
		t.Fatalf("%+v, %v", b, err)
	}
	answer, err := http.Get(b.URL + "/v2.0/lbaas/loadbalancers") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var list struct {
		LoadBalancers []struct {
			VIP string `json:"vip_address"`
		} `json:"loadbalancers"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || len(list.LoadBalancers) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	parts, err := b.Processes()
	if err != nil || len(parts) != 4 {
		t.Errorf("parts %v, %v", parts, err)
	}
	rc, err := os.ReadFile(b.OpenRC)
	if err != nil || !strings.Contains(string(rc), fmt.Sprintf("OS_AUTH_URL=%s/identity", b.URL)) {
		t.Errorf("%s, %v", rc, err)
	}
}
