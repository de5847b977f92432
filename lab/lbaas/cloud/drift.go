package cloud

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/cloud-provider/service/helpers"

	"golang.org/x/sync/errgroup"
)

// drift compares balancers with what is wanted of them from time to time. The service controller does so only when
// something changes in Kubernetes: what somebody else does to a balancer it never sees.
type drift struct {
	p        *provider
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
}

// run works until ctx ends.
func (d *drift) run(ctx context.Context) {
	d.sweep(ctx)
	if d.p.opts.DriftPeriod < 0 {
		return
	}
	t := time.NewTicker(d.p.opts.DriftPeriod)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.once(ctx)
			d.sweep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// once looks at every Service that has had its balancer.
func (d *drift) once(ctx context.Context) {
	all, err := d.services.List(labels.Everything())
	if err != nil {
		d.p.log.Error("drift: Services", "error", err)
		return
	}
	var g errgroup.Group
	g.SetLimit(d.p.opts.Workers)
	for _, svc := range all {
		if !wantsBalancer(svc) || !helpers.HasLBFinalizer(svc) || len(svc.Status.LoadBalancer.Ingress) == 0 || ctx.Err() != nil {
			continue // the controller is at it
		}
		g.Go(func() error {
			if err := d.repair(ctx, svc); err != nil && ctx.Err() == nil {
				d.p.log.Warn("drift: not repaired", "service", svc.Namespace+"/"+svc.Name, "error", err)
				d.p.events.Eventf(svc, corev1.EventTypeWarning, "RepairFailed", "Load balancer is not as it should be: %v", err)
			}
			return nil
		})
	}
	_ = g.Wait() // nobody fails
}

// repair makes one balancer what it has to be, and says what it was that was not.
func (d *drift) repair(ctx context.Context, svc *corev1.Service) error {
	ctx, done, err := d.p.begin(ctx, svc)
	if err != nil {
		return err
	}
	defer done()
	svc, err = d.p.fresh(ctx, svc) // it may have been deleted while somebody else had the lock
	if err != nil || svc == nil {
		return err
	}
	nodes, err := d.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	ps, err := d.p.newPass(ctx, svc, eligible(nodes))
	if err != nil {
		return err
	}
	if err := ps.ensureAndPublish(ctx); err != nil {
		return err
	}
	if ps.made || len(ps.steps) > 0 {
		ps.say("RepairedLoadBalancer", "Load balancer was not as it should be: %s", ps.account())
	}
	return nil
}

// account is what a pass did.
func (p *pass) account() string {
	var all []string
	if p.made {
		all = append(all, "made again")
	}
	for _, s := range p.steps {
		all = append(all, s.String())
	}
	return strings.Join(all, "; ")
}
