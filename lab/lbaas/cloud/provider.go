package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/service/helpers"
)

// provider is OpenStack as the service controller sees it: balancers and nothing else.
type provider struct {
	opts      Options
	conf      Config
	client    kubernetes.Interface
	clusterID string
	events    record.EventRecorder
	log       *slog.Logger
	cache     *featureCache
	locks     keyedLocks
	told      told

	mu  sync.Mutex
	api *openStack // nil until OpenStack has answered

	// The service controller hands out contexts that never end: life is the process's.
	life    context.Context
	gate    sync.Mutex // nobody begins after life has ended and end has looked
	working sync.WaitGroup
}

var (
	_ cloudprovider.Interface    = (*provider)(nil)
	_ cloudprovider.LoadBalancer = (*provider)(nil)
)

// newProvider makes one that works until life ends. Options have their defaults.
func newProvider(life context.Context, o Options, client kubernetes.Interface, clusterID string, events record.EventRecorder) *provider {
	return &provider{
		opts: o, conf: o.Balancers, client: client, clusterID: clusterID, events: events, log: o.Log,
		cache: &featureCache{now: time.Now}, life: life,
	}
}

// openStack connects when it is first needed.
func (p *provider) openStack(ctx context.Context) (*openStack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.api == nil {
		api, err := dial(ctx, p.opts.Endpoint)
		if err != nil {
			return nil, err
		}
		p.api = api
	}
	return p.api, nil
}

// begin binds a call to the life of the process and to its Service: one at a time.
func (p *provider) begin(ctx context.Context, svc *corev1.Service) (context.Context, func(), error) {
	p.gate.Lock()
	err := context.Cause(p.life)
	if err == nil {
		p.working.Add(1)
	}
	p.gate.Unlock()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unbind := context.AfterFunc(p.life, func() { cancel(context.Cause(p.life)) })
	unlock, err := p.locks.lock(ctx, "service "+svc.Namespace+"/"+svc.Name)
	end := func() {
		unbind()
		cancel(nil)
		p.working.Done()
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return ctx, func() { unlock(); end() }, nil
}

// end waits for all that has begun, after life has ended.
func (p *provider) end() {
	p.gate.Lock()
	p.gate.Unlock() //nolint:staticcheck // whoever was at the gate has passed it
	p.working.Wait()
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (p *provider) EnsureLoadBalancer(ctx context.Context, _ string, svc *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	ctx, done, err := p.begin(ctx, svc)
	if err != nil {
		return nil, err
	}
	defer done()
	ps, err := p.newPass(ctx, svc, nodes)
	if err != nil {
		return nil, err
	}
	return ps.ensure(ctx)
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. What it is given of the Service can be older than what the
// balancer was made from since, so it looks itself. A balancer that is gone or in ERROR is made again and published: the
// controller would take it for one that is not needed.
func (p *provider) UpdateLoadBalancer(ctx context.Context, _ string, svc *corev1.Service, nodes []*corev1.Node) error {
	ctx, done, err := p.begin(ctx, svc)
	if err != nil {
		return err
	}
	defer done()
	svc, err = p.fresh(ctx, svc)
	if err != nil || svc == nil {
		return err
	}
	ps, err := p.newPass(ctx, svc, nodes)
	if err != nil {
		return err
	}
	return ps.ensureAndPublish(ctx)
}

// fresh is the Service as it is now; nil if it wants no balancer any more, or has not had one.
func (p *provider) fresh(ctx context.Context, svc *corev1.Service) (*corev1.Service, error) {
	now, err := p.client.CoreV1().Services(svc.Namespace).Get(ctx, svc.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	if !wantsBalancer(now) || !helpers.HasLBFinalizer(now) {
		return nil, nil
	}
	return now, nil
}

func wantsBalancer(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil && svc.DeletionTimestamp.IsZero()
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (p *provider) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *corev1.Service) error {
	ctx, done, err := p.begin(ctx, svc)
	if err != nil {
		return err
	}
	defer done()
	ps, err := p.newPass(ctx, svc, nil)
	if !ps.ready {
		return err // what else is wrong with the Service does not matter any more
	}
	if err := ps.remove(ctx); err != nil {
		return err
	}
	p.told.forget(svc.UID)
	return nil
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. As long as anything is left of a balancer it exists: the
// controller lets the Service go when it does not.
func (p *provider) GetLoadBalancer(ctx context.Context, _ string, svc *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	ctx, done, err := p.begin(ctx, svc)
	if err != nil {
		return nil, false, err
	}
	defer done()
	ps, err := p.newPass(ctx, svc, nil)
	if !ps.ready {
		return nil, false, err
	}
	f, err := ps.find(ctx)
	var several ambiguous
	switch {
	case errors.As(err, &several) && !svc.DeletionTimestamp.IsZero():
		return &corev1.LoadBalancerStatus{}, true, nil
	case isGone(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	if f.Alive != nil {
		addresses, err := ps.published(ctx, *f.Alive)
		return statusOf(ps.settings, p.conf, addresses, nil), true, err
	}
	lost, err := ps.lost(ctx)
	return &corev1.LoadBalancerStatus{}, len(f.Dying)+len(lost) > 0, err
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (p *provider) GetLoadBalancerName(_ context.Context, _ string, svc *corev1.Service) string {
	return balancerName(p.opts.ClusterName, svc)
}

// Initialize implements cloudprovider.Interface.
func (p *provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface.
func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return p, true }

// Instances implements cloudprovider.Interface.
func (p *provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (p *provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones implements cloudprovider.Interface.
func (p *provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (p *provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (p *provider) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName implements cloudprovider.Interface.
func (p *provider) ProviderName() string { return "openstack" }

// HasClusterID implements cloudprovider.Interface.
func (p *provider) HasClusterID() bool { return true }

// told remembers what the users of Services know already.
type told struct {
	mu   sync.Mutex
	last map[types.UID]string
}

// same notes what is told now, and says whether it is what was told last.
func (t *told) same(uid types.UID, now []string) bool {
	text := strings.Join(now, "\n")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[types.UID]string{}
	}
	same := t.last[uid] == text
	t.last[uid] = text
	return same
}

func (t *told) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, uid)
}
