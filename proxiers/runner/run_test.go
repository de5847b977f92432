package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// lines collects what is written and lets a test wait for a line with a text in it.
type lines struct {
	io.Writer
	out chan string
}

func newLines(t *testing.T) *lines {
	r, w := io.Pipe()
	l := &lines{Writer: w, out: make(chan string, 10000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(r); s.Scan(); {
			l.out <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = w.Close(); <-done })
	return l
}

func (l *lines) await(t *testing.T, text string) string {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case line := <-l.out:
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			t.Fatalf("no line with %q", text)
		}
	}
}

// closing tells when it was closed.
type closing struct {
	*kernel
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func aNode(edit func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.10.0.11"}}}}
	edit(n)
	return n
}

func TestRunFromNothingToTheEnd(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // after those of the helpers
	calls := make(chan call, 100)
	client := fake.NewClientset(aService("a", 80))
	p := &closing{kernel: &kernel{calls: calls}}
	log, reports := newLines(t), newLines(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{Proxier: p, Mode: "iptables", Node: "node1", Client: client, MinSyncPeriod: -1,
			Metrics: "127.0.0.1:0", Healthz: None, Reports: reports, Log: slog.New(slog.NewTextHandler(log, nil))})
	}()
	log.await(t, "waiting for a Node named node1")
	node := aNode(func(n *corev1.Node) { n.Spec.PodCIDR, n.Status.Addresses = "", nil })
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	log.await(t, "waiting for an address of the Node node1, the pod CIDRs of the Node node1")
	if len(calls) != 0 {
		t.Error("a pass before the node is known")
	}
	if _, err := client.CoreV1().Nodes().Update(ctx, aNode(func(*corev1.Node) {}), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if first := <-calls; first != (call{true, 1}) {
		t.Errorf("first pass %+v", first)
	}
	reports.await(t, `"full":true`)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Labels: map[string]string{discoveryv1.LabelServiceName: "a"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		Ports: []discoveryv1.EndpointPort{{Port: new(int32)}}}
	*slice.Ports[0].Port = 8080
	if _, err := client.DiscoveryV1().EndpointSlices("ns").Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := <-calls; second != (call{false, 1}) {
		t.Errorf("second pass %+v", second)
	}
	reports.await(t, `"full":false`)
	if err := client.CoreV1().Services("ns").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if third := <-calls; third != (call{false, 1}) {
		t.Errorf("third pass %+v", third)
	}
	reports.await(t, `"objects":{"rules":0}`)
	cancel()
	if err := <-ended; err != nil || !p.closed {
		t.Errorf("%v, closed: %v", err, p.closed)
	}
}

func TestBusyPortIsToldAndTriedAgain(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := newLines(t)
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	listening := make(chan net.Addr, 1)
	s := server{what: "metrics", address: busy.Addr().String(), handler: http.NotFoundHandler(), clock: clock,
		log: slog.New(slog.NewTextHandler(log, nil)), listening: func(a net.Addr) { listening <- a }}
	wg.Go(func() { s.run(ctx) })
	if line := log.await(t, "cannot serve metrics"); !strings.Contains(line, "address already in use") {
		t.Error(line)
	}
	_ = busy.Close()
	for len(listening) == 0 {
		if clock.HasWaiters() {
			clock.Step(listenAgain)
		}
		time.Sleep(time.Millisecond)
	}
	resp, err := http.Get(fmt.Sprintf("http://%s/", <-listening))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestHealth(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	h := newHealth(clock, time.Minute)
	handler := h.handler(func(string, int) {})
	expect := func(when string, healthz, livez int) {
		t.Helper()
		for path, want := range map[string]int{"/healthz": healthz, "/livez": livez} {
			code, text := get(t, handler, path)
			var body struct {
				LastUpdated, CurrentTime *time.Time
				NodeEligible, Healthy    *bool
			}
			if err := json.Unmarshal([]byte(text), &body); err != nil {
				t.Fatalf("%s: %v: %s", when, err, text)
			}
			if code != want || *body.Healthy != (livez == 200) || (path == "/healthz") != (body.NodeEligible != nil) {
				t.Errorf("%s: %s answers %d %s, want %d", when, path, code, text, want)
			}
		}
	}
	expect("no Node", 503, 200)
	h.node(aNode(func(*corev1.Node) {}))
	h.queued()
	clock.Step(time.Hour)
	expect("starting", 200, 200)
	h.began()
	h.updated()
	expect("synced", 200, 200)
	clock.Step(time.Hour)
	expect("nothing to do", 200, 200)
	h.queued()
	clock.Step(59 * time.Second)
	h.queued()
	expect("not late yet", 200, 200)
	h.began()
	clock.Step(time.Second)
	expect("late", 503, 503)
	h.queued()
	h.updated()
	expect("a change came during the pass", 200, 200)
	clock.Step(time.Minute)
	expect("and that is late", 503, 503)
	h.began() // fails, and again
	h.began()
	expect("failed", 503, 503)
	h.updated()
	expect("synced at last", 200, 200)
	h.node(aNode(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: toBeDeleted}} }))
	expect("about to be deleted", 503, 200)
	h.node(nil)
	expect("deleted", 503, 200)
}

func TestMetricsHaveKubeProxysNames(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	e := newEngine(testConfig(t, &kernel{}, clock, nil))
	e.tracker.SetService(aService("a", 80))
	e.queue()
	e.pass(t.Context(), true)
	e.tracker.SetService(aService("a", 81))
	e.pass(t.Context(), false)
	e.tracker.SetService(aService("a", 82))
	e.metrics.programmed("IPv4", 300*time.Millisecond)
	get(t, e.health.handler(e.metrics.answered), "/livez")
	_, text := get(t, e.metrics.handler(), "/metrics")
	for _, want := range []string{
		`kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="dual"} 2`,
		`kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="dual"} 1`,
		`kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="dual"} 1`,
		`kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="0.5"} 1`,
		`kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="dual"} 1e+09`,
		`kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="dual"} `,
		`kubeproxy_sync_proxy_rules_endpoint_changes_pending 0`,
		`kubeproxy_sync_proxy_rules_endpoint_changes_total 0`,
		`kubeproxy_sync_proxy_rules_service_changes_pending 1`,
		`kubeproxy_sync_proxy_rules_service_changes_total 3`,
		`kubeproxy_sync_proxy_rules_iptables_total{ip_family="dual",table="all"} 1`,
		`kubeproxy_proxy_livez_total{code="200"} 1`,
		`proxylab_proxier_stale_flows_total 2`,
		`process_cpu_seconds_total`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	if _, mode := get(t, e.metrics.handler(), "/proxyMode"); mode != "iptables" {
		t.Errorf("mode %q", mode)
	}
	if code, text := get(t, e.metrics.handler(), "/healthz"); code != 200 || text != "ok" {
		t.Errorf("%d %q", code, text)
	}
}

func TestClientErrors(t *testing.T) {
	for path, want := range map[string]string{"/does/not/exist": "/does/not/exist", "": "not a pod"} {
		if _, err := Client(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
