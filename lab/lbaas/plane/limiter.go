package plane

import "sync"

// limiter counts the connections of a listener, and makes those above its limit wait.
type limiter struct {
	mu     sync.Mutex
	limit  int // 0 or below: none
	active int
	closed bool
	room   sync.Cond
}

func newLimiter() *limiter {
	l := &limiter{}
	l.room.L = &l.mu
	return l
}

// acquire waits for room. It says false once the limiter is closed.
func (l *limiter) acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.limit > 0 && l.active >= l.limit && !l.closed {
		l.room.Wait()
	}
	if l.closed {
		return false
	}
	l.active++
	return true
}

func (l *limiter) release() {
	l.mu.Lock()
	l.active--
	l.mu.Unlock()
	l.room.Signal()
}

func (l *limiter) setLimit(n int) {
	l.mu.Lock()
	l.limit = n
	l.mu.Unlock()
	l.room.Broadcast()
}

// setClosed ends all waiting; opened again, the limiter counts on.
func (l *limiter) setClosed(closed bool) {
	l.mu.Lock()
	l.closed = closed
	l.mu.Unlock()
	l.room.Broadcast()
}

func (l *limiter) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.active)
}
