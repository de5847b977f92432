package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"proxylab/bench/events"
)

// lateAfter is how long after it was due a request is sent at most without counting as late.
const lateAfter = 10 * time.Millisecond

// recorder counts what a load does, and hands it out tick by tick. What is recorded is in exactly one tick.
//
// One lock is enough: recording takes well under a microsecond, and a request takes a hundred.
type recorder struct {
	name string

	mu    sync.Mutex
	now   *counts
	spare *counts // the previous tick's, to be used again
	since time.Time
	open  int // connections held
}

// counts is one tick in the making.
type counts struct {
	requests, errors, late, bytes int64
	byKind, endpoints, sources    map[string]int64
	latency, connect              *hdrhistogram.Histogram
}

func newCounts() *counts {
	return &counts{
		byKind:    map[string]int64{},
		endpoints: map[string]int64{},
		sources:   map[string]int64{},
		latency:   events.NewHistogram(),
		connect:   events.NewHistogram(),
	}
}

func newRecorder(name string, start time.Time) *recorder {
	return &recorder{name: name, now: newCounts(), spare: newCounts(), since: start}
}

// success counts a request that was answered. latency is from when it was due; below 0: has none to record.
func (r *recorder) success(endpoint string, latency time.Duration, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.requests++
	r.now.bytes += bytes
	if latency >= 0 {
		events.Record(r.now.latency, latency)
	}
	if endpoint != "" {
		r.now.endpoints[endpoint]++
	}
}

// seenAs counts a connection whose server said where it comes from.
func (r *recorder) seenAs(source string) {
	if source == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.sources[source]++
}

// failure counts a request that failed.
func (r *recorder) failure(err error) {
	kind := ErrorKind(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.requests++
	r.now.errors++
	r.now.byKind[kind]++
}

// sent notes how long after it was due a request was sent.
func (r *recorder) sent(after time.Duration) {
	if after <= lateAfter {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.late++
}

// connected notes how long a connection took to be established.
func (r *recorder) connected(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events.Record(r.now.connect, took)
}

// moved counts payload that belongs to no single request.
func (r *recorder) moved(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.bytes += bytes
}

// held changes the number of connections that are open.
func (r *recorder) held(delta int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open += delta
}

// tick returns what was recorded since the previous one. It is called by one goroutine.
func (r *recorder) tick(now time.Time) *events.LoadTick {
	r.mu.Lock()
	c := r.now
	r.now = r.spare
	seconds := now.Sub(r.since).Seconds()
	r.since = now
	open := r.open
	r.mu.Unlock()

	t := &events.LoadTick{
		Name: r.name, Seconds: seconds, Open: open,
		Requests: c.requests, Errors: c.errors, Late: c.late, Bytes: c.bytes,
		ErrorsByKind: c.byKind, Endpoints: c.endpoints, Sources: c.sources,
		Latency: events.Encode(c.latency), Connect: events.Encode(c.connect),
	}
	c.latency.Reset()
	c.connect.Reset()
	r.spare = &counts{byKind: map[string]int64{}, endpoints: map[string]int64{}, sources: map[string]int64{}, latency: c.latency, connect: c.connect}
	return t
}
