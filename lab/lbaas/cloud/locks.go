package cloud

import (
	"context"
	"sync"
)

// keyedLocks has a lock for each key. Services are locked before balancers, which can be shared, so nobody waits for ever.
type keyedLocks struct {
	mu   sync.Mutex
	held map[string]*keyedLock
}

type keyedLock struct {
	token chan struct{} // full while nobody has the lock
	users int
}

// lock waits for a key. The error is the context's.
func (k *keyedLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[string]*keyedLock{}
	}
	l := k.held[key]
	if l == nil {
		l = &keyedLock{token: make(chan struct{}, 1)}
		l.token <- struct{}{}
		k.held[key] = l
	}
	l.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.held, key)
		}
	}
	select {
	case <-l.token:
		return func() { l.token <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
