// Package load generates load and says what became of it: HTTP requests, TCP connections, UDP request and response,
// bulk streams, and connections held open.
//
// The loop is open: requests are due at a rate, whatever became of those before them, and latency counts from when
// a request was due, so that a server that stalls cannot hide its stall by slowing the generator down. A request
// that was not answered within the timeout after it was due is an error.
//
// What a request is depends on the kind of load, and so does what a LoadTick says of it:
//
//   - http: a GET, until its body was read. One whose kept-alive connection broke is an error, and is not repeated.
//   - connect: a TCP connection, until the server has said who it is.
//   - udp: a datagram, until its answer came; a lost one is a timeout.
//   - hold: a message on a connection that stays open, until it came back. A connection that breaks, or cannot be
//     opened, is one failed request, whatever was outstanding on it.
//   - stream: a connection, until the server has said who it is; it has no latency. One that breaks later is one
//     more request, which failed.
//
// Endpoints count the requests that succeeded, so that requests are always endpoints' answers plus errors.
//
// Connections that a load makes for one request each are closed by RST once the request was answered. An orderly
// close would leave the local port in TIME-WAIT for a minute, and 28,000 of them would be used up within seconds; it
// would also keep the connection in every conntrack table on the way for two minutes.
package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"proxylab/bench/events"
)

// job is one load at work.
type job struct {
	spec Spec
	rec  *recorder
	stop context.Context // done: nothing new
	hard context.Context // done: what is outstanding is given up, and counts nowhere
}

// fail counts a failed request, unless it failed because it was given up.
func (j *job) fail(err error) {
	if j.hard.Err() == nil {
		j.rec.failure(err)
	}
}

// generators return when everything they began has ended. Their errors are the generator's own.
var generators = map[string]func(*job) error{
	HTTP:    runHTTP,
	Connect: runConnect,
	UDP:     runUDP,
	Stream:  runStream,
	Hold:    runHold,
}

// Run plays a load until ctx is done or its duration is over, then awaits what is outstanding, for at most the
// spec's timeout. It calls emit from one goroutine at a time: LoadStarted, a LoadTick each tick, a last one once
// everything has ended, LoadEnded. An invalid spec emits nothing.
func Run(ctx context.Context, s Spec, emit func(events.Event)) error {
	return run(ctx, context.WithoutCancel(ctx), s, emit)
}

// run is Run with two ends: a graceful one, and one that gives up.
func run(stop, hard context.Context, s Spec, emit func(events.Event)) error {
	if err := s.Validate(); err != nil {
		return err
	}
	s = s.withDefaults()
	if s.Duration > 0 && (s.Kind == Stream || s.Kind == Hold) { // the others end by their schedule
		var cancel context.CancelFunc
		stop, cancel = context.WithTimeout(stop, s.Duration)
		defer cancel()
	}
	emit(event(events.Event{LoadStarted: started(s)}))
	j := &job{spec: s, rec: newRecorder(s.Name, time.Now()), stop: stop, hard: hard}
	done := make(chan error, 1)
	go func() { done <- generators[s.Kind](j) }()
	ticker := time.NewTicker(s.Tick)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			emit(event(events.Event{LoadTick: j.rec.tick(now)}))
		case err := <-done:
			emit(event(events.Event{LoadTick: j.rec.tick(time.Now())}))
			ended := &events.LoadEnded{Name: s.Name}
			if err != nil {
				ended.Error = err.Error()
				err = fmt.Errorf("load %s: %w", s.Name, err)
			}
			emit(event(events.Event{LoadEnded: ended}))
			return err
		}
	}
}

func event(e events.Event) events.Event {
	e.Time = time.Now().UTC()
	return e
}

func started(s Spec) *events.LoadStarted {
	l := &events.LoadStarted{
		Name: s.Name, Kind: s.Kind, Target: strings.Join(s.Targets, ","), From: s.From,
		RatePerSec: s.Rate, Connections: s.Connections,
	}
	if s.Kind == Hold || s.Kind == Stream {
		l.Count = s.Count
	}
	return l
}

// pace calls do for each request when it is due, until the load is to stop or do returns false. do must not block.
func (j *job) pace(rate float64, do func(seq uint64, due time.Time) bool) {
	s := schedule{start: time.Now(), rate: rate, length: j.spec.Duration}
	for seq := uint64(0); s.await(j.stop, seq); seq++ {
		if !do(seq, s.due(seq)) {
			return
		}
	}
}

// openLoop calls do for each request when it is due, from as many goroutines as are needed, at most workers. When
// all are busy, requests wait. It returns when the last has ended.
func (j *job) openLoop(workers int, do func(worker int, due time.Time)) {
	var wg sync.WaitGroup
	work := make(chan time.Time)
	running := 0
	j.pace(j.spec.Rate, func(_ uint64, due time.Time) bool {
		select {
		case work <- due:
			return true
		default:
		}
		if worker := running; worker < workers {
			running++
			wg.Go(func() {
				do(worker, due)
				for due := range work {
					do(worker, due)
				}
			})
			return true
		}
		select {
		case work <- due:
			return true
		case <-j.stop.Done():
			return false
		}
	})
	close(work)
	wg.Wait()
}

// maxWorkers bounds the requests that are outstanding at once, so that a black hole does not eat the machine: each
// costs a socket and some ten kilobytes.
const maxWorkers = 2000

// workers is how many requests are outstanding when nothing is answered, with some to spare.
func (s Spec) workers() int {
	return int(min(s.Rate*s.Timeout.Seconds()*1.2+16, maxWorkers))
}

// hurry is how long a load whose process is told to end by a signal still waits for what is outstanding.
const hurry = 2 * time.Second

// Main is the process of one load: the spec is the first line of stdin, in JSON; the end of stdin ends the load as
// the end of Run's context does. Events go to stdout as JSON lines. When ctx is done, the load ends too, and
// outstanding requests are given up after two seconds; when stdout is closed, at once.
func Main(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the load's specification: %w", err)
	}
	spec, err := readSpec(line)
	if err != nil {
		return err
	}
	stop, stopNow := context.WithCancel(ctx)
	defer stopNow()
	hard, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(hurry, func() { giveUp(context.Cause(ctx)) })
	})()
	go func() {
		_, _ = io.Copy(io.Discard, in) // an unreadable input has ended, too
		stopNow()
	}()
	out := json.NewEncoder(stdout)
	var writeErr error
	err = run(stop, hard, spec, func(e events.Event) {
		if writeErr != nil {
			return
		}
		if writeErr = out.Encode(e); writeErr != nil {
			giveUp(writeErr)
			stopNow()
		}
	})
	if writeErr != nil {
		writeErr = fmt.Errorf("load %s: write an event: %w", spec.Name, writeErr)
	}
	return errors.Join(err, writeErr)
}
