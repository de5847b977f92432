package events

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"runtime"
)

// batchBytes is about how much of a log one goroutine takes at a time.
const batchBytes = 256 << 10

// batch is a piece of a log, whole lines but for the last.
type batch struct {
	firstLine int
	text      []byte
	done      chan struct{} // closed when events and err are there
	events    []Event
	err       error
}

// ReadAhead is Read for long logs: the same events in the same order and the same errors, but lines are taken apart, and their
// histograms as well, on all processors. It reads ahead of who takes the events. A last line that was cut off is left out
// without notice.
func ReadAhead(in io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		workers := runtime.GOMAXPROCS(0)
		work, order := make(chan *batch, workers), make(chan *batch, 2*workers)
		stop := make(chan struct{})
		defer func() { // nothing is at work any more when this returns
			close(stop)
			for b := range order {
				<-b.done
			}
		}()
		for range workers {
			go func() {
				for b := range work {
					b.decode()
				}
			}()
		}
		go split(in, work, order, stop)
		for b := range order {
			<-b.done
			for _, e := range b.events {
				if !yield(e, nil) {
					return
				}
			}
			if b.err != nil {
				yield(Event{}, b.err)
				return
			}
		}
	}
}

// split cuts a log at line ends and hands the pieces to the workers, and in order to who takes the events.
func split(in io.Reader, work, order chan<- *batch, stop <-chan struct{}) {
	defer close(order)
	defer close(work)
	r := bufio.NewReaderSize(in, batchBytes)
	for line := 1; ; {
		b := &batch{firstLine: line, done: make(chan struct{})}
		end := false
		for len(b.text) < batchBytes && !end {
			part, err := r.ReadSlice('\n')
			b.text = append(b.text, part...)
			switch {
			case errors.Is(err, io.EOF):
				end = true
			case err != nil && !errors.Is(err, bufio.ErrBufferFull):
				b.err, end = err, true
			}
		}
		for !end && b.text[len(b.text)-1] != '\n' && len(b.text) <= maxLine { // a long line
			part, err := r.ReadSlice('\n')
			b.text = append(b.text, part...)
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				end = true
				if !errors.Is(err, io.EOF) {
					b.err = err
				}
			}
		}
		line += bytes.Count(b.text, []byte("\n"))
		select {
		case <-stop:
			return
		case order <- b:
		}
		work <- b
		if end {
			return
		}
	}
}

// decode takes the lines apart. A failure to read comes after what was read.
func (b *batch) decode() {
	defer close(b.done)
	r := NewReader(bytes.NewReader(b.text))
	r.line = b.firstLine - 1
	for {
		e, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				b.err = err
			}
			return
		}
		if t := e.LoadTick; t != nil {
			t.Latency.unpackNow()
			t.Connect.unpackNow()
		}
		b.events = append(b.events, e)
	}
}

// unpackNow saves all who read the histogram from taking it apart themselves. What is wrong with it, they say.
func (e *Histogram) unpackNow() {
	if e == nil {
		return
	}
	if h, err := unpack(e.HDR); err == nil {
		e.packed = h
	}
}
