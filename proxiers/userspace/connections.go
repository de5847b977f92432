package userspace

import (
	"context"
	"net"
	"sync"
	"time"
)

// connections are all open connections and goroutines of a proxier, so that Close can end them.
type connections struct {
	ctx    context.Context // done: everything ends
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]struct{}
}

func newConnections() *connections {
	ctx, cancel := context.WithCancel(context.Background())
	return &connections{ctx: ctx, cancel: cancel, open: map[net.Conn]struct{}{}}
}

// add takes care of c; it closes it and returns false when everything is ending.
func (c *connections) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		_ = conn.Close()
		return false
	}
	c.open[conn] = struct{}{}
	return true
}

func (c *connections) remove(conn net.Conn) {
	_ = conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// sleep returns false when everything ended meanwhile.
func (c *connections) sleep(d time.Duration) bool {
	select {
	case <-c.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// close ends everything and waits for it. Servers must be stopped first.
func (c *connections) close() {
	c.mu.Lock()
	c.cancel()
	for conn := range c.open {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}
