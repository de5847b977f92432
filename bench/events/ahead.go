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
	r := bufio.NewReaderSize(in, readerBytes)
	for line := 1; ; {
		b := &batch{firstLine: line, done: make(chan struct{})}
		end := b.read(r)
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

// read takes a piece of the log, to the end of a line, and says whether it is the last one.
func (b *batch) read(r *bufio.Reader) (end bool) {
	b.text = make([]byte, batchBytes, batchBytes+readerBytes)
	n, err := io.ReadFull(r, b.text)
	b.text = b.text[:n]
	for err == nil && b.text[len(b.text)-1] != '\n' && len(b.text) <= maxLine {
		var rest []byte
		if rest, err = r.ReadSlice('\n'); errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
		b.text = append(b.text, rest...)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		b.err = err
	}
	return err != nil
}

// decode takes the lines apart. A failure to read comes after what was read.
func (b *batch) decode() {
	defer close(b.done)
	r := &Reader{in: bufio.NewReaderSize(bytes.NewReader(b.text), readerBytes), line: b.firstLine - 1}
	b.events = make([]Event, 0, bytes.Count(b.text, []byte("\n"))+1)
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
	_, _ = e.Packed()
}
