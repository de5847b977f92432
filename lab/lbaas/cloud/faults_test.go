package cloud

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/cloud-provider/api"

	"proxylab/lab/lbaas/faults"
)

// nodeList is a lister of nodes that do not change.
type nodeList []*corev1.Node

func (l nodeList) List(labels.Selector) ([]*corev1.Node, error) { return l, nil }
func (l nodeList) Get(string) (*corev1.Node, error)             { return nil, errors.New("nobody asks") }

var _ corelisters.NodeLister = nodeList{}

// TestFaults has the rows of the table of load balancer faults (cpo: cloud-provider-openstack, k: kubernetes) that show in
// what the provider does; those that show in what it wants are in the other tables.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		row  string
		test func(*testing.T)
	}{
		{"cpo 1052: stuck in PENDING_UPDATE", stuckPending},
		{"cpo 1520: 409 right after another write", immutable},
		{"cpo 2036, 2541: a balancer in ERROR is deleted and made again", inError},
		{"cpo 2036, 2541: a node comes meanwhile", updateInError},
		{"cpo 2036, 2541: one that never becomes ACTIVE", bornInError},
		{"cpo 2036, 2541: one in ERROR can be deleted", deletedInError},
		{"cpo 1912, 1931: deleted behind the controller's back", deletedOutOfBand},
		{"cpo 1912, 1931: 500 means retry", serverError},
		{"cpo 576: made again while the old one is dying", dying},
		{"cpo 2753: made, but the answer is lost", unanswered},
		{"cpo 2753: writes whose answer is lost", unansweredWrites},
		{"cpo 2004, 2624, 1371: equal names from two clusters", namesakes},
		{"cpo 2004, 2624, 1371: two matches are an error", twoMatches},
		{"cpo 2858: many ports and nodes", manyPorts},
		{"cpo 2962: an emptied pool is filled", emptied},
		{"cpo 2370, 2008: monitors and members", partsChanged},
		{"cpo 1999, 2866: UDP before 2.16, Local", localUDP},
		{"cpo 1287, 1167: PROXY protocol switched on later", proxyLater},
		{"(seen in a run): a changed sessionAffinity", affinity},
		{"(seen in a run): TCP and UDP with PROXY protocol", mixedProxy},
		{"k53451, k78954, k121090: orphans", orphaned},
		{"k133052: NotReady nodes stay", notReady},
	} {
		t.Run(tt.row, tt.test)
	}
}

const childWrites = "listener.create listener.update pool.create pool.update member.batch_update healthmonitor.create"

func stuckPending(t *testing.T) {
	r := newRig(t, func(s *setup) { s.options.Balancers.Wait.Limit = 50 * time.Millisecond })
	svc := r.add(newService())
	r.ensure(svc)
	r.plan(faults.Fault{Name: "stuck", Operation: "member.batch_update", Pending: &faults.Span{Forever: true}})
	r.nodes = append(r.nodes, node("node-3", "10.0.0.13"))
	for _, try := range []func() error{
		func() error { return r.p.UpdateLoadBalancer(t.Context(), "kubernetes", r.now(svc), r.nodes) },
		func() error { _, err := r.try(svc); return err },
	} {
		var again *api.RetryError
		if err := try(); !errors.As(err, &again) || again.RetryAfter() != 7*time.Second || !strings.Contains(err.Error(), "PENDING_UPDATE") {
			t.Errorf("stuck: %v", err)
		}
	}
	r.said("LoadBalancerPending", "is PENDING_UPDATE after 50ms")
	if err := r.p.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", r.now(svc)); err == nil {
		t.Error("deleted while PENDING")
	}
	if _, exists, err := r.p.GetLoadBalancer(t.Context(), "kubernetes", r.now(svc)); err != nil || !exists {
		t.Errorf("while PENDING: %v, %v", exists, err)
	}
	r.calm()
	eventually(t, "deletable again", func() error { return r.p.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", r.now(svc)) })
	if left := r.balancers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func immutable(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	id := r.only().ID
	// Somebody else's write is under way.
	r.plan(faults.Fault{Name: "slow", Operation: "loadbalancer.update", Count: 1, Pending: &faults.Span{Duration: 30 * time.Millisecond}})
	if err := loadbalancers.Update(t.Context(), r.api().lb, id, body{"loadbalancer", patch{"description": "mine"}}).Err; err != nil {
		t.Fatal(err)
	}
	r.change(svc, clientIP(60))
	r.ensure(svc)
	// And begins between our look and our write.
	r.plan(faults.Fault{Name: "busy", Operation: childWrites, Count: 3, Status: http.StatusConflict})
	r.change(svc, localPolicy)
	r.ensure(svc)
	r.right(svc)
}

func inError(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	address := r.ensure(svc).Ingress[0].IP
	first := r.only().ID
	r.plan(faults.Fault{Name: "fails", Operation: "pool.update", Count: 1, Error: true})
	r.change(svc, clientIP(60))
	if _, err := r.try(svc); !errors.Is(err, errFailed) {
		t.Fatalf("the write that fails: %v", err)
	}
	r.said("LoadBalancerError", "it is in ERROR")
	if err := r.drift(svc); err != nil {
		t.Fatal(err)
	}
	r.said("LoadBalancerError", "is deleted and made again")
	r.said("RepairedLoadBalancer", "made again")
	now := r.now(svc)
	if b := r.only(); b.ID == first || b.Status != "ACTIVE" || now.Annotations[annID] != b.ID || b.Address != address {
		t.Errorf("was %s at %s, is %+v; annotations %v", first, address, b, now.Annotations)
	}
	r.right(svc)
}

// updateInError is a node that comes while the balancer is in ERROR.
func updateInError(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	first := r.only().ID
	r.plan(faults.Fault{Name: "fails", Operation: "member.batch_update", Count: 1, Error: true})
	r.nodes = append(r.nodes, node("node-3", "10.0.0.13"))
	if err := r.p.UpdateLoadBalancer(t.Context(), "kubernetes", r.now(svc), r.nodes); !errors.Is(err, errFailed) {
		t.Fatalf("%v", err)
	}
	if err := r.p.UpdateLoadBalancer(t.Context(), "kubernetes", r.now(svc), r.nodes); err != nil {
		t.Fatal(err)
	}
	if b := r.only(); b.ID == first || b.Status != "ACTIVE" || len(r.tree(svc).Pools[0].Members) != 3 {
		t.Errorf("%+v", b)
	}
}

func bornInError(t *testing.T) {
	r := newRig(t)
	r.plan(faults.Fault{Name: "fails", Operation: "loadbalancer.create", Count: 1, Error: true})
	svc := r.add(newService())
	if _, err := r.try(svc); !errors.Is(err, errFailed) {
		t.Fatalf("%v", err)
	}
	first := r.only().ID
	r.ensure(svc)
	if b := r.only(); b.ID == first || b.Status != "ACTIVE" {
		t.Errorf("%+v", b)
	}
}

func deletedInError(t *testing.T) {
	r := newRig(t)
	r.plan(faults.Fault{Name: "fails", Operation: "loadbalancer.create", Count: 1, Error: true})
	svc := r.add(newService())
	if _, err := r.try(svc); err == nil {
		t.Fatal("made")
	}
	r.remove(svc)
	if left := r.balancers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func deletedOutOfBand(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	address := r.ensure(svc).Ingress[0].IP
	first := r.only().ID
	r.delete(first)
	if err := r.drift(svc); err != nil {
		t.Fatal(err)
	}
	if b := r.only(); b.ID == first || b.Address != address {
		t.Errorf("%+v, had %s", b, address)
	}
	r.right(svc)
	r.delete(r.only().ID)
	r.ensure(svc) // the controller, without the repair
	r.delete(r.only().ID)
	if _, exists, err := r.p.GetLoadBalancer(t.Context(), "kubernetes", r.now(svc)); exists || err != nil {
		t.Errorf("exists: %v, %v", exists, err)
	}
	if err := r.p.UpdateLoadBalancer(t.Context(), "kubernetes", r.now(svc), r.nodes); err != nil {
		t.Error(err)
	}
	if b := r.only(); b.Address != r.now(svc).Status.LoadBalancer.Ingress[0].IP {
		t.Errorf("%+v", b)
	}
	r.remove(svc)
	if left := r.balancers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func serverError(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.plan(faults.Fault{Name: "shaky", Operation: "loadbalancer.list loadbalancer.show pool.list", Count: 3, Status: http.StatusInternalServerError})
	r.ensure(svc) // questions are repeated
	first := r.only().ID
	r.plan(faults.Fault{Name: "down", Operation: "loadbalancer.list loadbalancer.show", Status: http.StatusInternalServerError})
	if _, err := r.try(svc); err == nil || isGone(err) {
		t.Errorf("%v", err)
	}
	if _, _, err := r.p.GetLoadBalancer(t.Context(), "kubernetes", r.now(svc)); err == nil {
		t.Error("nobody knows whether it exists, and it is said that it does not")
	}
	r.calm()
	r.ensure(svc)
	if b := r.only(); b.ID != first {
		t.Errorf("made again: %+v", b)
	}
}

func dying(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	first := r.only().ID
	r.plan(faults.Fault{Name: "slow", Operation: "loadbalancer.delete", Pending: &faults.Span{Forever: true}})
	if err := loadbalancers.Delete(t.Context(), r.api().lb, first, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	// A Service of the same name that was made just now.
	if err := r.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("services"), "default", "web"); err != nil {
		t.Fatal(err)
	}
	again := r.add(newService(func(s *corev1.Service) { s.UID = "u2" }))
	r.ensure(again)
	alive := slices.DeleteFunc(r.balancers(), func(b haveBalancer) bool { return b.Status == "PENDING_DELETE" })
	if len(alive) != 1 || alive[0].ID == first {
		t.Errorf("%+v", alive)
	}
	r.right(again)
}

func unanswered(t *testing.T) {
	for name, fault := range map[string]faults.Fault{
		"dropped": {Drop: true},
		"504":     {Status: http.StatusGatewayTimeout},
		"500":     {Status: http.StatusInternalServerError},
		"late":    {Latency: faults.Duration(20 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(s *setup) {
				if fault.Latency != 0 {
					s.options.Endpoint.RequestTimeout = time.Second
				}
			})
			fault.Name, fault.Operation, fault.Count, fault.AfterCommit = name, "loadbalancer.create", 1, true
			r.plan(fault)
			svc := r.add(newService())
			r.ensure(svc)
			b := r.only()
			r.said("AdoptedLoadBalancer", b.ID)
			r.right(svc)
		})
	}
}

func unansweredWrites(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	r.ensure(svc)
	r.plan(faults.Fault{Name: "dropped", Operation: childWrites + " listener.delete pool.delete", Every: 2, Count: 6, AfterCommit: true, Drop: true})
	r.change(svc, ports(port("TCP", 80, 30080), port("TCP", 443, 30443)), localPolicy, annotated(annProxy, "true"))
	// A pass gives up after some; the controller comes again.
	eventually(t, "converged", func() error { _, err := r.try(svc); return err })
	r.calm()
	r.right(svc)
	if h := r.tree(svc); len(h.Listeners) != 2 || len(h.Pools) != 2 {
		t.Errorf("%d listeners, %d pools", len(h.Listeners), len(h.Pools))
	}
}

func namesakes(t *testing.T) {
	one := newRig(t)
	two := newRig(t, func(s *setup) { s.on, s.clusterID = one, "c2" })
	a, b := one.add(newService()), two.add(newService())
	one.ensure(a)
	two.ensure(b)
	two.said("ClusterNameNotUnique", "belongs to another cluster that is called kubernetes, too")
	if all := one.balancers(); len(all) != 2 || all[0].Name != all[1].Name {
		t.Fatalf("%+v", all)
	}
	one.right(a)
	two.right(b)
	one.remove(a)
	if left := one.only(); !slices.Contains(left.Tags, "kube_cluster_c2") {
		t.Errorf("the other cluster's balancer went: %+v", left)
	}
}

func twoMatches(t *testing.T) {
	r := newRig(t)
	svc := r.add(newService())
	for range 2 {
		made := wantBalancer{Name: balancerName("kubernetes", svc), SubnetID: r.p.conf.SubnetID}
		if err := loadbalancers.Create(t.Context(), r.api().lb, body{"loadbalancer", made}).Err; err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.try(svc)
	if err == nil || !strings.Contains(err.Error(), "2 load balancers are called kube_service_kubernetes_default_web") {
		t.Errorf("%v", err)
	}
	if err := r.p.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", r.now(svc)); err == nil {
		t.Error("one of two was deleted, and nobody knows which")
	}
	// The user chooses.
	r.change(svc, annotated(annID, r.balancers()[0].ID))
	r.ensure(svc)
}
