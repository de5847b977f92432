package cloud

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/service/helpers"
)

// sweep deletes the balancers of this cluster whose Services are no more: somebody took the finalizer off, or etcd went
// back to an older state.
func (d *drift) sweep(ctx context.Context) {
	if err := d.p.sweep(ctx); err != nil && ctx.Err() == nil {
		d.p.log.Warn("orphans", "error", err)
	}
}

func (p *provider) sweep(ctx context.Context) error {
	o, err := p.openStack(ctx)
	if err != nil {
		return err
	}
	f, err := p.cache.get(ctx, o.lb)
	if err != nil || !f.tags() || p.clusterID == "" {
		return err // without tags nobody can know whose a balancer is
	}
	// Balancers first: one that is made after the list of Services was read is not looked at.
	all, err := o.listBalancers(ctx, loadbalancers.ListOpts{Tags: []string{clusterPrefix + p.clusterID}})
	if err != nil {
		return err
	}
	services, err := p.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list of Services: %w", err)
	}
	needed := map[string]bool{}
	for _, svc := range services.Items {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer || helpers.HasLBFinalizer(&svc) {
			needed[balancerName(p.opts.ClusterName, &svc)] = true
		}
	}
	for _, b := range orphans(all, p.clusterID, needed) {
		if err := p.removeOrphan(ctx, o, b.ID, needed); err != nil {
			return fmt.Errorf("orphan %s: %w", b.ID, err)
		}
	}
	return nil
}

// orphans are those balancers of a cluster that none of the Services needs. A Service of another cluster that shares one
// is not known here, so that any tag that is not this cluster's keeps it.
func orphans(all []haveBalancer, clusterID string, needed map[string]bool) []haveBalancer {
	var none []haveBalancer
	for _, b := range all {
		users := sharers(b.Tags)
		if len(users) == 0 {
			users = []string{b.Name}
		}
		settled := b.Status == "ACTIVE" || b.Status == "ERROR"
		own := strings.HasPrefix(b.Name, namePrefix) && slices.Contains(b.Tags, clusterPrefix+clusterID)
		used := slices.ContainsFunc(users, func(t string) bool { return needed[t] || t != b.Name })
		if settled && own && !used {
			none = append(none, b)
		}
	}
	return none
}

func (p *provider) removeOrphan(ctx context.Context, o *openStack, id string, needed map[string]bool) error {
	unlock, err := p.locks.lock(ctx, "balancer "+id)
	if err != nil {
		return err
	}
	defer unlock()
	b, err := o.getBalancer(ctx, id)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(orphans([]haveBalancer{b}, p.clusterID, needed)) == 0 {
		return nil
	}
	p.log.Warn("load balancer without a Service is deleted", "id", b.ID, "name", b.Name)
	ps := &pass{provider: p, base: b.Name, os: o}
	if o.network != nil {
		fip, err := ps.floatingAt(ctx, b.PortID)
		if err != nil {
			return err
		}
		if fip != nil && strings.HasPrefix(fip.Description, floatingFor) && strings.HasSuffix(fip.Description, " from cluster "+p.opts.ClusterName) {
			if err := unlessGone(floatingips.Delete(ctx, o.network, fip.ID).ExtractErr()); err != nil {
				return err
			}
		}
	}
	return ps.deleteWhole(ctx, b)
}
