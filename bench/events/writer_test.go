package events

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func note(text string) Event { return Event{Note: &Note{Text: text}} }

func TestWriterAppendsOneWholeLinePerEventFromManyGoroutines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "r1")
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 200
	var heard []string
	l := w.Listen(func(e Event) { heard = append(heard, e.Note.Text) })
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				w.Emit(note(fmt.Sprintf("%d-%d < %s", i, j, strings.Repeat("x", j))))
			}
		})
	}
	wg.Wait()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := ReadFile(dir)
	if err != nil || log.Truncated {
		t.Fatalf("truncated %v, error %v", log.Truncated, err)
	}
	if len(log.Events) != writers*each || len(heard) != len(log.Events) {
		t.Fatalf("%d events in the log, %d heard, want %d", len(log.Events), len(heard), writers*each)
	}
	for i, e := range log.Events {
		if e.Note.Text != heard[i] {
			t.Fatalf("event %d is %q in the log, %q to the listener", i, e.Note.Text, heard[i])
		}
		if e.Time.IsZero() {
			t.Fatalf("event %d has no time", i)
		}
	}
	raw, _ := os.ReadFile(filepath.Join(dir, FileName))
	if strings.Contains(string(raw), `\u003c`) {
		t.Error("'<' is escaped in the log")
	}
}

func TestWriterKeepsAGivenTime(t *testing.T) {
	var out strings.Builder
	w := NewWriter(&out)
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	e := note("x")
	e.Time = at
	w.Emit(e)
	for got, err := range Read(strings.NewReader(out.String())) {
		if err != nil || !got.Time.Equal(at) {
			t.Fatalf("time %v, error %v", got.Time, err)
		}
	}
}

func TestCreateRefusesALogThatExists(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := Create(dir); !errors.Is(err, os.ErrExist) {
		t.Fatalf("second log in one directory: %v", err)
	}
}

// failing is a disk that is full after so many bytes.
type failing struct {
	strings.Builder
	room int
}

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.room {
		n, _ := f.Builder.Write(p[:f.room])
		f.room = 0
		return n, errors.New("no space left")
	}
	f.room -= len(p)
	return f.Builder.Write(p)
}

func TestWriterStopsAtTheFirstFailureAndKeepsIt(t *testing.T) {
	out := &failing{room: 100}
	w := NewWriter(out)
	var heard int
	l := w.Listen(func(Event) { heard++ })
	for range 3 {
		w.Emit(note("eleven more"))
	}
	select {
	case <-w.Failed():
	default:
		t.Error("Failed is not closed")
	}
	out.room = 1000 // somebody made room: the log must not go on in the middle of a line
	w.Emit(note("later"))
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if heard != 4 {
		t.Errorf("the listener heard %d events, want 4", heard)
	}
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("Close: %v", err)
	}
	r := NewReader(strings.NewReader(out.String()))
	n := 0
	for _, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 || !r.Truncated() {
		t.Errorf("%d events, truncated %v; the log is\n%s", n, r.Truncated(), out.String())
	}
}

func TestWriterSurvivesAnEventThatCannotBeEncoded(t *testing.T) {
	var out strings.Builder
	w := NewWriter(&out)
	w.Emit(Event{Softirq: &Softirq{Seconds: math.NaN()}})
	w.Emit(note("after"))
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), "softirq") {
		t.Errorf("Err: %v", err)
	}
	if !strings.Contains(out.String(), "after") {
		t.Error("the log did not go on")
	}
}

func TestWriterSaysWhatCameAfterClose(t *testing.T) {
	w, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Emit(note("late"))
	if err := w.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("Close: %v", err)
	}
	l := w.Listen(func(Event) { t.Error("heard something") })
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSlowListenerLosesTicksButNeverAFrame(t *testing.T) {
	w := NewWriter(&strings.Builder{})
	release, stands := make(chan struct{}), make(chan struct{})
	var ticks, steps int
	l := w.Listen(func(e Event) {
		if e.Note != nil {
			close(stands)
			<-release
			return
		}
		if e.LoadTick != nil {
			ticks++
		} else {
			steps++
		}
	})
	w.Emit(note("the first"))
	<-stands // else how many it has taken at once is chance
	const many = maxBacklog + 1000
	for range many { // the handler stands still: Emit must not
		w.Emit(Event{LoadTick: &LoadTick{Name: "web"}})
	}
	for i := range 50 {
		w.Emit(Event{StepStarted: &StepStarted{Index: i}})
	}
	gaveUp, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(gaveUp); !errors.Is(err, context.Canceled) {
		t.Errorf("Close with a handler that stands still: %v", err)
	}
	close(release)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if steps != 50 {
		t.Errorf("%d steps heard, want 50", steps)
	}
	if ticks+int(l.Dropped()) != many || l.Dropped() == 0 {
		t.Errorf("%d ticks heard, %d dropped, want %d together", ticks, l.Dropped(), many)
	}
}

func TestListenerThatLeftHearsNothingMore(t *testing.T) {
	w := NewWriter(&strings.Builder{})
	var heard int
	l := w.Listen(func(Event) { heard++ })
	w.Emit(note("one"))
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Emit(note("two"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if heard != 1 {
		t.Errorf("heard %d, want 1", heard)
	}
}
