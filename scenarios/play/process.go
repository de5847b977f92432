package play

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"proxylab/bench/events"
	"proxylab/lab"
)

// worker is a child process that reads JSON lines, first of all its specification, and writes events as JSON lines:
// a load or a probe, in the network of a client.
type worker struct {
	name  string
	proc  lab.Process
	stdin *os.File
	once  sync.Once
	done  chan struct{} // closed when the process has ended and its last event was delivered
	err   error         // valid once done
}

// startWorker runs "proxylab <verb>" at a place, hands it its specification, and each event it writes to sink, from
// one goroutine.
func startWorker(ctx context.Context, l lab.Lab, at lab.Place, verb, name string, spec any, sink func(events.Event)) (*worker, error) {
	stdin, toStdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromStdout, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), toStdin.Close())
	}
	var stderr tail
	proc, err := l.Exec(ctx, at, lab.Command{Args: []string{"proxylab", verb}, Stdin: stdin, Stdout: stdout, Stderr: &stderr})
	// The child has its own copies now; ours would keep it from ever seeing the end of its input.
	closeErr := errors.Join(stdin.Close(), stdout.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s %s: %w", verb, name, err), closeErr, toStdin.Close(), fromStdout.Close())
	}
	w := &worker{name: verb + " " + name, proc: proc, stdin: toStdin, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		readErr := readEvents(fromStdout, sink)
		waitErr := proc.Wait()
		if waitErr != nil {
			waitErr = fmt.Errorf("%s: %w: %s", w.name, waitErr, stderr.String())
		}
		w.err = errors.Join(readErr, waitErr, fromStdout.Close())
	}()
	if err := w.tell(spec); err != nil {
		return nil, errors.Join(err, w.stop(5*time.Second))
	}
	return w, nil
}

// tell writes one JSON line to the process.
func (w *worker) tell(line any) error {
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := w.stdin.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	return nil
}

// stop ends the input and lets the process finish what it has begun, for as long as limit; then it is told to end at
// once, and killed if it does not.
func (w *worker) stop(limit time.Duration) error {
	w.once.Do(func() { _ = w.stdin.Close() })
	for _, force := range []func() error{w.proc.Interrupt, w.proc.Kill} {
		select {
		case <-w.done:
			return w.err
		case <-time.After(limit):
			_ = force() // it may have ended just now
			limit = 2 * time.Second
		}
	}
	<-w.done
	return w.err
}

func readEvents(r io.Reader, sink func(events.Event)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), 4<<20)
	for lines.Scan() {
		var e events.Event
		if err := events.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("not an event: %q: %w", lines.Text(), err)
		}
		sink(e)
	}
	return lines.Err()
}

// tail keeps the end of what is written to it, for an error message.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 2 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > keep {
		t.buf = bytes.Clone(t.buf[len(t.buf)-keep:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
