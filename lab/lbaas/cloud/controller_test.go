package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/cloud-provider/service/helpers"
)

// cluster is a Kubernetes that the controller works for, whole: informers, finalizers, events.
type cluster struct {
	*rig
	client *fake.Clientset
}

// startController runs what Main runs.
func startController(t *testing.T, change ...func(*Options)) *cluster {
	t.Helper()
	r := newRig(t)
	c := &cluster{rig: r, client: fake.NewClientset()}
	watching(c.client)
	for _, n := range twoNodes() {
		if _, err := c.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	o := r.p.opts
	o.DriftPeriod = -1
	for _, f := range change {
		f(&o)
	}
	ready := make(chan struct{})
	o.Ready = func() { close(ready) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runWith(ctx, o, c.client, "c1") }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
	return c
}

// watching lets a watch begin with what a list just before it did not have: the tracker has no versions to go by.
func watching(c *fake.Clientset) {
	c.PrependWatchReactor("*", func(action k8stesting.Action) (bool, watch.Interface, error) {
		w, err := c.Tracker().Watch(action.GetResource(), action.GetNamespace())
		return true, w, err
	})
}

func (c *cluster) get(t *testing.T, name string) *corev1.Service {
	t.Helper()
	svc, err := c.client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

func (c *cluster) update(t *testing.T, name string, f func(*corev1.Service)) {
	t.Helper()
	eventually(t, "update", func() error {
		svc := c.get(t, name)
		f(svc)
		_, err := c.client.CoreV1().Services("default").Update(t.Context(), svc, metav1.UpdateOptions{})
		return err
	})
}

// event waits until there were so many with a reason.
func (c *cluster) event(t *testing.T, reason string, want int32) {
	t.Helper()
	eventually(t, "event "+reason, func() error {
		all, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		seen := map[string]int32{}
		for _, e := range all.Items {
			seen[e.Reason] += e.Count
		}
		if seen[reason] < want {
			return fmt.Errorf("there are %v: %+v", seen, all.Items)
		}
		return nil
	})
}

func TestController(t *testing.T) {
	c := startController(t)
	if _, err := c.client.CoreV1().Services("default").Create(t.Context(), newService(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "published", func() error {
		svc := c.get(t, "web")
		if len(svc.Status.LoadBalancer.Ingress) != 1 || !helpers.HasLBFinalizer(svc) || svc.Annotations[annID] == "" {
			return fmt.Errorf("%+v %+v", svc.ObjectMeta, svc.Status)
		}
		return nil
	})
	c.event(t, "EnsuredLoadBalancer", 1)
	c.event(t, "CreatedLoadBalancer", 1)

	members := func(want int) func() error {
		return func() error {
			for _, p := range c.tree(newService()).Pools {
				if len(p.Members) != want {
					return fmt.Errorf("%s has %d members", p.Name, len(p.Members))
				}
			}
			return nil
		}
	}
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), node("node-3", "10.0.0.13"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a node comes", members(3))
	if err := c.client.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a node goes", members(2))

	c.update(t, "web", func(svc *corev1.Service) { clientIP(60)(svc); svc.Spec.Ports = svc.Spec.Ports[:1] })
	eventually(t, "changed", func() error {
		if h := c.tree(newService()); len(h.Listeners) != 1 || len(h.Pools) != 1 || h.Pools[0].Persistence == nil {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})

	// The finalizer keeps the Service until the balancer is gone.
	c.update(t, "web", func(svc *corev1.Service) { now := metav1.Now(); svc.DeletionTimestamp = &now })
	eventually(t, "let go", func() error {
		if svc, err := c.client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{}); err == nil && helpers.HasLBFinalizer(svc) {
			return errors.New("the finalizer is still there")
		}
		return nil
	})
	if left := c.balancers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestDriftByItself is a balancer that somebody deletes while nothing changes in Kubernetes.
func TestDriftByItself(t *testing.T) {
	c := startController(t, func(o *Options) { o.DriftPeriod = 20 * time.Millisecond })
	if _, err := c.client.CoreV1().Services("default").Create(t.Context(), newService(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "published", func() error {
		if svc := c.get(t, "web"); len(svc.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("%+v", svc.Status)
		}
		return nil
	})
	c.event(t, "EnsuredLoadBalancer", 2) // the second because of the annotations: then the controller is at rest
	first := c.only().ID
	eventually(t, "delete", func() error { // the repair may be writing just now
		return loadbalancers.Delete(t.Context(), c.api().lb, first, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
	})
	eventually(t, "repaired", func() error {
		all := c.balancers()
		if len(all) != 1 || all[0].ID == first || all[0].Status != "ACTIVE" || c.get(t, "web").Annotations[annID] != all[0].ID {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
	c.event(t, "RepairedLoadBalancer", 1)
}

func TestMainFails(t *testing.T) {
	for want, o := range map[string]Options{
		"neither an auth URL nor an Octavia endpoint": {},
		"an auth URL needs a user name":               {Endpoint: Endpoint{AuthURL: "http://127.0.0.1:1"}},
		`class "dmz" says nothing`:                    {Endpoint: Endpoint{Octavia: "http://127.0.0.1:1"}, Balancers: Config{Classes: map[string]Class{"dmz": {}}}},
		"kubeconfig /nowhere":                         {Kubeconfig: "/nowhere", Endpoint: Endpoint{Octavia: "http://127.0.0.1:1"}},
	} {
		if err := Main(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestWaitsForOpenStack ends while OpenStack is not there.
func TestWaitsForOpenStack(t *testing.T) {
	r := newRig(t)
	o := r.p.opts
	o.Endpoint.Octavia = "http://127.0.0.1:1"
	o.Ready = func() { t.Error("ready") }
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewClientset()
	client.PrependReactor("list", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) {
		time.AfterFunc(10*time.Millisecond, cancel)
		return false, nil, nil
	})
	if err := runWith(ctx, o, client, "c1"); err != nil {
		t.Error(err)
	}
}
