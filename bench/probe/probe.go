// Package probe measures programming latency: how long after a change of a Service's endpoints was committed the
// data path obeys it.
//
// A prober asks the Service again and again, each time on a new connection, and notes which pod answered. It does so
// at a fixed spacing, whatever became of the probes before, and faster while something is being looked out for.
//
//   - A pod that was added: from the commit to its first answer.
//   - A pod that was removed: from the commit to the start of the last probe that it answered, known once it has
//     not answered for a while (a second and 200 probes, or more with many endpoints).
//
// Of n endpoints each gets one probe in n, so that with probes d apart the error of a sample is about d*n; it is
// reported as its resolution. Session affinity keeps a prober on one pod: such a Service cannot be measured so.
// A removed pod that has stopped cannot answer any more although the data path may still lead to it; the number of
// failed probes, which is reported, hints at that.
package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/load"
)

// maxOutstanding bounds the probes under way; more are not started. A black hole keeps MaxRate probes of a second.
const maxOutstanding = MaxRate + 20

// Main is the process of one prober. The first line of stdin is a Spec, each further one a Command, in JSON; what is
// found goes to stdout as events (Programming, Awaited) in JSON lines. At the end of stdin it finishes what is being
// looked out for, each within its limit; when ctx is done, it ends at once, and that is not reported at all.
func Main(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the prober's specification: %w", err)
	}
	if len(line) == 0 {
		return fmt.Errorf("read the prober's specification: %w", io.ErrUnexpectedEOF)
	}
	var spec Spec
	if err := json.Unmarshal(line, &spec); err != nil {
		return fmt.Errorf("read the prober's specification: %w", err)
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commands, readErr := readCommands(ctx, in)
	out := json.NewEncoder(stdout)
	p := &prober{spec: spec.withDefaults(), ask: load.Ask, emit: func(e events.Event) error { return out.Encode(e) }}
	if err := p.run(ctx, commands); err != nil {
		return fmt.Errorf("probe %s: %w", spec.Service, err)
	}
	select {
	case err := <-readErr:
		if err != nil {
			return fmt.Errorf("probe %s: %w", spec.Service, err)
		}
	default: // ctx was done; the reader is still waiting for input
	}
	return nil
}

// timedCommand is a command and when it was read.
type timedCommand struct {
	Command
	read time.Time
}

// readCommands reads until the end of the input or the first mistake, which it reports after it closed the channel
// of commands.
func readCommands(ctx context.Context, in *bufio.Reader) (<-chan timedCommand, <-chan error) {
	commands, failed := make(chan timedCommand), make(chan error, 1)
	go func() {
		defer close(commands)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil { // a line without its end was cut off, and says nothing
				if errors.Is(err, io.EOF) {
					err = nil
				}
				failed <- err
				return
			}
			now := time.Now()
			var c Command
			err = strict(line, &c)
			if err == nil {
				err = c.check(now)
			}
			if err != nil {
				failed <- fmt.Errorf("command %s: %w", line[:len(line)-1], err)
				return
			}
			select {
			case commands <- timedCommand{c, now}:
			case <-ctx.Done():
				failed <- nil
				return
			}
		}
	}()
	return commands, failed
}

// prober asks a Service at a spacing and lets a tracker make sense of it.
type prober struct {
	spec Spec
	ask  func(ctx context.Context, kind, target string, port int) (pod string, err error)
	emit func(events.Event) error
}

// run ends when commands is closed and nothing is being looked out for any more, when ctx is done, or when emit
// fails. It leaves no probe behind.
func (p *prober) run(ctx context.Context, commands <-chan timedCommand) error {
	t := newTracker(p.spec, slog.Default())
	results := make(chan result, maxOutstanding)
	var probes sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer probes.Wait()
	defer cancel()

	pace := pacer{last: time.Now(), started: time.Now().Add(-p.spec.BusyInterval)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for commands != nil || t.pending() {
		select {
		case c, ok := <-commands:
			if !ok {
				commands = nil
				continue
			}
			t.command(c.Command, c.read)
			timer.Reset(pace.next(t.spacing(time.Now())))
		case r := <-results:
			t.ended(r)
		case <-timer.C:
			if len(t.outstanding) < maxOutstanding {
				p.probe(ctx, &probes, pace.start(time.Now()), t, results)
			}
			pace.advance(time.Now(), t.spacing(time.Now()))
			timer.Reset(pace.next(t.spacing(time.Now())))
		case <-ctx.Done():
			return nil
		}
		t.advance(time.Now())
		for _, e := range t.take() {
			if err := p.emit(e); err != nil {
				return fmt.Errorf("write an event: %w", err)
			}
		}
	}
	return nil
}

// pacer says when probes are due.
type pacer struct {
	id      uint64
	last    time.Time // when the last one was due
	started time.Time // when the last one was started
}

// next is how long it is until the next probe.
func (p *pacer) next(spacing time.Duration) time.Duration { return time.Until(p.last.Add(spacing)) }

// start returns the beginnings of the next probe.
func (p *pacer) start(now time.Time) result {
	p.id++
	r := result{id: p.id, start: now, gap: now.Sub(p.started)}
	p.started = now
	return r
}

// advance keeps to the spacing where a probe is but a little late, and starts afresh where it is later than that:
// what was missed is not made up for in a burst.
func (p *pacer) advance(now time.Time, spacing time.Duration) {
	p.last = p.last.Add(spacing)
	if now.Sub(p.last) > spacing/2 || p.last.After(now) { // late, or the spacing was shorter until now
		p.last = now
	}
}

// Probes come from ports of their own, below those that a client pod's kernel gives to loads. A probe that is sent before
// the Service is in the kernel leaves a connection tracking entry without NAT, which lives for two minutes and makes
// whoever comes from the same port fail.
const (
	firstPort = 2000
	ports     = 8000
)

func sourcePort(id uint64) int { return firstPort + int(id%ports) }

// probe starts one.
func (p *prober) probe(ctx context.Context, probes *sync.WaitGroup, r result, t *tracker, results chan<- result) {
	t.started(r.id, r.start)
	probes.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, p.spec.Timeout)
		defer cancel()
		r.pod, r.err = p.ask(ctx, p.spec.Kind, p.spec.Target, sourcePort(r.id))
		r.end = time.Now()
		results <- r // has room for all that are under way
	})
}
