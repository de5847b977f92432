package octavia

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"proxylab/lab/lbaas/plane"
)

// pending is an operation that has not ended.
type pending struct {
	Operation
	fail   bool // it ends in ERROR
	queued bool // it is about to end
	stop   func()
	done   chan struct{}
}

func (p *pending) halt() {
	if p.stop != nil {
		p.stop()
	}
}

// resync is the name of what only tells the data plane what has changed behind the API's back; when it does not take it,
// it is told again after a while.
const (
	resync      = ""
	resyncAgain = time.Second
)

// resync tells the data plane of a balancer.
func (s *Service) resync(lb string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.queue(&pending{Operation: Operation{Name: resync, Balancer: lb}, done: make(chan struct{})})
	}
}

// begin lets an operation end after its delay. It needs the lock.
func (s *Service) begin(o Operation) {
	p := &pending{Operation: o, done: make(chan struct{})}
	if before := s.ops[o.Balancer]; before != nil {
		before.halt()
		close(before.done)
	}
	s.ops[o.Balancer] = p
	if s.opts.Manual || s.closed {
		return
	}
	if s.opts.Delay == nil && s.opts.Fault == nil {
		s.queue(p)
		return
	}
	wait := time.Duration(0)
	if s.opts.Delay != nil {
		wait = s.opts.Delay(o)
	}
	p.stop = s.clock.AfterFunc(wait, func() { s.expire(p) })
}

// queue hands an operation to the worker. It needs the lock.
func (s *Service) queue(p *pending) {
	p.queued = true
	s.due = append(s.due, p)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// expire asks the faults what becomes of an operation whose delay is over.
func (s *Service) expire(p *pending) {
	var o Outcome
	if s.opts.Fault != nil {
		o = s.opts.Fault.Provision(p.Operation)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waits(p) {
		return
	}
	p.fail = o.Error
	switch {
	case o.Forever: // until Settle
	case o.Hold > 0:
		p.stop = s.clock.AfterFunc(o.Hold, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.waits(p) {
				s.queue(p)
			}
		})
	default:
		s.queue(p)
	}
}

// waits says whether an operation is still the one that its balancer waits for.
func (s *Service) waits(p *pending) bool {
	return !s.closed && !p.queued && s.ops[p.Balancer] == p
}

// provision is the worker: it tells the data plane, one call at a time, and ends the operations.
func (s *Service) provision() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		batch := s.due
		s.due = nil
		s.mu.Unlock()
		if len(batch) > 0 {
			s.run(batch)
		}
	}
}

func (s *Service) run(batch []*pending) {
	s.mu.Lock()
	next, needed := s.desired(batch)
	list := s.inOrder(next)
	s.mu.Unlock()
	var err error
	if needed {
		err = s.apply(list)
	}
	moved := map[*pending]error{}
	for _, p := range batch {
		if p.Name == "loadbalancer.failover" && err == nil && !p.fail {
			moved[p] = s.move(p.Balancer)
		}
	}
	if err != nil && s.ctx.Err() != nil {
		return // the service ends: the operations stay pending, and go on when it is started again
	}
	if err != nil {
		s.opts.Log.Error("the data plane did not take the desired state", "error", err)
	}
	s.mu.Lock()
	var vips []VIP
	for _, p := range batch {
		ok := err == nil && moved[p] == nil && !p.fail
		s.adopt(p, next, ok)
		if p.Name == resync && !ok {
			s.clock.AfterFunc(resyncAgain, func() { s.resync(p.Balancer) })
		}
		if p.Name != resync && s.ops[p.Balancer] == p {
			delete(s.ops, p.Balancer)
			vips = append(vips, s.finish(p, ok)...)
		}
	}
	s.dirty()
	s.mu.Unlock()
	s.release(vips)
	for _, p := range batch {
		s.mu.Lock()
		select {
		case <-p.done: // something newer has taken its place
		default:
			close(p.done)
		}
		s.mu.Unlock()
	}
}

// desired gives what the data plane shall do once the batch has ended, and whether it has to be told.
func (s *Service) desired(batch []*pending) (map[string]plane.Balancer, bool) {
	next, needed := maps.Clone(s.applied), false
	for _, p := range batch {
		if p.fail || p.Name != resync && s.ops[p.Balancer] != p {
			continue
		}
		lb := s.db.get(kindBalancer, p.Balancer)
		switch {
		case lb == nil || lb.Prov == pendingDelete:
			delete(next, p.Balancer)
		case p.Name == resync && (s.ops[p.Balancer] != nil || !s.running(lb.ID)):
			continue // what it waits for will tell, or it has never run
		default:
			next[lb.ID] = s.spec(lb)
		}
		needed = true
	}
	return next, needed
}

// running says whether the data plane knows a balancer.
func (s *Service) running(lb string) bool {
	_, ok := s.applied[lb]
	return ok
}

// adopt notes what the data plane has been told of a balancer.
func (s *Service) adopt(p *pending, next map[string]plane.Balancer, ok bool) {
	if !ok {
		return
	}
	if b, there := next[p.Balancer]; there {
		s.applied[p.Balancer] = b
	} else {
		delete(s.applied, p.Balancer)
	}
	if s.running(p.Balancer) && s.db.get(kindBalancer, p.Balancer) == nil { // removed while it was on its way
		s.queue(&pending{Operation: Operation{Name: resync, Balancer: p.Balancer}, done: make(chan struct{})})
	}
	if p.Name == resync {
		s.derive(p.Balancer)
	}
}

func (s *Service) inOrder(all map[string]plane.Balancer) []plane.Balancer {
	out := slices.Collect(maps.Values(all))
	seq := func(id string) uint64 {
		if o := s.db.get(kindBalancer, id); o != nil {
			return o.Seq
		}
		return 0
	}
	slices.SortFunc(out, func(a, b plane.Balancer) int {
		if x, y := seq(a.ID), seq(b.ID); x < y {
			return -1
		} else if x > y {
			return 1
		}
		return 0
	})
	return out
}

func (s *Service) apply(list []plane.Balancer) error {
	if s.opts.Apply == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.opts.ApplyTimeout)
	defer cancel()
	return s.opts.Apply(ctx, list)
}

func (s *Service) move(lb string) error {
	if s.opts.Failover == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.opts.ApplyTimeout)
	defer cancel()
	err := s.opts.Failover(ctx, lb)
	if err != nil {
		s.opts.Log.Error("failover", "balancer", lb, "error", err)
	}
	return err
}

// finish gives a balancer and what is below it their states after an operation. It gives the VIPs that nobody has any more.
func (s *Service) finish(p *pending, ok bool) []VIP {
	lb := s.db.get(kindBalancer, p.Balancer)
	if lb == nil {
		return nil
	}
	if lb.Prov == pendingDelete && ok {
		s.drop(lb)
		return lb.VIPs
	}
	end := active
	if !ok {
		end = failed
	}
	recovered := ok && p.Name == "loadbalancer.failover"
	tree := s.db.tree(lb.ID)
	for _, o := range slices.Backward(tree) {
		o = s.db.get(o.Kind, o.ID)
		switch {
		case o == nil: // went with what is above it
		case o.Prov == pendingDelete && ok:
			s.drop(o)
		case isPending(o.Prov) || recovered && o.Prov == failed:
			e := s.db.edit(o)
			e.Ran = e.Ran || end == active
			s.setProv(e, end)
		}
	}
	s.derive(lb.ID)
	return nil
}

// drop takes an object and what is below it out.
func (s *Service) drop(o *object) {
	for _, one := range slices.Backward(s.db.tree(o.ID)) {
		s.db.remove(one)
		delete(s.seen, one.ID)
		delete(s.forced, one.ID)
		delete(s.problems, one.ID)
		delete(s.counters, one.ID)
		s.changed(one, "provisioning_status", one.Prov, deleted)
		if one.Kind == kindPool {
			s.unlink(one)
		}
	}
	if o.Kind == kindPolicy {
		s.place(o.Parent, "")
	}
	s.dirty()
}

// unlink empties what names a pool that has gone.
func (s *Service) unlink(pool *object) {
	for _, l := range s.db.below(pool.Balancer, kindListener) {
		if l.text("default_pool_id") == pool.ID {
			s.db.edit(l).Attrs["default_pool_id"] = nil
		}
		for _, p := range s.db.below(l.ID, kindPolicy) {
			if p.text("redirect_pool_id") == pool.ID {
				s.db.edit(p).Attrs["redirect_pool_id"] = nil
			}
		}
	}
}

// Settle ends the pending operations of a balancer ("": of all) as ACTIVE or, with fail, as ERROR: by hand, or because a
// fault holds them. It returns after the data plane has heard of it. An error says that nothing is pending.
func (s *Service) Settle(balancer string, fail bool) error {
	s.mu.Lock()
	var wait []*pending
	for id, p := range s.ops {
		if balancer != "" && id != balancer {
			continue
		}
		wait = append(wait, p)
		if !p.queued {
			p.halt()
			p.fail = fail
			s.queue(p)
		}
	}
	s.mu.Unlock()
	if len(wait) == 0 && balancer != "" {
		return errors.New("octavia: balancer " + balancer + " waits for nothing")
	}
	for _, p := range wait {
		select {
		case <-p.done:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}

// resume goes on where a stored state was left.
func (s *Service) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := slices.Collect(maps.Values(s.ops))
	for _, p := range again {
		delete(s.ops, p.Balancer)
		s.begin(p.Operation)
	}
	if len(s.applied) > 0 {
		s.queue(&pending{done: make(chan struct{})})
	}
}
