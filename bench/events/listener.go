package events

import (
	"context"
	"sync"
)

// maxBacklog is how many events wait for a slow listener before the frequent kinds are dropped.
const maxBacklog = 4096

// Listener hands events to one function that watches a run live.
type Listener struct {
	handle func(Event)
	leave  func()        // takes it off the writer's list; nil if it is on none
	done   chan struct{} // closed when handle will not be called any more

	mu       sync.Mutex
	wake     *sync.Cond
	queue    []Event
	finished bool
	dropped  int64
}

func newListener(handle func(Event)) *Listener {
	l := &Listener{handle: handle, done: make(chan struct{})}
	l.wake = sync.NewCond(&l.mu)
	return l
}

// enqueue never blocks. When the listener is far behind, measurements are dropped for it; what frames them (run,
// subject and step events, swaps, notes) never is: there are few, and a view would be wrong without them.
func (l *Listener) enqueue(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished {
		return
	}
	frequent := e.LoadTick != nil || e.Usage != nil || e.Softirq != nil || e.Sync != nil || e.Programming != nil ||
		e.LBCall != nil || e.PartUsage != nil
	if frequent && len(l.queue) >= maxBacklog {
		l.dropped++
		return
	}
	l.queue = append(l.queue, e)
	l.wake.Signal()
}

func (l *Listener) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = true
	l.wake.Signal()
}

func (l *Listener) run() {
	defer close(l.done)
	for {
		batch := l.next()
		if batch == nil {
			return
		}
		for _, e := range batch {
			l.handle(e)
		}
	}
}

// next waits for events; nil means that there will be none.
func (l *Listener) next() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.finished {
		l.wake.Wait()
	}
	batch := l.queue
	l.queue = nil
	return batch
}

// Close takes no more events, and waits until those that came before have been handled, or until ctx is done: then
// it returns the context's error, and the function may still be at work.
func (l *Listener) Close(ctx context.Context) error {
	if l.leave != nil {
		l.leave()
	}
	l.finish()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Dropped is how many events this listener did not get because it was too slow. The log has them.
func (l *Listener) Dropped() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}
