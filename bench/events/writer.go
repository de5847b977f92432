package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileName is the name of the log in a run's directory.
const FileName = "events.jsonl"

// ErrClosed is why an event that came after Close was not written.
var ErrClosed = errors.New("the event log is closed")

// Writer appends events to a log and hands them on to those who watch the run live. It is safe for concurrent use.
//
// Every event is one write(2) of one line, so that whoever is killed leaves at most one incomplete line, the last.
// For the same reason nothing more is written after a write has failed: the rest of a line would follow the start
// of another.
type Writer struct {
	now  func() time.Time
	name string // for errors

	mu        sync.Mutex
	out       io.Writer
	closer    io.Closer
	broken    bool // nothing more may be written
	err       error
	failed    chan struct{}
	listeners map[*Listener]struct{}
}

// Create makes the directory of a run, where it does not exist, and a new log in it. It fails when there is a log
// already: two runs in one log would be neither.
func Create(dir string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the run's directory: %w", err)
	}
	path := filepath.Join(dir, FileName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create the event log: %w", err)
	}
	w := NewWriter(f)
	w.name, w.closer = path, f
	return w, nil
}

// NewWriter writes events to out, which may be a pipe. Close does not close out.
func NewWriter(out io.Writer) *Writer {
	return &Writer{
		now:       time.Now,
		name:      "event log",
		out:       out,
		failed:    make(chan struct{}),
		listeners: map[*Listener]struct{}{},
	}
}

// Emit appends e, with the present time where it has none. What e points to must not be changed afterwards.
//
// It returns nothing, so that measuring code stays free of error handling that would all be the same: the first
// failure is logged once, kept for Err and Close, and announced by Failed. Listeners get the event nevertheless.
func (w *Writer) Emit(e Event) {
	if e.Time.IsZero() {
		e.Time = w.now().UTC()
	}
	if e.Subject != nil { // callers stamp all their events with the same one, and may come to know more of it
		subject := *e.Subject
		e.Subject = &subject
	}
	line, err := encode(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil: // NaN or an infinity; the log itself is sound
		w.fail(fmt.Errorf("encode a %s event: %w", e.Kind(), err))
	case !w.broken:
		if _, err := w.out.Write(line); err != nil {
			w.broken = true
			w.fail(fmt.Errorf("write to %s: %w", w.name, err))
		}
	case w.out == nil:
		w.fail(fmt.Errorf("write a %s event to %s: %w", e.Kind(), w.name, ErrClosed))
	}
	for l := range w.listeners {
		l.enqueue(e)
	}
}

// encode makes the line of e, with its end.
func encode(e Event) ([]byte, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // "p99 < 50ms" is to be readable in the log
	err := enc.Encode(e)
	return line.Bytes(), err
}

// fail keeps the first error. w.mu is held.
func (w *Writer) fail(err error) {
	if w.err != nil {
		return
	}
	w.err = err
	slog.Error("the event log is incomplete from here on", "error", err)
	close(w.failed)
}

// Failed is closed when an event could not be written.
func (w *Writer) Failed() <-chan struct{} { return w.failed }

// Err is the first failure, nil if all is well.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close ends the log and returns the first failure that it met. Listeners get no more events; they still have to be
// closed to be sure that they have handled those that were queued. Closing twice is harmless.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken, w.out = true, nil
	if w.closer != nil {
		err := w.closer.Close()
		w.closer = nil
		if err != nil {
			w.fail(fmt.Errorf("close %s: %w", w.name, err))
		}
	}
	for l := range w.listeners {
		l.finish()
	}
	clear(w.listeners)
	return w.err
}

// Listen calls handle with every event that is written from now on, in the order of the log, from one goroutine of
// its own. A slow handle never delays the writer: see Listener.Dropped. Close the Listener to end it.
func (w *Writer) Listen(handle func(Event)) *Listener {
	l := newListener(handle)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out == nil {
		l.finish()
	} else {
		w.listeners[l] = struct{}{}
		l.leave = func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.listeners, l)
		}
	}
	go l.run()
	return l
}
