package play

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/load"
	"proxylab/lab"
	"proxylab/scenarios"
)

// runningLoad is a load process and what it has reported so far.
type runningLoad struct {
	*worker
	spec  load.Spec
	began chan struct{} // closed when it says that it has

	mu     sync.Mutex
	total  tally
	ticked chan struct{} // closed and replaced at every tick
}

// tally adds up ticks.
type tally struct {
	errors int64
	byKind map[string]int64
	open   int // connections held at the last tick
}

// load starts the load of a step, and beside it the same straight to a pod. It returns once they run.
func (s *subject) load(ctx context.Context, step scenarios.LoadStep) error {
	if step.Via == scenarios.ViaVIP {
		if err := s.publisher.await(ctx, []string{step.Service}, "address", lab.Patience(answerLimit)); err != nil {
			return err
		}
	}
	spec, at, err := s.loadSpec(step)
	if err != nil {
		return err
	}
	if err := s.probe(ctx, step, spec, at); err != nil {
		return err
	}
	if step.Direct && step.Kind != "hold" && step.From != "outside" {
		direct, err := s.directSpec(spec, step.Family)
		if err != nil {
			return err
		}
		if step.Kind == "stream" {
			// Both at once would share the machine's processors, and neither figure would be one.
			direct.Duration = 2 * time.Second
		}
		if err := s.startLoad(ctx, direct, at); err != nil {
			return err
		}
		if step.Kind == "stream" {
			if err := s.stopLoadsAfter(ctx, direct.Name); err != nil {
				return err
			}
		}
	}
	return s.startLoad(ctx, spec, at)
}

func (s *subject) startLoad(ctx context.Context, spec load.Spec, at lab.Place) error {
	l := &runningLoad{spec: spec, began: make(chan struct{}), ticked: make(chan struct{})}
	// The load ends when its input does, also when ctx has ended: what was under way is still to be counted.
	w, err := startWorker(context.WithoutCancel(ctx), s.Lab, at, "load", spec.Name, spec, func(e events.Event) {
		l.note(e)
		s.emit(e)
	})
	if err != nil {
		return err
	}
	l.worker = w
	s.mu.Lock()
	s.loads[spec.Name] = l
	s.mu.Unlock()
	// To start a process takes a second on a busy machine, and longer in a User Mode Linux kernel: the steps that follow
	// are to meet the load.
	select {
	case <-l.began:
	case <-l.done: // with an error, or with its duration
		if l.err != nil {
			return fmt.Errorf("load %s ended: %w", spec.Name, l.err)
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if spec.Kind == "hold" {
		return l.awaitOpen(ctx)
	}
	return nil
}

// note adds up what a load reports.
func (l *runningLoad) note(e events.Event) {
	if e.LoadStarted != nil {
		close(l.began) // it says so once
	}
	if e.LoadTick == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.errors += e.LoadTick.Errors
	l.total.open = e.LoadTick.Open
	if l.total.byKind == nil {
		l.total.byKind = map[string]int64{}
	}
	for kind, n := range e.LoadTick.ErrorsByKind {
		l.total.byKind[kind] += n
	}
	close(l.ticked)
	l.ticked = make(chan struct{})
}

func (l *runningLoad) tally() (tally, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.total
	t.byKind = maps.Clone(t.byKind)
	return t, l.ticked
}

// awaitOpen returns once all connections to hold are open, or could not be.
func (l *runningLoad) awaitOpen(ctx context.Context) error {
	limit := time.After(30 * time.Second)
	for {
		t, ticked := l.tally()
		if int64(t.open)+t.errors >= int64(l.spec.Count) {
			return nil
		}
		select {
		case <-ticked:
		case <-l.done:
			return fmt.Errorf("load %s ended: %w", l.spec.Name, l.err)
		case <-limit:
			return fmt.Errorf("load %s: %d of %d connections open after 30s", l.spec.Name, t.open, l.spec.Count)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stopLoads ends loads, with their direct twins, and returns when their last figures are in the log.
func (s *subject) stopLoads(ctx context.Context, names []string) error {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		errs  []error
	)
	for _, name := range names {
		for _, name := range []string{name, name + directSuffix} {
			s.mu.Lock()
			l := s.loads[name]
			delete(s.loads, name)
			s.mu.Unlock()
			if l == nil {
				continue
			}
			group.Go(func() {
				if err := l.stop(stopLimit(ctx, l.spec)); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// stopLimit is how long a load may take to end: its requests have their own timeout.
func stopLimit(ctx context.Context, spec load.Spec) time.Duration {
	limit := spec.Timeout + lab.Patience(3*time.Second)
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	return max(limit, 100*time.Millisecond)
}

// stopLoadsAfter waits for a load that has a duration to end by itself.
func (s *subject) stopLoadsAfter(ctx context.Context, name string) error {
	s.mu.Lock()
	l := s.loads[name]
	s.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
	}
	return s.stopLoads(ctx, []string{name})
}

// isDirect: the load goes around the proxier.
func isDirect(name string) bool { return strings.HasSuffix(name, directSuffix) }
