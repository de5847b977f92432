package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/load/echotest"
)

// process is Main, running, with the ends of its pipes.
type process struct {
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	events *bufio.Scanner
	err    chan error
}

func startMain(t *testing.T, ctx context.Context, s Spec) *process {
	t.Helper()
	in, toIn := io.Pipe()
	fromOut, out := io.Pipe()
	p := &process{stdin: toIn, stdout: fromOut, events: bufio.NewScanner(fromOut), err: make(chan error, 1)}
	go func() {
		err := Main(ctx, in, out)
		_ = out.Close()
		p.err <- err
	}()
	t.Cleanup(func() { _ = toIn.Close(); _ = fromOut.Close() })
	line, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := toIn.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	return p
}

// next returns the next event; nil at the end.
func (p *process) next(t *testing.T) *events.Event {
	t.Helper()
	if !p.events.Scan() {
		return nil
	}
	var e events.Event
	if err := json.Unmarshal(p.events.Bytes(), &e); err != nil {
		t.Fatalf("%s: %v", p.events.Text(), err)
	}
	return &e
}

func TestMainEndsWithItsInput(t *testing.T) {
	pod := echotest.Start(t, "pod-a", "127.0.0.1")
	p := startMain(t, context.Background(), Spec{Name: "x", Kind: HTTP, Targets: []string{pod.HTTP}, Rate: 200, Tick: quick})
	sum := newTotal()
	var last *events.Event
	for e := p.next(t); e != nil; e = p.next(t) {
		last = e
		if e.LoadTick != nil {
			sum.add(t, e.LoadTick)
			if sum.requests > 10 {
				_ = p.stdin.Close()
			}
		}
	}
	if err := <-p.err; err != nil || last == nil || last.LoadEnded == nil {
		t.Errorf("it returned %v, and %+v at last", err, last)
	}
	sum.check(t)
}

func TestMainGivesUpWhenToldToByASignal(t *testing.T) {
	pod := echotest.Start(t, "pod-a", "127.0.0.1")
	pod.Stall()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, s := range append(paced, Spec{Name: "hold", Kind: Hold, Count: 3}) {
		ctx, cancel := context.WithCancel(ctx)
		s.Targets, s.Timeout, s.Tick = []string{target(pod, s.Kind)}, time.Hour, quick
		if s.Kind != Hold {
			s.Rate = 100
		}
		p := startMain(t, ctx, s)
		sum := newTotal()
		ticks := 0
		for e := p.next(t); e != nil; e = p.next(t) {
			if e.LoadTick != nil {
				sum.add(t, e.LoadTick)
				if ticks++; ticks == 3 {
					cancel()
				}
			}
		}
		cancel()
		if err := <-p.err; err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if sum.requests != 0 {
			t.Errorf("%s: what was given up counts: %d requests, errors %v", s.Name, sum.requests, sum.byKind)
		}
	}
}

func TestMainEndsWhenNobodyListens(t *testing.T) {
	pod := echotest.Start(t, "pod-a", "127.0.0.1")
	pod.Stall()
	p := startMain(t, context.Background(), Spec{
		Name: "x", Kind: HTTP, Targets: []string{pod.HTTP}, Rate: 200, Tick: quick, Timeout: time.Hour,
	})
	p.next(t)
	_ = p.stdout.Close()
	if err := <-p.err; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it returned %v", err)
	}
}

func TestMainRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "unexpected EOF"},
		{"\n", "unexpected EOF"},
		{"nonsense\n", "invalid character"},
		{`{"name":"x"}` + "\n", "targets are missing"},
		{`{"name":"x","speed":3}` + "\n", "speed"},
		{"\x00\xff\n", "invalid character"},
	} {
		var out bytes.Buffer
		err := Main(context.Background(), strings.NewReader(c.in), &out)
		if err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
			t.Errorf("%q: %v, output %q", c.in, err, out.String())
		}
	}
}
