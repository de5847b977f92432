package cloud

import (
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"proxylab/lab/lbaas/faults"
)

// TestChaos changes a Service and its balancer in any order while requests fail in every way. When that ends the balancer is
// right, and it is one.
func TestChaos(t *testing.T) {
	fewer(t, 20) // each is a cloud of its own
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		svc := r.add(newService())
		for range rapid.IntRange(1, 8).Draw(rt, "turns") {
			chaos(t, rt, r, svc)
			_, err := r.try(svc)
			rt.Logf("ensure: %v", err)
		}
		r.calm()
		eventually(t, "right at last", func() error { _, err := r.try(svc); return err })
		r.right(svc)
		h := r.tree(svc)
		if n := len(r.now(svc).Spec.Ports); len(h.Listeners) != n || len(h.Pools) != n || len(h.Pools[0].Members) != len(r.nodes) {
			rt.Fatalf("%d listeners, %d pools for %d ports: %+v", len(h.Listeners), len(h.Pools), n, h)
		}
		r.remove(svc)
		if left := r.balancers(); len(left) > 0 {
			rt.Fatalf("left: %+v", left)
		}
	})
}

func chaos(t *testing.T, rt *rapid.T, r *rig, svc *corev1.Service) {
	switch rapid.SampledFrom([]string{"change", "nodes", "fault", "fault", "delete", "empty", "calm"}).Draw(rt, "turn") {
	case "change":
		change := rapid.SampledFrom([]string{"affinity", "local", "proxy", "ports", "plain"}).Draw(rt, "change")
		r.change(svc, func(s *corev1.Service) {
			switch change {
			case "affinity":
				clientIP(60)(s)
			case "local":
				localPolicy(s)
			case "proxy":
				s.Annotations[annProxy] = "true"
			case "ports":
				s.Spec.Ports = []corev1.ServicePort{port("TCP", 443, 30443), port("UDP", 53, 30053)}
			case "plain":
				s.Spec = newService().Spec
			}
		})
	case "nodes":
		r.nodes = twoNodes()[:rapid.IntRange(1, 2).Draw(rt, "nodes")]
	case "fault":
		r.plan(anyFault(rt))
	case "delete":
		for _, b := range r.balancers() {
			_ = loadbalancers.Delete(t.Context(), r.api().lb, b.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr() // if it can be had
		}
	case "empty":
		for _, b := range r.balancers() {
			h, err := r.api().read(t.Context(), b, b.Name)
			if err != nil || len(h.Pools) == 0 {
				continue
			}
			w := &writer{openStack: r.api(), cache: &featureCache{now: time.Now}, wait: r.p.conf.Wait, balancer: b.ID}
			_ = w.setMembers(t.Context(), h.Pools[0].ID, memberChange{}) // if it can be had
		}
	case "calm":
		r.calm()
	}
}

func anyFault(rt *rapid.T) faults.Fault {
	f := faults.Fault{
		Name:      fmt.Sprint("f", rapid.IntRange(0, 1_000_000).Draw(rt, "name")),
		Operation: rapid.SampledFrom([]string{"loadbalancer.create", "loadbalancer.delete", "listener.*", "pool.*", "member.batch_update", "healthmonitor.*", "*"}).Draw(rt, "operation"),
		Nth:       rapid.IntRange(1, 4).Draw(rt, "nth"), Count: 1,
	}
	switch rapid.SampledFrom([]string{"status", "drop", "error"}).Draw(rt, "kind") {
	case "status":
		f.Status = rapid.SampledFrom([]int{http.StatusUnauthorized, http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable}).Draw(rt, "status")
		f.AfterCommit = f.Status >= 500 && rapid.Bool().Draw(rt, "after commit")
	case "drop":
		f.Drop, f.AfterCommit = true, rapid.Bool().Draw(rt, "after commit")
	case "error":
		f.Error = true
	}
	return f
}

// fewer are the checks of a property that takes its time; a number on the command line goes before.
func fewer(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checks.Value.Set(checks.DefValue); err != nil {
			t.Error(err)
		}
	})
}
