package dialer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// batch makes r.Count attempts, r.Parallel at a time, or fewer where it has met enough.
func batch(ctx context.Context, r Request) Tally {
	var (
		next  atomic.Int64
		mu    sync.Mutex
		tally Tally
		wg    sync.WaitGroup
		syns  = synsResent()
	)
	for range min(r.Parallel, r.Count) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(r.Count) && ctx.Err() == nil; i = next.Add(1) - 1 {
				m := once(ctx, r, r.port(int(i)))
				mu.Lock()
				tally.add(m)
				if r.enough(tally) {
					next.Store(int64(r.Count))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if (r.Network == TCP || r.Network == HTTP) && tally.Failures[Refused] == tally.Total() {
		tally.Resent = synsResent() - syns // the sockets that could tell are gone
	}
	return tally
}

// enough says that all have answered that are to, and often enough for somebody who is not to answer to have shown.
func (r Request) enough(t Tally) bool {
	if len(r.Names) == 0 || t.Total() < r.Least {
		return false
	}
	for _, name := range r.Names {
		if t.Pods[name] == 0 {
			return false
		}
	}
	return true
}

// port is the source port of attempt i; 0: any.
func (r Request) port(i int) uint16 {
	if r.FromPort == 0 {
		return 0
	}
	return r.FromPort + uint16(i%(int(r.LastPort)-int(r.FromPort)+1))
}

// until dials until the pod asked for answers. What it tells is the last attempt that was not cut short, if any.
func (s *server) until(r Request) (a Answer, err error) {
	deadline := time.Now().Add(r.Within)
	ctx, cancel := context.WithDeadline(s.ctx, deadline)
	defer cancel()
	for i := 0; ; i++ {
		m := once(ctx, r, r.port(i))
		over := !time.Now().Before(deadline) // the context may learn of it later
		if !over || a.Total() == 0 || m.err == nil {
			a = Answer{}
			a.add(m)
		}
		if m.err == nil && m.pod == r.Name || over {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return a, nil
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// namedFlow is a flow that is used by one request at a time.
type namedFlow struct {
	mu   sync.Mutex
	flow *flow
}

func (f *namedFlow) close(abort bool) Tally {
	f.flow.close(abort) // also under whoever is reading from it
	return Tally{}
}

func (s *server) openFlow(r Request) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, r.Timeout)
	defer cancel()
	began := time.Now()
	f, err := open(ctx, r, r.FromPort)
	if lacking(err) {
		return a, err
	}
	if err != nil {
		a.add(met{err: err, took: time.Since(began)})
		return a, nil
	}
	if err := s.keep(r.Flow, &namedFlow{flow: f}); err != nil {
		f.close(true)
		return a, err
	}
	if r.Network != UDP {
		a.add(met{pod: f.pod, client: f.client, took: time.Since(began)})
	}
	return a, nil
}

func (s *server) say(r Request) (a Answer, err error) {
	s.mu.Lock()
	f, ok := s.open[r.Flow].(*namedFlow)
	s.mu.Unlock()
	if !ok {
		return a, fmt.Errorf("no flow is called %q", r.Flow)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a.add(f.flow.say(r.Timeout))
	return a, nil
}

// stream is a row of attempts at even intervals.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{}
	tally  Tally
}

func (t *stream) close(bool) Tally {
	t.cancel()
	<-t.done
	return t.tally
}

// steady begins a stream. An attempt that takes long does not hold up the next.
func (s *server) steady(r Request) error {
	if r.Every <= 0 {
		return errors.New("needs an interval")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	t := &stream{cancel: cancel, done: make(chan struct{})}
	if err := s.keep(r.Flow, t); err != nil {
		cancel()
		return err
	}
	s.running.Go(func() {
		defer close(t.done)
		var (
			mu sync.Mutex
			wg sync.WaitGroup
		)
		tick := time.NewTicker(r.Every)
		defer tick.Stop()
		for i := 0; i == 0 || ctx.Err() == nil; i++ { // one attempt at least, however soon it is closed
			wg.Go(func() {
				m := once(s.ctx, r, r.port(i)) // one that has begun is not cut short
				mu.Lock()
				defer mu.Unlock()
				t.tally.add(m)
			})
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		wg.Wait()
	})
	return nil
}

// scan tells the ports of an address that accept connections. Those that answer nothing in time do not.
func scan(ctx context.Context, r Request) []uint16 {
	var (
		mu   sync.Mutex
		open []uint16
		wg   sync.WaitGroup
	)
	ports := make(chan uint16)
	for range max(r.Parallel, 64) {
		wg.Go(func() {
			for port := range ports {
				dial, cancel := context.WithTimeout(ctx, r.Timeout)
				one := Request{Network: TCP, To: netip.AddrPortFrom(r.To.Addr(), port), From: r.From}
				if conn, err := connect(dial, one, 0); err == nil {
					(&flow{conn: conn}).close(true)
					mu.Lock()
					open = append(open, port)
					mu.Unlock()
				}
				cancel()
			}
		})
	}
	for p := int(r.FromPort); p <= int(r.LastPort) && ctx.Err() == nil; p++ {
		ports <- uint16(p)
	}
	close(ports)
	wg.Wait()
	slices.Sort(open)
	return open
}
