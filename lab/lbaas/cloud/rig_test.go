package cloud

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/cloud-provider/service/helpers"

	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/faults"
	"proxylab/lab/lbaas/openstack"
)

// rig is a provider, an OpenStack for it, and a Kubernetes that has what it is given.
type rig struct {
	t      testing.TB
	server *lbaas.Server
	http   *httptest.Server
	p      *provider
	client *fake.Clientset
	events *eventList
	nodes  []*corev1.Node

	mu    sync.Mutex
	calls []string // "METHOD path", Octavia's alone
}

// setup is what a rig is made from.
type setup struct {
	server    lbaas.Options
	options   Options
	clusterID string
	keystone  bool
	on        *rig // the server of another rig
}

func newRig(t testing.TB, change ...func(*setup)) *rig {
	t.Helper()
	s := setup{clusterID: "c1", server: lbaas.Options{ProvisionDelay: 2 * time.Millisecond}, options: Options{
		ClusterName: "kubernetes", Log: slog.New(slog.DiscardHandler),
		Endpoint: Endpoint{RequestTimeout: 10 * time.Second, RetryPause: 2 * time.Millisecond},
		Balancers: Config{
			SubnetID: openstack.StableID("subnet", "private-subnet"), SubnetID6: openstack.StableID("subnet", "private6-subnet"), Internal: true,
			Wait: Wait{First: time.Millisecond, Most: 10 * time.Millisecond, Limit: 20 * time.Second, Retry: 7 * time.Second},
		},
	}}
	for _, f := range change {
		f(&s)
	}
	r := &rig{t: t, client: fake.NewClientset(), events: &eventList{}, nodes: twoNodes()}
	if s.on != nil {
		r.server, r.http = s.on.server, s.on.http
	} else {
		var err error
		if r.server, err = lbaas.New(s.server); err != nil {
			t.Fatal(err)
		}
		r.http = httptest.NewServer(http.HandlerFunc(r.serve))
		t.Cleanup(func() {
			r.http.Close()
			if err := r.server.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	e := &s.options.Endpoint
	if e.Octavia, e.Network = r.http.URL, r.http.URL; s.keystone {
		e.Octavia, e.Network = "", ""
		e.AuthURL, e.Username, e.Password, e.Project, e.Domain = r.http.URL+"/identity/v3", "demo", "demo", "demo", "Default"
	}
	r.p = newProvider(t.Context(), s.options.withDefaults(), r.client, s.clusterID, r.events)
	return r
}

// serve records what is asked of Octavia.
func (r *rig) serve(w http.ResponseWriter, req *http.Request) {
	if strings.Contains(req.URL.Path, "/lbaas/") {
		r.mu.Lock()
		r.calls = append(r.calls, req.Method+" "+req.URL.Path)
		r.mu.Unlock()
	}
	r.server.ServeHTTP(w, req)
}

// writes are the requests that changed something, without IDs, since the last time.
func (r *rig) writes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, c := range r.calls {
		method, path, _ := strings.Cut(c, " ")
		if method == http.MethodGet {
			continue
		}
		parts := slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return len(s) == 36 })
		all = append(all, method+" "+parts[len(parts)-1])
	}
	r.calls = nil
	return all
}

// reads is how many requests only asked, since the last look at the writes.
func (r *rig) reads() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.calls {
		if strings.HasPrefix(c, http.MethodGet) {
			n++
		}
	}
	return n
}

// plan lets something go wrong.
func (r *rig) plan(f ...faults.Fault) {
	r.t.Helper()
	if err := r.server.Plan(faults.Plan{Faults: f}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) calm() {
	r.t.Helper()
	if _, err := r.server.Calm(); err != nil {
		r.t.Fatal(err)
	}
}

// add gives Kubernetes a Service, with the finalizer that the controller puts on.
func (r *rig) add(svc *corev1.Service) *corev1.Service {
	r.t.Helper()
	svc.Finalizers = []string{helpers.LoadBalancerCleanupFinalizer}
	if _, err := r.client.CoreV1().Services(svc.Namespace).Create(r.t.Context(), svc, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	return svc
}

// now is a Service as Kubernetes has it.
func (r *rig) now(svc *corev1.Service) *corev1.Service {
	r.t.Helper()
	s, err := r.client.CoreV1().Services(svc.Namespace).Get(r.t.Context(), svc.Name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) change(svc *corev1.Service, f ...func(*corev1.Service)) {
	r.t.Helper()
	s := r.now(svc)
	for _, f := range f {
		f(s)
	}
	if _, err := r.client.CoreV1().Services(svc.Namespace).Update(r.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// try does what the controller does with a Service that is new or has changed.
func (r *rig) try(svc *corev1.Service) (*corev1.LoadBalancerStatus, error) {
	r.t.Helper()
	status, err := r.p.EnsureLoadBalancer(r.t.Context(), "kubernetes", r.now(svc), r.nodes)
	if err == nil {
		r.change(svc, func(s *corev1.Service) { s.Status.LoadBalancer = *status })
	}
	return status, err
}

func (r *rig) ensure(svc *corev1.Service) *corev1.LoadBalancerStatus {
	r.t.Helper()
	status, err := r.try(svc)
	if err != nil {
		r.t.Fatal(err)
	}
	return status
}

func (r *rig) remove(svc *corev1.Service) {
	r.t.Helper()
	if err := r.p.EnsureLoadBalancerDeleted(r.t.Context(), "kubernetes", r.now(svc)); err != nil {
		r.t.Fatal(err)
	}
}

// drift is one look of the repair at a Service.
func (r *rig) drift(svc *corev1.Service) error {
	d := &drift{p: r.p, nodes: nodeList(r.nodes)}
	return d.repair(r.t.Context(), svc)
}

// api is a client of somebody else's.
func (r *rig) api() *openStack {
	return undocumented(Endpoint{Octavia: r.http.URL, Network: r.http.URL})
}

func (r *rig) balancers() []haveBalancer {
	r.t.Helper()
	all, err := r.api().listBalancers(r.t.Context(), loadbalancers.ListOpts{})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// only is the one balancer there is.
func (r *rig) only() haveBalancer {
	r.t.Helper()
	all := r.balancers()
	if len(all) != 1 {
		r.t.Fatalf("%d load balancers: %+v", len(all), all)
	}
	return all[0]
}

// tree is what there is for a Service.
func (r *rig) tree(svc *corev1.Service) have {
	r.t.Helper()
	b := r.only()
	h, err := r.api().read(r.t.Context(), b, balancerName("kubernetes", svc))
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// write lets somebody else write to a balancer.
func (r *rig) write(balancer string, steps ...step) {
	r.t.Helper()
	w := &writer{openStack: r.api(), cache: &featureCache{now: time.Now}, wait: r.p.conf.Wait, balancer: balancer}
	for _, s := range steps {
		if err := w.do(r.t.Context(), s); err != nil {
			r.t.Fatalf("%s: %v", s, err)
		}
	}
}

// delete lets somebody else delete a balancer, and waits until it is gone.
func (r *rig) delete(id string) {
	r.t.Helper()
	if err := loadbalancers.Delete(r.t.Context(), r.api().lb, id, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.api().waitGone(r.t.Context(), r.p.conf.Wait, id); err != nil {
		r.t.Fatal(err)
	}
}

// right shows that a Service's balancer is as it has to be: another look finds nothing to write.
func (r *rig) right(svc *corev1.Service) {
	r.t.Helper()
	r.writes()
	r.ensure(svc)
	if w := r.writes(); len(w) > 0 {
		r.t.Errorf("there was left to do: %v", w)
	}
}

// said tells whether there was an event with a reason, and a text in its message.
func (r *rig) said(reason, text string) {
	r.t.Helper()
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	for _, e := range r.events.all {
		if strings.HasPrefix(e, reason+": ") && strings.Contains(e, text) {
			return
		}
	}
	r.t.Errorf("no event %s with %q in %q", reason, text, r.events.all)
}

// eventList is a recorder that forgets nothing.
type eventList struct {
	mu  sync.Mutex
	all []string
}

func (l *eventList) Event(_ runtime.Object, _, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, reason+": "+message)
}

func (l *eventList) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	l.Event(o, kind, reason, fmt.Sprintf(format, args...))
}

func (l *eventList) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	l.Eventf(o, kind, reason, format, args...)
}

// eventually waits for what comes by itself.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
