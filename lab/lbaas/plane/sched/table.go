package sched

import (
	"container/list"
	"sync"
	"time"
)

// Table remembers where clients went: a stick table. What was used longest ago makes room. It is safe for concurrent use.
type Table[K comparable] struct {
	size   int
	expire time.Duration
	now    func() time.Time
	mu     sync.Mutex
	byKey  map[K]*list.Element
	used   *list.List // latest first
}

type entry[K comparable] struct {
	key  K
	id   string
	used time.Time
}

// NewTable makes a table of size entries at most; entries that are not used for expire are forgotten (0: never).
func NewTable[K comparable](size int, expire time.Duration, now func() time.Time) *Table[K] {
	return &Table[K]{size: size, expire: expire, now: now, byKey: map[K]*list.Element{}, used: list.New()}
}

// Get returns the server that the client went to, and counts as a use.
func (t *Table[K]) Get(key K) (id string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byKey[key]
	if e == nil {
		return "", false
	}
	v := e.Value.(*entry[K])
	now := t.now()
	if t.expired(v, now) {
		t.remove(e)
		return "", false
	}
	v.used = now
	t.used.MoveToFront(e)
	return v.id, true
}

// Put remembers the server; changed says that it is another one than before.
func (t *Table[K]) Put(key K, id string) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if e := t.byKey[key]; e != nil {
		v := e.Value.(*entry[K])
		changed = v.id != id || t.expired(v, now)
		v.id, v.used = id, now
		t.used.MoveToFront(e)
		return changed
	}
	for last := t.used.Back(); last != nil; last = t.used.Back() {
		if t.used.Len() < t.size && !t.expired(last.Value.(*entry[K]), now) {
			break
		}
		t.remove(last)
	}
	t.byKey[key] = t.used.PushFront(&entry[K]{key, id, now})
	return true
}

// Delete forgets a client.
func (t *Table[K]) Delete(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byKey[key]; e != nil {
		t.remove(e)
	}
}

// Len is the number of entries, expired ones that nobody asked for included.
func (t *Table[K]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used.Len()
}

// All lists what is remembered.
func (t *Table[K]) All() map[K]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[K]string, len(t.byKey))
	now := t.now()
	for k, e := range t.byKey {
		if v := e.Value.(*entry[K]); !t.expired(v, now) {
			all[k] = v.id
		}
	}
	return all
}

func (t *Table[K]) expired(v *entry[K], now time.Time) bool {
	return t.expire > 0 && now.Sub(v.used) >= t.expire
}

func (t *Table[K]) remove(e *list.Element) {
	delete(t.byKey, e.Value.(*entry[K]).key)
	t.used.Remove(e)
}
