package lbaas

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"proxylab/lab/lbaas/faults"
	"proxylab/lab/lbaas/plane"
)

// dataPlane lets instances carry what Octavia wants, and Octavia know what they have seen.
type dataPlane struct {
	s   *Server
	set *plane.Set

	mu   sync.Mutex // one apply at a time
	last []plane.Balancer
	vips []netip.Addr // all that were applied, floating ones too

	changed  chan struct{} // floating IPs may point elsewhere
	problems map[string]map[string]string
	done     chan struct{}
	work     sync.WaitGroup
}

func newDataPlane(s *Server) *dataPlane {
	return &dataPlane{
		s: s, changed: make(chan struct{}, 1), problems: map[string]map[string]string{}, done: make(chan struct{}),
		set: plane.NewSet(plane.Options{Names: s.o.Instances.Names, Start: s.o.Instances.Start, Fence: s.o.Instances.Fence, Log: s.log}),
	}
}

// start listens to the instances; Octavia is there by now.
func (d *dataPlane) start() {
	d.work.Go(func() {
		for seen := range d.set.Statuses() {
			d.s.octavia.Observe(seen)
			for _, status := range seen {
				d.tellProblems(status)
			}
		}
	})
	d.work.Go(func() {
		for list := range d.set.Events() {
			for _, f := range list {
				d.s.log.Warn("failover", "from", f.From, "to", f.To, "cause", f.Cause, "seconds", f.Seconds, "lost", f.FlowsLost, "kept", f.FlowsKept)
				d.s.hub.tell(Event{Failover: &f})
			}
		}
	})
	d.work.Go(d.follow)
}

// apply hands desired state to the instances, with the floating IPs of each VIP.
func (d *dataPlane) apply(ctx context.Context, list []plane.Balancer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = list
	return d.send(ctx)
}

func (d *dataPlane) send(ctx context.Context) error {
	list, vips := d.withFloating()
	d.vips = vips
	return d.set.Apply(ctx, list)
}

func (d *dataPlane) withFloating() (list []plane.Balancer, vips []netip.Addr) {
	list = slices.Clone(d.last)
	for i, b := range list {
		all := slices.Clone(b.VIPs)
		for _, vip := range b.VIPs {
			all = append(all, d.s.cloud.FloatingOf(vip)...)
		}
		list[i].VIPs = all
		vips = append(vips, all...)
	}
	return list, vips
}

// look says that floating IPs may point elsewhere. It does not block.
func (d *dataPlane) look() {
	select {
	case d.changed <- struct{}{}:
	default: // somebody looks soon
	}
}

// follow applies again when floating IPs point elsewhere.
func (d *dataPlane) follow() {
	for {
		select {
		case <-d.changed:
		case <-d.done:
			return
		}
		d.mu.Lock()
		if _, vips := d.withFloating(); !slices.Equal(vips, d.vips) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			if err := d.send(ctx); err != nil {
				d.s.log.Warn("floating IPs do not carry traffic", "error", err)
			}
			cancel()
		}
		d.mu.Unlock()
	}
}

// tellProblems tells of listeners that do not listen, once each.
func (d *dataPlane) tellProblems(status plane.Status) {
	before := d.problems[status.ID]
	if maps.Equal(before, status.Problems) {
		return
	}
	for listener, text := range status.Problems {
		if before[listener] != text {
			d.s.log.Warn("a listener carries no traffic", "loadbalancer", status.ID, "listener", listener, "problem", text)
			d.s.hub.tell(Event{Problem: &Problem{LoadBalancer: status.ID, Listener: listener, Text: text}})
		}
	}
	for listener := range before {
		if _, still := status.Problems[listener]; !still {
			d.s.hub.tell(Event{Problem: &Problem{LoadBalancer: status.ID, Listener: listener}})
		}
	}
	d.problems[status.ID] = status.Problems
	if len(status.Problems) == 0 {
		delete(d.problems, status.ID)
	}
}

// failover moves the VIPs to the other instance.
func (d *dataPlane) failover(context.Context, string) error { return d.set.Failover() }

func (d *dataPlane) kill(instance string) error {
	if instance == faults.Active {
		instance = ""
	}
	if err := d.set.Kill(instance); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	return nil
}

func (d *dataPlane) close() {
	close(d.done)
	d.set.Close()
	d.work.Wait()
}
