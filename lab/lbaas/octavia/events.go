package octavia

import (
	"fmt"
	"net"
	"strconv"
	"sync"
)

// eventQueue hands events on in the order in which they happened, one at a time, without anybody waiting for it.
type eventQueue struct {
	notify func(Event)
	mu     sync.Mutex
	more   *sync.Cond
	queue  []Event
	ended  bool
	done   chan struct{}
}

func newEventQueue(notify func(Event)) *eventQueue {
	q := &eventQueue{notify: notify, done: make(chan struct{})}
	q.more = sync.NewCond(&q.mu)
	if notify == nil {
		close(q.done)
	} else {
		go q.run()
	}
	return q
}

func (q *eventQueue) add(e Event) {
	if q == nil || q.notify == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.queue = append(q.queue, e)
		q.more.Signal()
	}
}

func (q *eventQueue) run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		for len(q.queue) == 0 && !q.ended {
			q.more.Wait()
		}
		batch := q.queue
		q.queue = nil
		q.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, e := range batch {
			q.notify(e)
		}
	}
}

// close hands on what is left.
func (q *eventQueue) close() {
	q.mu.Lock()
	q.ended = true
	q.more.Signal()
	q.mu.Unlock()
	<-q.done
}

func (s *Service) notify(e Event) { s.events.add(e) }

// changed tells of a state. It is called with the lock, so that the order is the true one.
func (s *Service) changed(o *object, field, from, to string) {
	s.notify(Event{Time: s.clock.Now(), State: &State{Kind: o.Kind, ID: o.ID, Name: o.name(), Balancer: o.Balancer,
		Parent: o.Parent, Address: o.address(), Field: field, From: from, To: to}})
}

// address is where it is found, for people: a VIP, "TCP:80" of a listener, "10.0.0.11:30080" of a member; "": nowhere.
func (o *object) address() string {
	switch o.Kind {
	case "loadbalancer":
		if len(o.VIPs) > 0 && o.VIPs[0].Address.IsValid() {
			return o.VIPs[0].Address.String()
		}
	case "listener":
		return fmt.Sprintf("%s:%d", o.text("protocol"), o.number("protocol_port"))
	case "member":
		return net.JoinHostPort(o.text("address"), strconv.Itoa(o.number("protocol_port")))
	}
	return ""
}
