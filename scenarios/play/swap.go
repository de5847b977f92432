package play

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/load"
	"proxylab/scenarios"
)

// settle is how long after a swap what goes wrong still counts as its doing: until the last request that was sent
// during it has been answered or has timed out.
func (s *subject) settle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := 2 * time.Second
	for name, l := range s.loads {
		if !isDirect(name) {
			longest = max(longest, l.spec.Timeout)
		}
	}
	return longest + 500*time.Millisecond
}

// swap changes the proxier under traffic and says what that did to the connections that were open and to the new ones.
func (s *subject) swap(ctx context.Context, step scenarios.SwapStep) error {
	nodes := s.alive()
	if step.Node != "" {
		named, err := s.nodeNamed(step.Node)
		if err != nil {
			return err
		}
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *nodeProxier) bool { return n.node != named.Name })
		step.Node = named.Name
	}
	from, to := nodes[0].last, s.spec
	to.Name = step.Resolve(s.spec.Name, from.Name)
	if to.Name == from.Name {
		s.emit(note("swap to %s: it runs already, nothing was swapped", to.Name))
		return nil
	}
	// What is open now is what a tick says, and that is up to half a second old: one more brings it to date.
	if err := s.nextTicks(ctx); err != nil {
		return err
	}
	before := s.tallies()
	began := time.Now()
	var (
		mu    sync.Mutex
		ready time.Time
		left  []string
	)
	err := onAll(ctx, nodes, func(ctx context.Context, n *nodeProxier) error {
		at, leftovers, err := n.swapTo(ctx, to)
		mu.Lock()
		defer mu.Unlock()
		if at.After(ready) {
			ready = at
		}
		for _, l := range leftovers {
			left = append(left, n.node+": "+l)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.wait(ctx, s.settle()); err != nil {
		return err
	}
	if err := s.nextTicks(ctx); err != nil {
		return err
	}
	result := swapResult(before, s.tallies())
	result.From, result.To, result.Node = from.Name, to.Name, step.Node
	result.Seconds, result.Leftovers = ready.Sub(began).Seconds(), left
	s.emit(events.Event{Swap: &result})
	return nil
}

// swapResult compares the loads before and after. Of a load that holds connections no more broke than were open before: what
// failed besides are attempts to open them again.
func swapResult(before, after map[string]loadTally) events.Swap {
	r := events.Swap{BrokenByKind: map[string]int64{}, FailedByKind: map[string]int64{}}
	for name, b := range before {
		open := int64(0)
		if b.kind == load.Hold {
			open = int64(b.open)
			r.ConnectionsOpen += b.open
		}
		for _, kind := range slices.Sorted(maps.Keys(after[name].byKind)) { // timeout, which may be either, comes last
			n := after[name].byKind[kind] - b.byKind[kind]
			broken := min(n, open)
			if onlyWhenOpening[kind] {
				broken = 0
			}
			if broken > 0 {
				open -= broken
				r.ConnectionsBroken += int(broken)
				r.BrokenByKind[kind] += broken
			}
			if failed := n - broken; failed > 0 {
				r.RequestsFailed += failed
				r.FailedByKind[kind] += failed
			}
		}
	}
	return r
}

// onlyWhenOpening are errors that an open connection cannot have: they are of attempts to open it again.
var onlyWhenOpening = map[string]bool{"refused": true, "no-route": true, "unreachable": true}

// loadTally is a load's tally and its kind.
type loadTally struct {
	tally
	kind string
}

// tallies are those of the loads that go through the proxier.
func (s *subject) tallies() map[string]loadTally {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]loadTally{}
	for name, l := range s.loads {
		if !isDirect(name) {
			t, _ := l.tally()
			all[name] = loadTally{t, l.spec.Kind}
		}
	}
	return all
}

// nextTicks returns when every load has reported once more.
func (s *subject) nextTicks(ctx context.Context) error {
	s.mu.Lock()
	var waits []*runningLoad
	var ticks []<-chan struct{}
	for _, l := range s.loads {
		_, ticked := l.tally()
		waits, ticks = append(waits, l), append(ticks, ticked)
	}
	s.mu.Unlock()
	for i, l := range waits {
		select {
		case <-ticks[i]:
		case <-l.done: // it has ended: there is no later tick
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
