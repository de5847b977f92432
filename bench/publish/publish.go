// Package publish measures how long a Service of type LoadBalancer takes until somebody gets an answer through its VIP.
//
// A VIP that was just given is asked again and again, each time on a new connection, until the first answer.
package publish

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/load"
)

const (
	// interval is the spacing of the attempts: what they may be wrong by.
	interval = 20 * time.Millisecond
	// attempt is how long one may take: an answer that was lost is not waited for any longer.
	attempt = time.Second
	// atOnce bounds the attempts under way, of all Services together.
	atOnce = 50
)

// Spec is the first line that a process of this package reads.
type Spec struct{}

// Target is each further line: a Service whose VIP is known now.
type Target struct {
	Service        string    `json:"service"` // namespace/name
	Created        bool      `json:"created"` // Since is when it was created, and not changed
	Since          time.Time `json:"since"`
	AddressSeconds float64   `json:"addressSeconds"` // from Since until the VIP was known
	Address        string    `json:"address"`        // with the port
	Kind           string    `json:"kind"`           // load.HTTP, load.Connect, load.UDP: how it is asked
}

// Main is the process: lines in, an event LBPublished out for each Target. Those that have not answered when stdin ends, or
// ctx does, are reported as not observed.
func Main(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	p := &publisher{out: json.NewEncoder(stdout), ask: load.Ask, slots: make(chan struct{}, atOnce)}
	return p.run(ctx, stdin)
}

type publisher struct {
	ask   func(ctx context.Context, kind, target string, port int) (string, error)
	slots chan struct{}

	mu  sync.Mutex
	out *json.Encoder
	err error // of writing
}

func (p *publisher) run(ctx context.Context, stdin io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewScanner(stdin)
	var group sync.WaitGroup
	var failed error
	for first := true; lines.Scan() && failed == nil; first = false {
		if first {
			continue // Spec says nothing yet
		}
		var t Target
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			failed = fmt.Errorf("not a target: %q: %w", lines.Text(), err)
			break
		}
		group.Go(func() { p.follow(ctx, t) })
	}
	cancel() // there is nobody any more who waits for the answers
	group.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(failed, lines.Err(), p.err)
}

// follow asks until there is an answer, or ctx ends, and reports either.
func (p *publisher) follow(ctx context.Context, t Target) {
	addressSeconds := t.AddressSeconds
	found := events.LBPublished{
		Service: t.Service, Created: t.Created, Address: t.Address, AddressSeconds: &addressSeconds, ResolutionSeconds: interval.Seconds(),
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := p.try(ctx, t)
		if err == nil || ctx.Err() != nil {
			found.Seconds = time.Since(t.Since).Seconds()
			if err != nil {
				found.Error = "no answer before the end"
			}
			p.report(found)
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (p *publisher) try(ctx context.Context, t Target) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	_, err := p.ask(ctx, t.Kind, t.Address, 0)
	return err
}

func (p *publisher) report(e events.LBPublished) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errors.Join(p.err, p.out.Encode(events.Event{Time: time.Now(), LBPublished: &e}))
}
