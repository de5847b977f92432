package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"proxylab/proxiers/services"
)

// freePort is a port that nobody listens on right now.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

// needIPv6 skips where this machine has no IPv6 loopback address.
func needIPv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("needs IPv6 on the loopback interface:", err)
	}
	l.Close()
}

// checks is a checkPorts with a switch for the proxy's health, whose listening can be awaited.
type checks struct {
	*checkPorts
	t       *testing.T
	ill     bool
	mu      sync.Mutex
	serving chan string
}

func newChecks(t *testing.T, c clock.Clock) *checks {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	k := &checks{t: t, serving: make(chan string, 1000)}
	k.checkPorts = newCheckPorts(func() bool { k.mu.Lock(); defer k.mu.Unlock(); return !k.ill }, c, quiet())
	k.checkPorts.listening = func(a net.Addr) { k.serving <- a.String() }
	t.Cleanup(k.close)
	return k
}

// await waits until a number of servers listen that did not before.
func (k *checks) await(n int) {
	k.t.Helper()
	for range n {
		select {
		case <-k.serving:
		case <-time.After(30 * time.Second):
			k.t.Fatal("nobody listens")
		}
	}
}

// ask is what a balancer gets: the status and the number of endpoints in the body.
func ask(host string, port uint16) (code, local int, weight string, err error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/healthz")
	if err != nil {
		return 0, 0, "", err
	}
	defer resp.Body.Close()
	var body checkBody
	data, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(data, &body)
	}
	if body.Service.Namespace != "ns" || body.Service.Name == "" {
		err = errors.Join(err, fmt.Errorf("body %s", data))
	}
	return resp.StatusCode, body.LocalEndpoints, resp.Header.Get("X-Load-Balancing-Endpoint-Weight"), err
}

func (k *checks) want(host string, port uint16, code, local int) {
	k.t.Helper()
	c, l, weight, err := ask(host, port)
	if err != nil || c != code || l != local || weight != strconv.Itoa(local) {
		k.t.Errorf("%s: status %d, %d endpoints, weight %s, %v; want %d, %d", host, c, l, weight, err, code, local)
	}
}

func (k *checks) refused(port uint16) {
	k.t.Helper()
	if c, _, _, err := ask("127.0.0.1", port); err == nil {
		k.t.Errorf("still answers, with %d", c)
	}
}

// checkedService is a snapshot's port; endpoints are ready unless their last byte is above 200.
func checkedService(name, port string, f services.Family, number uint16, endpoints ...string) *services.ServicePort {
	sp := &services.ServicePort{Key: services.Key{Namespace: "ns", Service: name, Port: port, Protocol: "TCP", Family: f},
		ExternalLocal: true, HealthCheckNodePort: number}
	for _, e := range endpoints {
		a := netip.MustParseAddr(e)
		sp.LocalEndpoints = append(sp.LocalEndpoints, services.Endpoint{Addr: netip.AddrPortFrom(a, 80), Local: true,
			Ready: a.AsSlice()[len(a.AsSlice())-1] <= 200, Serving: true})
	}
	return sp
}

func snapshotOf(full bool, ports ...*services.ServicePort) services.Snapshot {
	s := services.Snapshot{Ports: map[services.Key]*services.ServicePort{}, Changed: map[services.Key]struct{}{}, Full: full}
	for _, p := range ports {
		s.Ports[p.Key] = p
		if !full {
			s.Changed[p.Key] = struct{}{}
		}
	}
	return s
}

func TestHealthCheckCounts(t *testing.T) {
	needIPv6(t)
	k := newChecks(t, clock.RealClock{})
	n := freePort(t)
	step := func(what string, v4Code, v4, v6Code, v6 int, s services.Snapshot) {
		t.Helper()
		k.update(t.Context(), s)
		t.Log(what)
		k.want("127.0.0.1", n, v4Code, v4)
		k.want("::1", n, v6Code, v6)
	}
	k.update(t.Context(), snapshotOf(true, checkedService("web", "http", services.IPv4, n, "10.244.1.2")))
	k.await(2)
	step("one family answers on both", 200, 1, 200, 1, snapshotOf(true, checkedService("web", "http", services.IPv4, n, "10.244.1.2")))
	step("an address counts once", 200, 2, 200, 2, snapshotOf(true,
		checkedService("web", "http", services.IPv4, n, "10.244.1.2", "10.244.1.3"), checkedService("web", "https", services.IPv4, n, "10.244.1.2")))
	step("terminating does not count", 503, 0, 503, 0, snapshotOf(true, checkedService("web", "http", services.IPv4, n, "10.244.1.201")))
	step("each family for itself", 200, 2, 503, 0, snapshotOf(true,
		checkedService("web", "http", services.IPv4, n, "10.244.1.2", "10.244.1.3"), checkedService("web", "http", services.IPv6, n)))
	step("a change of one port", 200, 2, 200, 1, snapshotOf(false, checkedService("web", "http", services.IPv6, n, "fd00::1")))
	k.mu.Lock()
	k.ill = true
	k.mu.Unlock()
	step("the proxy is ill", 503, 2, 503, 1, snapshotOf(false))
	k.update(t.Context(), snapshotOf(true))
	k.refused(n)
}

// A Service gets the port that another one had, in one pass; a Service's port changes; one goes.
func TestHealthCheckPortsMove(t *testing.T) {
	k := newChecks(t, clock.RealClock{})
	n, m := freePort(t), freePort(t)
	old := checkedService("old", "", services.IPv4, n, "10.244.1.2")
	k.update(t.Context(), snapshotOf(false, old))
	k.await(1)
	taker := checkedService("taker", "", services.IPv4, n, "10.244.1.2", "10.244.1.3")
	moved := checkedService("old", "", services.IPv4, m, "10.244.1.4")
	k.update(t.Context(), snapshotOf(false, taker, moved))
	for k.servers[serviceName{"ns", "old"}] == nil || !answers(n) || !answers(m) {
		time.Sleep(time.Millisecond)
	}
	k.want("127.0.0.1", n, 200, 2)
	k.want("127.0.0.1", m, 200, 1)
	gone := snapshotOf(false, taker)
	delete(gone.Ports, taker.Key)
	k.update(t.Context(), gone)
	k.refused(n)
	k.want("127.0.0.1", m, 200, 1)
	cluster := checkedService("old", "", services.IPv4, 0)
	k.update(t.Context(), snapshotOf(false, cluster)) // externalTrafficPolicy: Cluster has no such port
	k.refused(m)
}

func answers(port uint16) bool {
	_, _, _, err := ask("127.0.0.1", port)
	return err == nil
}

func TestHealthCheckWaitsForABusyPort(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	k := newChecks(t, c)
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	n := uint16(l.Addr().(*net.TCPAddr).Port)
	k.update(t.Context(), snapshotOf(true, checkedService("web", "", services.IPv4, n, "10.244.1.2")))
	for !c.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	l.Close()
	c.Step(listenAgain)
	for !answers(n) {
		time.Sleep(time.Millisecond)
	}
	k.want("127.0.0.1", n, 200, 1)
}

// Whoever asks while things change gets a whole answer: one of the states that there were.
func TestHealthCheckWhileThingsChange(t *testing.T) {
	k := newChecks(t, clock.RealClock{})
	n := freePort(t)
	few := snapshotOf(false, checkedService("web", "", services.IPv4, n, "10.244.1.2"))
	many := snapshotOf(true, checkedService("web", "", services.IPv4, n, "10.244.1.2", "10.244.1.3", "10.244.1.4"))
	k.update(t.Context(), few)
	for !answers(n) {
		time.Sleep(time.Millisecond)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if code, local, weight, err := ask("127.0.0.1", n); err != nil || code != 200 || local != 1 && local != 3 || weight != strconv.Itoa(local) {
					t.Errorf("%d %d %s %v", code, local, weight, err)
				}
			}
		})
	}
	go func() { wg.Wait(); close(stop) }()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
			k.update(t.Context(), []services.Snapshot{few, many}[i%2])
		}
	}
}

// The answer changes when the kernel has, not when the API has: from real objects through a failing pass.
func TestHealthCheckFollowsTheKernel(t *testing.T) {
	n := freePort(t)
	failing := true
	c := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	e := newEngine(testConfig(t, &kernel{fail: func() bool { return failing }}, c, nil))
	t.Cleanup(func() { e.checks.close(); goleak.VerifyNone(t) })
	s := aService("web", 80)
	s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	s.Spec.HealthCheckNodePort = int32(n)
	e.tracker.SetService(s)
	port, node := int32(8080), "node1"
	e.tracker.SetSlice(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "s", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.2"}, NodeName: &node}, {Addresses: []string{"10.244.2.2"}}}})
	e.queue()
	e.pass(t.Context(), true)
	if answers(n) {
		t.Error("answers before any pass succeeded")
	}
	failing = false
	e.pass(t.Context(), true)
	for !answers(n) {
		time.Sleep(time.Millisecond)
	}
	k := &checks{t: t}
	k.want("127.0.0.1", n, 200, 1)

	failing = true
	e.tracker.DeleteSlice("ns", "s")
	e.queue()
	e.pass(t.Context(), false)
	k.want("127.0.0.1", n, 200, 1) // the rules still lead there
	c.Step(e.health.limit)
	k.want("127.0.0.1", n, 503, 1) // but they have been stale for too long
	failing = false
	e.pass(t.Context(), true)
	k.want("127.0.0.1", n, 503, 0)
	e.tracker.DeleteService("ns", "web")
	e.pass(t.Context(), false)
	k.refused(n)
}

// A proxier that ends gives its ports free.
func TestHealthCheckEndsWithTheContext(t *testing.T) {
	k := newChecks(t, clock.RealClock{})
	n := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	k.update(ctx, snapshotOf(true, checkedService("web", "", services.IPv4, n, "10.244.1.2")))
	for !answers(n) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	k.close()
	k.refused(n)
}
