package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
)

// remove takes away all that a Service has of balancers. The caller holds the Service's lock.
func (p *pass) remove(ctx context.Context) error {
	f, err := p.find(ctx)
	var several ambiguous
	switch {
	case errors.Is(err, errGone): // the user's own choice went before the Service
	case errors.As(err, &several):
		// Those that carry this cluster's tag are certainly ours.
		for _, b := range several.all {
			if p.clusterID == "" || !slices.Contains(b.Tags, clusterPrefix+p.clusterID) {
				return err
			}
		}
		for _, b := range several.all {
			if err := p.removeFrom(ctx, b); err != nil {
				return p.explain(err)
			}
		}
	case err != nil:
		return err
	}
	if f.Alive != nil {
		if err := p.removeFrom(ctx, *f.Alive); err != nil {
			return p.explain(err)
		}
	}
	for _, b := range f.Dying {
		if err := p.os.waitGone(ctx, p.conf.Wait, b.ID); err != nil {
			return p.explain(err)
		}
	}
	return errors.Join(p.releaseLost(ctx), p.unannotate(ctx))
}

// removeFrom deletes a balancer, or of one that others use this Service's part.
func (p *pass) removeFrom(ctx context.Context, b haveBalancer) error {
	unlock, err := p.locks.lock(ctx, "balancer "+b.ID)
	if err != nil {
		return err
	}
	defer unlock()
	b, err = p.os.waitMutable(ctx, p.conf.Wait, b.ID)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil || !p.mine(b) {
		return err
	}
	if !outside(b, p.clusterID) && len(p.others(b)) == 0 {
		if err := p.releaseFloating(ctx, b); err != nil {
			return err
		}
		return p.deleteWhole(ctx, b)
	}
	if b.Status == "ERROR" {
		return fmt.Errorf("load balancer %s: %w, and others use it: this Service's part cannot be taken away", b.ID, errFailed)
	}
	return p.leave(ctx, b, []string{p.base})
}

// leave takes this Service's listeners and pools off a balancer, and tags last.
func (p *pass) leave(ctx context.Context, b haveBalancer, drop []string) error {
	for range rounds {
		h, err := p.os.read(ctx, b, p.base)
		if err != nil {
			return err
		}
		steps, err := diff(want{Balancer: wantBalancer{Name: p.base}}, h)
		if err != nil {
			return err
		}
		steps = slices.DeleteFunc(steps, func(s step) bool { return s.Kind == updateBalancer })
		if tags := slices.DeleteFunc(slices.Clone(b.Tags), func(t string) bool { return slices.Contains(drop, t) }); len(tags) < len(b.Tags) {
			steps = append(steps, step{Kind: updateBalancer, ID: b.ID, Name: b.Name, Patch: patch{"tags": tags}})
		}
		err = p.take(ctx, b, steps)
		if err == nil || !worthAnotherLook(err) || ctx.Err() != nil {
			return err
		}
		if b, err = p.os.waitMutable(ctx, p.conf.Wait, b.ID); err != nil {
			return err
		}
	}
	return fmt.Errorf("load balancer %s: somebody else keeps changing it", b.ID)
}

// deleteWhole deletes a balancer and waits until it is gone. It is deletable once it is ACTIVE or in ERROR.
func (p *pass) deleteWhole(ctx context.Context, b haveBalancer) error {
	var last error
	for range lives {
		if b.Status == "PENDING_DELETE" {
			return p.os.waitGone(ctx, p.conf.Wait, b.ID)
		}
		if p.conf.NoCascade && b.Status == "ACTIVE" {
			if err := p.leave(ctx, b, nil); err != nil {
				return err
			}
		}
		last = loadbalancers.Delete(ctx, p.os.lb, b.ID, loadbalancers.DeleteOpts{Cascade: !p.conf.NoCascade}).ExtractErr()
		if last == nil || isGone(last) {
			return p.os.waitGone(ctx, p.conf.Wait, b.ID)
		}
		if !isConflict(last) && (!isUnclear(last) || ctx.Err() != nil) {
			break
		}
		var err error
		if b, err = p.os.waitMutable(ctx, p.conf.Wait, b.ID); isGone(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return fmt.Errorf("delete load balancer %s: %w", b.ID, readable(last))
}
