package plane

import "sync"

// maxPumped bounds what waits for a reader under one key-less pump.
const maxPumped = 1000

// pump hands values to a reader in batches and never makes the writer wait: of values with the same key the latest
// counts; values without a key are all kept, the last thousand of them.
type pump[T any] struct {
	out chan []T

	key   func(T) string
	mu    sync.Mutex
	items []T
	index map[string]int // of items with a key
	wake  chan struct{}
	ended chan struct{}
}

func newPump[T any](key func(T) string) *pump[T] {
	p := &pump[T]{
		out: make(chan []T), key: key, index: map[string]int{},
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go p.run()
	return p
}

func (p *pump[T]) put(values ...T) {
	p.mu.Lock()
	for _, v := range values {
		k := p.key(v)
		if i, waits := p.index[k]; waits && k != "" {
			p.items[i] = v
			continue
		}
		if k != "" {
			p.index[k] = len(p.items)
		} else if len(p.items) == maxPumped {
			p.items = p.items[1:]
		}
		p.items = append(p.items, v)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pump[T]) run() {
	defer close(p.out)
	for {
		select {
		case <-p.wake:
		case <-p.ended:
			return
		}
		p.mu.Lock()
		batch := p.items
		p.items = nil
		clear(p.index)
		p.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		select {
		case p.out <- batch:
		case <-p.ended:
			return
		}
	}
}

func (p *pump[T]) close() { close(p.ended) }
