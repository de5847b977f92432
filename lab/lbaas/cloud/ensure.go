package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"
)

// pass is one look at a Service and its balancer, and what is done then.
type pass struct {
	*provider
	svc      *corev1.Service
	nodes    []*corev1.Node
	settings settings
	base     string
	os       *openStack
	features features
	ready    bool              // OpenStack has answered
	vips     []corev1.IPFamily // of the balancer, once it is there
	made     bool              // the balancer was made in this pass
	whole    bool              // and all that is below it with it
	steps    []step            // that were made
}

// newPass reads what is needed. Settings are there as far as they can be understood, also with an error.
func (p *provider) newPass(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (*pass, error) {
	s, wrong := settingsOf(svc, p.conf)
	ps := &pass{provider: p, svc: svc, nodes: nodes, settings: s, base: balancerName(p.opts.ClusterName, svc)}
	var err error
	if ps.os, err = p.openStack(ctx); err != nil {
		return ps, err
	}
	if ps.features, err = p.cache.get(ctx, ps.os.lb); err != nil {
		return ps, err
	}
	ps.ready = true
	return ps, wrong
}

func (p *pass) request() request {
	r := request{
		service: p.svc, nodes: p.nodes, settings: p.settings, features: p.features,
		cluster: p.opts.ClusterName, clusterID: p.clusterID, provider: p.conf.Provider, vips: p.vips,
	}
	if !p.wantsFloating() {
		for _, i := range p.svc.Status.LoadBalancer.Ingress {
			if a, err := netip.ParseAddr(i.IP); err == nil {
				r.last = append(r.last, a)
			}
		}
	}
	return r
}

// lives is how many balancers a pass works with: one can die under its hands.
const lives = 3

// ensure makes a Service's balancer what it has to be. The caller holds the Service's lock.
func (p *pass) ensure(ctx context.Context) (*corev1.LoadBalancerStatus, error) {
	var err error
	for range lives {
		var b haveBalancer
		var unlock func()
		if b, unlock, err = p.obtain(ctx); err != nil {
			return nil, p.explain(err)
		}
		var status *corev1.LoadBalancerStatus
		status, err = p.settle(ctx, b)
		unlock()
		if err == nil {
			return status, nil
		}
		if !errors.Is(err, errGone) {
			return nil, p.explain(err)
		}
		p.warn("LoadBalancerGone", "Load balancer %s is gone", b.ID)
	}
	return nil, p.explain(err)
}

// obtain finds or makes the balancer, locks it and waits until it takes writes.
func (p *pass) obtain(ctx context.Context) (haveBalancer, func(), error) {
	f, err := p.find(ctx)
	if err != nil {
		return haveBalancer{}, nil, err
	}
	if f.Namesake != nil {
		p.warn("ClusterNameNotUnique", "Load balancer %s of the same name belongs to another cluster that is called %s, too", f.Namesake.ID, p.opts.ClusterName)
	}
	if f.Alive != nil && f.Alive.Status == "ERROR" {
		if err := p.discard(ctx, *f.Alive); err != nil {
			return haveBalancer{}, nil, err
		}
		f.Alive = nil
	}
	if f.Alive == nil {
		p.vips = nil // those of the one before
		b, err := p.create(ctx, f)
		if err != nil {
			return b, nil, err
		}
		f.Alive, p.made = &b, true
	}
	unlock, err := p.locks.lock(ctx, "balancer "+f.Alive.ID)
	if err != nil {
		return haveBalancer{}, nil, err
	}
	b, err := p.os.waitActive(ctx, p.conf.Wait, f.Alive.ID)
	if err == nil {
		err = p.mayShare(b)
	}
	if err != nil {
		unlock()
		return b, nil, err
	}
	return b, unlock, nil
}

// discard deletes a balancer that is in ERROR, where nothing but that helps. One that others use is not ours to delete.
func (p *pass) discard(ctx context.Context, b haveBalancer) error {
	if !p.mine(b) || outside(b, p.clusterID) || len(p.others(b)) > 0 {
		return fmt.Errorf("load balancer %s: %w; others use it, so it is not deleted and made again: let an administrator fail it over", b.ID, errFailed)
	}
	p.warn("LoadBalancerError", "Load balancer %s is in ERROR: it is deleted and made again", b.ID)
	unlock, err := p.locks.lock(ctx, "balancer "+b.ID)
	if err != nil {
		return err
	}
	defer unlock()
	return p.deleteWhole(ctx, b)
}

// outside tells that a balancer was not made by this cluster, and stays when its Services go.
func outside(b haveBalancer, clusterID string) bool {
	return !strings.HasPrefix(b.Name, namePrefix) || foreignCluster(b.Tags, clusterID) != ""
}

// others are the other Services that use a balancer.
func (p *pass) others(b haveBalancer) []string {
	return slices.DeleteFunc(sharers(b.Tags), func(t string) bool { return t == p.base })
}

// mine tells that this Service has a part in a balancer, and does not only name it.
func (p *pass) mine(b haveBalancer) bool { return b.Name == p.base || slices.Contains(b.Tags, p.base) }

func (p *pass) mayShare(b haveBalancer) error {
	if p.mine(b) {
		return nil
	}
	if !p.features.tags() {
		return fmt.Errorf("load balancer %s cannot be shared: Octavia 2.%d has no tags (2.5 has)", b.ID, p.features.Minor)
	}
	if n := len(p.others(b)); n >= p.conf.MaxShared {
		return fmt.Errorf("load balancer %s is shared by %d Services already, which is the most", b.ID, n)
	}
	return nil
}

// settle brings what is below the balancer in order, then its addresses.
func (p *pass) settle(ctx context.Context, b haveBalancer) (*corev1.LoadBalancerStatus, error) {
	p.vips = nil
	for _, a := range b.addresses() {
		p.vips = append(p.vips, familyOf(a))
	}
	w := p.wanted(b)
	if !p.whole {
		var err error
		if w, err = p.reconcile(ctx, b); err != nil {
			return nil, err
		}
	}
	p.whole = false // for the next balancer of this pass, should this one go
	addresses, err := p.addresses(ctx, b)
	if err != nil {
		return nil, err
	}
	p.tell(w)
	if err := p.annotate(ctx, b, addresses); err != nil {
		return nil, err
	}
	return statusOf(p.settings, p.conf, addresses, w.Refused), nil
}

// rounds is how often a balancer is read and put right in a pass. More than one are needed when somebody else writes, too,
// or a write is not answered.
const rounds = 6

// reconcile reads the balancer and makes the writes that are missing. After a write that may have been obeyed, or that came
// at a bad time, it reads again.
func (p *pass) reconcile(ctx context.Context, b haveBalancer) (want, error) {
	var w want
	var last error
	for range rounds {
		if w, last = p.round(ctx, b); last == nil || !worthAnotherLook(last) || ctx.Err() != nil {
			return w, last
		}
		var err error
		if b, err = p.os.waitActive(ctx, p.conf.Wait, b.ID); err != nil {
			return w, err
		}
	}
	return w, last
}

func (p *pass) round(ctx context.Context, b haveBalancer) (want, error) {
	var err error
	if p.features, err = p.cache.get(ctx, p.os.lb); err != nil {
		return want{}, err
	}
	w := p.wanted(b)
	if err := w.possible(); err != nil {
		return w, err
	}
	h, err := p.os.read(ctx, b, p.base)
	if err != nil {
		return w, err
	}
	steps, err := diff(w, h)
	if err != nil {
		return w, err
	}
	return w, p.take(ctx, b, steps)
}

// wanted is what the balancer has to be, if it is ours or if it is somebody else's.
func (p *pass) wanted(b haveBalancer) want {
	w := wanted(p.request())
	if b.Name != p.base {
		// Parts alone are this Service's.
		w.Balancer.Tags = slices.DeleteFunc(w.Balancer.Tags, func(t string) bool { return t != p.base })
	}
	if w.Balancer.PortID == "" {
		w.Balancer.SubnetID = b.SubnetID // is there, whatever is configured now
	}
	if a := p.settings.Address; p.settings.Internal && a.IsValid() && !slices.Contains(b.addresses(), a) {
		w.note("AddressIgnored", "the load balancer has the address %s: spec.loadBalancerIP comes too late", b.Address)
	}
	return w
}

func (p *pass) take(ctx context.Context, b haveBalancer, steps []step) error {
	w := &writer{openStack: p.os, cache: p.cache, features: p.features, wait: p.conf.Wait, balancer: b.ID}
	for _, s := range steps {
		if err := w.do(ctx, s); err != nil {
			p.log.Info("step failed", "service", p.key(), "step", s.String(), "error", err)
			return fmt.Errorf("%s: %w", s, err)
		}
		p.log.Debug("step", "service", p.key(), "step", s.String())
		p.steps = append(p.steps, s)
	}
	return nil
}

// worthAnotherLook tells of what a second try can get right: a balancer that was busy, a part that has gone, an answer that
// did not come, something that the provider cannot do.
func worthAnotherLook(err error) bool {
	return isConflict(err) || (isGone(err) && !errors.Is(err, errGone)) || isUnsupported(err) || (isUnclear(err) && !terminal(err))
}

func terminal(err error) bool {
	return errors.Is(err, errFailed) || errors.Is(err, errStuck) || errors.Is(err, errGone)
}

// explain turns an error into what the service controller and the user of the Service can do something with.
func (p *pass) explain(err error) error {
	switch {
	case errors.Is(err, errStuck):
		p.warn("LoadBalancerPending", "%v; it is tried again in %s", err, p.conf.Wait.Retry)
		return api.NewRetryError(err.Error(), p.conf.Wait.Retry)
	case errors.Is(err, errFailed):
		p.warn("LoadBalancerError", "%v", err)
	}
	return err
}
