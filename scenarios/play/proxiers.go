package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxylab/bench/events"
	"proxylab/bench/usage"
	"proxylab/lab"
	"proxylab/proxiers"
	"proxylab/proxiers/runner"
)

const (
	usageInterval = 500 * time.Millisecond
	startLimit    = 3 * time.Minute // a first sync of many Services may take long
)

// nodeProxier runs the proxiers of one subject on one node, one after the other, and measures them.
type nodeProxier struct {
	lab  lab.Lab
	node string
	emit func(events.Event)
	// synced gets each sync, with the proxier's name and its rule back end.
	synced func(proxier, backend string, sync events.Event)

	name   atomic.Pointer[string] // of the proxier that was started last; for the reader of reports
	last   lab.ProxierSpec        // the proxier that was started last; its rules are in the node
	runs   bool                   // and it still runs
	dead   bool                   // its node was killed
	effect string                 // the one that runs by its own word: another where a fallback was taken
	since  time.Time              // when the subject's first proxier was started: older reports are another's
	state  *lab.ProxierState      // of the one that was started last
	follow *follower
	watch  *watch
}

// watch is the measuring of one proxier process.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// start runs a proxier and returns once its first complete sync is in the kernel.
func (n *nodeProxier) start(ctx context.Context, spec lab.ProxierSpec) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience(startLimit))
	defer cancel()
	if n.since.IsZero() {
		n.since = time.Now()
	}
	n.last, n.runs = spec, true
	n.name.Store(&spec.Name)
	if err := n.lab.StartProxier(ctx, n.node, spec); err != nil {
		return fmt.Errorf("start %s on %s: %w", spec.Name, n.node, err)
	}
	state, err := n.lab.Proxier(ctx, n.node)
	if err != nil {
		return fmt.Errorf("proxier of %s: %w", n.node, err)
	}
	if state == nil {
		return fmt.Errorf("%s on %s ended right after its start", spec.Name, n.node)
	}
	n.state = state
	n.observe()
	return nil
}

// adopt takes over the proxier that runs on the node already. It is measured from observe on.
func (n *nodeProxier) adopt(ctx context.Context) (lab.ProxierSpec, error) {
	state, err := n.lab.Proxier(ctx, n.node)
	if err != nil {
		return lab.ProxierSpec{}, fmt.Errorf("proxier of %s: %w", n.node, err)
	}
	if state == nil {
		return lab.ProxierSpec{}, fmt.Errorf("no proxier runs on %s: start one with proxylab swap", n.node)
	}
	n.since, n.state, n.last, n.runs = time.Now(), state, state.ProxierSpec, true
	n.name.Store(&n.last.Name)
	return n.last, nil
}

// leave ends the measuring of a proxier that runs on.
func (n *nodeProxier) leave() {
	if n.watch != nil {
		n.watch.cancel()
		<-n.watch.done
		n.watch = nil
	}
	n.unfollow()
}

// unfollow ends the reading of reports: none is emitted afterwards.
func (n *nodeProxier) unfollow() {
	if n.follow != nil {
		n.follow.close()
		n.follow = nil
	}
}

// observe begins to measure the proxier that runs.
func (n *nodeProxier) observe() {
	state, spec := n.state, n.last
	if is := InEffect(state.Reports); is != "" && is != spec.Name {
		n.effect = is
		n.emit(note("%s: %s was asked for, %s runs in its place; its log says why", n.node, spec.Name, is))
	} else {
		n.effect = spec.Name
	}
	if n.follow == nil {
		n.follow = followFile(state.Reports, n.report)
	}
	n.watch = n.measure(state.PID, spec.Name)
}

// stop ends the proxier; its rules stay. The last of what it reported has been emitted when stop returns.
func (n *nodeProxier) stop(ctx context.Context) error {
	if n.watch != nil {
		n.watch.cancel()
		<-n.watch.done
		n.watch = nil
	}
	if !n.runs {
		return nil
	}
	if err := n.lab.StopProxier(ctx, n.node); err != nil {
		return fmt.Errorf("stop %s on %s: %w", n.last.Name, n.node, err)
	}
	n.runs = false
	return nil
}

// close stops the proxier and removes its rules. It returns what is still there.
func (n *nodeProxier) close(ctx context.Context) ([]string, error) {
	stopErr := n.stop(ctx)
	n.unfollow()
	if n.last.Name == "" {
		return nil, stopErr
	}
	left, err := n.lab.CleanupProxier(ctx, n.node, n.last)
	return left, errors.Join(stopErr, err)
}

// measure emits what the proxier's processes cost, until cancelled, and once more then.
func (n *nodeProxier) measure(pid int, proxier string) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		err := usage.Watch(ctx, pid, usageInterval, func(s usage.Sample) {
			n.emit(events.Event{Usage: &events.Usage{
				Node: n.node, PID: pid, Proxier: proxier,
				CPUSeconds: s.CPUSeconds, RSSBytes: s.RSSBytes, MaxRSSBytes: s.MaxRSSBytes,
			}})
		})
		if err != nil && ctx.Err() == nil {
			n.emit(note("%s on %s (pid %d) could not be measured to the end: %v", proxier, n.node, pid, err))
		}
	}()
	return w
}

// report turns a line that the proxier wrote after a sync into an event.
func (n *nodeProxier) report(line []byte) {
	var r runner.Report
	if err := json.Unmarshal(line, &r); err != nil {
		n.emit(note("%s wrote a report that is none: %q", n.node, line))
		return
	}
	if r.Time.Before(n.since) {
		return
	}
	cpu := r.CPUSeconds
	name := *n.name.Load()
	n.synced(name, r.Backend, events.Event{Time: r.Time, Sync: &events.Sync{
		Node: n.node, Proxier: name, Full: r.Full, Seconds: r.Seconds, CPUSeconds: &cpu, Error: r.Error, Objects: r.Objects,
	}})
}

func note(format string, args ...any) events.Event {
	return events.Event{Note: &events.Note{Text: fmt.Sprintf(format, args...)}}
}

// onAll does the same on several nodes at once.
func onAll(ctx context.Context, nodes []*nodeProxier, f func(context.Context, *nodeProxier) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		group.Go(func() error { return f(ctx, n) })
	}
	return group.Wait()
}

// swapTo replaces the proxier of a node, and says when the new one's first sync was in the kernel.
func (n *nodeProxier) swapTo(ctx context.Context, to lab.ProxierSpec) (ready time.Time, leftovers []string, err error) {
	old := n.last
	if err := n.stop(ctx); err != nil {
		return ready, nil, err
	}
	if err := n.start(ctx, to); err != nil {
		return ready, nil, err
	}
	ready = time.Now()
	leftovers, err = LeaveMode(ctx, n.lab, n.node, old, n.effect)
	return ready, leftovers, err
}

// LeaveMode removes what a proxier left in a node after another has taken over: now is the one that runs, by its own word;
// empty: none does. What both modes have under the same names the new one has taken over, and stays.
func LeaveMode(ctx context.Context, l lab.Lab, node string, old lab.ProxierSpec, now string) (leftovers []string, err error) {
	old.TakenOverBy = now
	if sameRules(old.Name, now) && (old.Fallback == "" || sameRules(old.Fallback, now)) {
		return nil, nil
	}
	return l.CleanupProxier(ctx, node, old)
}

func sameRules(a, b string) bool {
	x, errX := proxiers.Lookup(a)
	y, errY := proxiers.Lookup(b)
	return errX == nil && errY == nil && x.Rules() == y.Rules()
}
