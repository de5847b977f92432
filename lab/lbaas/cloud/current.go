package cloud

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"golang.org/x/sync/errgroup"
)

// readers is how many answers are awaited at a time while a balancer is read.
const readers = 4

// getBalancer reads one. It fails with errGone if there is none, or only a dead one.
func (o *openStack) getBalancer(ctx context.Context, id string) (haveBalancer, error) {
	var got struct {
		Balancer haveBalancer `json:"loadbalancer"`
	}
	err := loadbalancers.Get(ctx, o.lb, id).ExtractInto(&got)
	if isGone(err) || (err == nil && got.Balancer.Status == "DELETED") {
		return haveBalancer{}, fmt.Errorf("load balancer %s: %w", id, errGone)
	}
	if err != nil {
		return haveBalancer{}, fmt.Errorf("load balancer %s: %w", id, readable(err))
	}
	return got.Balancer, nil
}

// listBalancers reads those that a query finds, on all pages.
func (o *openStack) listBalancers(ctx context.Context, query loadbalancers.ListOpts) ([]haveBalancer, error) {
	all, err := everyPage[haveBalancer](ctx, loadbalancers.List(o.lb, query), "loadbalancers")
	if err != nil {
		return nil, fmt.Errorf("load balancers: %w", readable(err))
	}
	return all, nil
}

// read takes in what there is below a balancer; members and monitors only of pools that concern the Service with a base
// name.
func (o *openStack) read(ctx context.Context, b haveBalancer, base string) (have, error) {
	h := have{Balancer: b}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.readListeners(gctx, &h) })
	g.Go(func() error { return o.readPools(gctx, &h) })
	if err := g.Wait(); err != nil {
		return h, err
	}
	concerns := map[string]bool{}
	for _, l := range h.Listeners {
		if ownListener(l, base) {
			concerns[l.DefaultPoolID] = true
		}
	}
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i := range h.Pools {
		p := &h.Pools[i]
		if !concerns[p.ID] {
			continue
		}
		if len(p.Members) > 0 {
			g.Go(func() error { return o.readMembers(gctx, p) })
		}
		if p.MonitorID != "" {
			g.Go(func() error { return o.readMonitor(gctx, p) })
		}
	}
	return h, g.Wait()
}

func (o *openStack) readListeners(ctx context.Context, h *have) (err error) {
	h.Listeners, err = everyPage[haveListener](ctx, listeners.List(o.lb, listeners.ListOpts{LoadbalancerID: h.Balancer.ID}), "listeners")
	if err != nil {
		return fmt.Errorf("listeners of load balancer %s: %w", h.Balancer.ID, readable(err))
	}
	return nil
}

func (o *openStack) readPools(ctx context.Context, h *have) (err error) {
	h.Pools, err = everyPage[havePool](ctx, pools.List(o.lb, pools.ListOpts{LoadbalancerID: h.Balancer.ID}), "pools")
	if err != nil {
		return fmt.Errorf("pools of load balancer %s: %w", h.Balancer.ID, readable(err))
	}
	return nil
}

func (o *openStack) readMembers(ctx context.Context, p *havePool) (err error) {
	p.Members, err = everyPage[haveMember](ctx, pools.ListMembers(o.lb, p.ID, nil), "members")
	if err != nil {
		return fmt.Errorf("members of pool %s: %w", p.ID, readable(err))
	}
	return nil
}

// everyPage reads a list to its end; its answers call it by that name.
func everyPage[T any](ctx context.Context, list pagination.Pager, name string) (all []T, err error) {
	err = list.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		var answer map[string]json.RawMessage
		if err := page.(interface{ ExtractInto(to any) error }).ExtractInto(&answer); err != nil {
			return false, err
		}
		var some []T
		if raw, ok := answer[name]; ok {
			if err := json.Unmarshal(raw, &some); err != nil {
				return false, err
			}
		}
		all = append(all, some...)
		return true, nil
	})
	return all, err
}

func (o *openStack) readMonitor(ctx context.Context, p *havePool) error {
	var got struct {
		Monitor haveMonitor `json:"healthmonitor"`
	}
	err := monitors.Get(ctx, o.lb, p.MonitorID).ExtractInto(&got)
	if isGone(err) {
		return nil // deleted since: as if it had never been
	}
	if err != nil {
		return fmt.Errorf("health monitor %s: %w", p.MonitorID, readable(err))
	}
	p.Monitor = &got.Monitor
	return nil
}
