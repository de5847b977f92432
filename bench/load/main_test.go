package load

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/goleak"

	"proxylab/bench/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// total is what all ticks of a load add up to.
type total struct {
	ticks                         int
	requests, errors, late, bytes int64
	byKind, endpoints             map[string]int64
	latency, connect              *hdrhistogram.Histogram
	open                          int
}

func newTotal() *total {
	return &total{
		byKind: map[string]int64{}, endpoints: map[string]int64{},
		latency: events.NewHistogram(), connect: events.NewHistogram(),
	}
}

func (sum *total) add(t testing.TB, tick *events.LoadTick) {
	sum.ticks++
	sum.requests += tick.Requests
	sum.errors += tick.Errors
	sum.late += tick.Late
	sum.bytes += tick.Bytes
	sum.open = tick.Open
	for k, n := range tick.ErrorsByKind {
		sum.byKind[k] += n
	}
	for k, n := range tick.Endpoints {
		sum.endpoints[k] += n
	}
	for _, h := range []struct {
		into *hdrhistogram.Histogram
		from *events.Histogram
	}{{sum.latency, tick.Latency}, {sum.connect, tick.Connect}} {
		decoded, err := events.Decode(h.from)
		if err != nil {
			t.Error(err)
			continue
		}
		h.into.Merge(decoded)
	}
}

// check tests what holds for every load but a stream, whose requests have no latency.
func (sum *total) check(t testing.TB) {
	t.Helper()
	count := func(m map[string]int64) (n int64) {
		for _, v := range m {
			n += v
		}
		return n
	}
	if n := count(sum.byKind); n != sum.errors {
		t.Errorf("%d errors, but by kind they are %d: %v", sum.errors, n, sum.byKind)
	}
	if n := count(sum.endpoints); n != sum.requests-sum.errors {
		t.Errorf("%d requests, %d errors, but the endpoints answered %d: %v", sum.requests, sum.errors, n, sum.endpoints)
	}
	if n := sum.latency.TotalCount(); n != sum.requests-sum.errors {
		t.Errorf("%d requests, %d errors, but %d latencies", sum.requests, sum.errors, n)
	}
}

// playing is a load that runs in the background of a test.
type playing struct {
	stop func() // and wait for its end
	mu   sync.Mutex
	sum  *total
}

// play starts a load. Its events are checked for order.
func play(t testing.TB, s Spec) *playing {
	t.Helper()
	if s.Name == "" {
		s.Name = t.Name()
	}
	p := &playing{sum: newTotal()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var last events.Event
		n := 0
		err := Run(ctx, s, func(e events.Event) {
			if (n == 0) != (e.LoadStarted != nil) {
				t.Errorf("event %d is a %s", n, e.Kind())
			}
			if last.LoadEnded != nil {
				t.Errorf("a %s after the end", e.Kind())
			}
			if e.Time.IsZero() {
				t.Errorf("a %s without a time", e.Kind())
			}
			n++
			last = e
			if e.LoadTick != nil {
				p.mu.Lock()
				p.sum.add(t, e.LoadTick)
				p.mu.Unlock()
			}
		})
		if err != nil {
			t.Errorf("run: %v", err)
		}
		if last.LoadEnded == nil || last.LoadEnded.Error != "" {
			t.Errorf("the last event is %+v", last)
		}
	}()
	p.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(p.stop)
	return p
}

// now is what the ticks so far add up to.
func (p *playing) now() total {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := *p.sum
	sum.byKind, sum.endpoints = maps.Clone(sum.byKind), maps.Clone(sum.endpoints)
	return sum
}

// errors is how many of a kind there were so far.
func (p *playing) errors(kind string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum.byKind[kind]
}

// complete plays a load that ends by itself.
func complete(t testing.TB, s Spec) total {
	t.Helper()
	if s.Name == "" {
		s.Name = t.Name()
	}
	sum := newTotal()
	if err := Run(context.Background(), s, func(e events.Event) {
		if e.LoadTick != nil {
			sum.add(t, e.LoadTick)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return *sum
}

const quick = 20 * time.Millisecond // length of a tick in tests
