package cloud

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
)

// writer makes steps on one balancer, which is ACTIVE before each write.
type writer struct {
	*openStack
	cache    *featureCache
	features features
	wait     Wait
	balancer string // ID
	writes   int    // made so far
}

func (w *writer) do(ctx context.Context, s step) error {
	switch s.Kind {
	case createListener:
		return w.createListener(ctx, *s.Listener)
	case updateListener:
		return w.write(ctx, func() error {
			return listeners.Update(ctx, w.lb, s.ID, body{"listener", s.Patch}).Err
		})
	case deleteListener:
		return w.write(ctx, func() error { return unlessGone(listeners.Delete(ctx, w.lb, s.ID).ExtractErr()) })
	case createPool:
		_, err := w.createPool(ctx, *s.Pool, wantPool{Listener: s.ID})
		return err
	case replacePool:
		return w.replacePool(ctx, s.ID, *s.Pool)
	case updatePool:
		return w.write(ctx, func() error { return pools.Update(ctx, w.lb, s.ID, body{"pool", s.Patch}).Err })
	case deletePool:
		return w.write(ctx, func() error { return unlessGone(pools.Delete(ctx, w.lb, s.ID).ExtractErr()) })
	case setMembers:
		return w.setMembers(ctx, s.ID, *s.Members)
	case createMonitor:
		return w.createMonitor(ctx, s.ID, *s.Monitor)
	case updateMonitor:
		return w.write(ctx, func() error {
			return monitors.Update(ctx, w.lb, s.ID, body{"healthmonitor", s.Patch}).Err
		})
	case deleteMonitor:
		return w.write(ctx, func() error { return unlessGone(monitors.Delete(ctx, w.lb, s.ID).ExtractErr()) })
	case updateBalancer:
		return w.write(ctx, func() error {
			return loadbalancers.Update(ctx, w.lb, s.ID, body{"loadbalancer", s.Patch}).Err
		})
	default:
		return fmt.Errorf("unknown step %q", s.Kind)
	}
}

// write makes one request and waits until the balancer takes the next.
func (w *writer) write(ctx context.Context, request func() error) error {
	w.writes++
	if err := request(); err != nil {
		return readable(err)
	}
	_, err := w.waitActive(ctx, w.wait, w.balancer)
	return err
}

func unlessGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// created is the answer to a request that makes something.
type created struct {
	Listener struct{ ID string }
	Pool     struct{ ID string }
}

func (w *writer) createListener(ctx context.Context, l wantListener) error {
	pool := *l.Pool
	l.Pool, l.Balancer = nil, w.balancer
	var got created
	err := w.write(ctx, func() error {
		return listeners.Create(ctx, w.lb, body{"listener", l}).ExtractInto(&got)
	})
	if isUnsupported(err) && l.Protocol == "UDP" {
		w.cache.lack(func(f *features) { f.NoUDP = true })
	}
	if err != nil {
		return err
	}
	_, err = w.createPool(ctx, pool, wantPool{Listener: got.Listener.ID})
	return err
}

// createPool makes a pool at a parent, with its members and its monitor.
func (w *writer) createPool(ctx context.Context, p, parent wantPool) (id string, err error) {
	members, monitor := p.Members, p.Monitor
	p.Members, p.Monitor, p.Listener, p.Balancer = nil, nil, parent.Listener, parent.Balancer
	var got created
	err = w.write(ctx, func() error {
		return pools.Create(ctx, w.lb, body{"pool", p}).ExtractInto(&got)
	})
	if err != nil {
		return "", err
	}
	if change := diffMembers(members, nil); change != nil {
		if err := w.setMembers(ctx, got.Pool.ID, *change); err != nil {
			return got.Pool.ID, err
		}
	}
	if monitor != nil {
		return got.Pool.ID, w.createMonitor(ctx, got.Pool.ID, *monitor)
	}
	return got.Pool.ID, nil
}

// replacePool makes the new pool whole before the listener changes over: a pool's protocol cannot be changed.
func (w *writer) replacePool(ctx context.Context, listener string, p wantPool) error {
	id, err := w.createPool(ctx, p, wantPool{Balancer: w.balancer})
	if err != nil {
		return err
	}
	return w.write(ctx, func() error {
		return listeners.Update(ctx, w.lb, listener, body{"listener", patch{"default_pool_id": id}}).Err
	})
}

func (w *writer) createMonitor(ctx context.Context, pool string, m wantMonitor) error {
	m.Pool = pool
	err := w.write(ctx, func() error { return monitors.Create(ctx, w.lb, body{"healthmonitor", m}).Err })
	if isUnsupported(err) {
		w.cache.lack(func(f *features) { f.NoMonitors = true })
	}
	return err
}

// setMembers is one write, where the provider has batches.
func (w *writer) setMembers(ctx context.Context, pool string, c memberChange) error {
	if !w.features.NoBatch {
		err := w.write(ctx, func() error { return pools.BatchUpdateMembers(ctx, w.lb, pool, c.All).Err })
		if !isUnsupported(err) {
			return err
		}
		w.features.NoBatch = true
		w.cache.lack(func(f *features) { f.NoBatch = true })
	}
	for _, m := range c.Create {
		if err := w.write(ctx, func() error { return pools.CreateMember(ctx, w.lb, pool, body{"member", m}).Err }); err != nil {
			return err
		}
	}
	for _, u := range c.Update {
		err := w.write(ctx, func() error { return pools.UpdateMember(ctx, w.lb, pool, u.ID, body{"member", u.Patch}).Err })
		if err != nil {
			return err
		}
	}
	for _, id := range c.Delete {
		err := w.write(ctx, func() error { return unlessGone(pools.DeleteMember(ctx, w.lb, pool, id).ExtractErr()) })
		if err != nil {
			return err
		}
	}
	return nil
}
