package lbaas

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// hub tells everybody who listens of events. It never blocks who tells.
type hub struct {
	mu      sync.Mutex
	readers map[*reader]bool
	closed  bool
}

// mostWaiting is how many events wait for a reader; those that come later are counted, and lost to it.
const mostWaiting = 50_000

// reader is somebody who listens.
type reader struct {
	hub     *hub
	waiting []Event
	dropped int
	wake    chan struct{} // has room for one
}

func newHub() *hub { return &hub{readers: map[*reader]bool{}} }

func (h *hub) tell(e Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		if len(r.waiting) >= mostWaiting {
			r.dropped++
			continue
		}
		r.waiting = append(r.waiting, e)
		r.poke()
	}
}

func (r *reader) poke() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

func (h *hub) subscribe() *reader {
	r := &reader{hub: h, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers[r] = true
	if h.closed {
		r.poke()
	}
	return r
}

func (r *reader) close() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.readers, r)
}

// take gives what waits; ended: there will be no more.
func (r *reader) take() (events []Event, ended bool) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	events, r.waiting = r.waiting, nil
	if r.dropped > 0 {
		events = append(events, Event{Time: time.Now(), Dropped: r.dropped})
		r.dropped = 0
	}
	return events, r.hub.closed
}

// close lets readers end after what they have been told.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.readers {
		r.poke()
	}
}

// write writes events as JSON lines until done or the hub is closed; after each batch it calls flush.
func (r *reader) write(w io.Writer, done <-chan struct{}, flush func()) error {
	out := json.NewEncoder(w)
	for {
		select {
		case <-r.wake:
		case <-done:
			return nil
		}
		events, ended := r.take()
		for _, e := range events {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		flush()
		if ended {
			return nil
		}
	}
}
