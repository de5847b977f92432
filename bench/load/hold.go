package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// messageEvery is how often a held connection is used, so that it is noticed soon when it broke.
	messageEvery = 500 * time.Millisecond
	// messageRate bounds all messages together: a load of very many connections uses each less often.
	messageRate = 4000

	messageLength = 16 + 1
)

// runHold opens Count connections and keeps them, each with a message now and then that must come back.
//
// Those that the load closes at its end count as open in the last tick.
func runHold(j *job) error {
	h := &holder{job: j, slots: make([]atomic.Pointer[held], j.spec.Count)}
	rate := j.spec.Rate
	if rate == 0 {
		rate = float64(j.spec.Count)
	}
	opening := schedule{start: time.Now(), rate: rate}
	next := j.spec.roundRobin()
	var wg sync.WaitGroup
	for i := range h.slots {
		wg.Go(func() { h.keep(i, opening.due(uint64(i)), next) })
	}
	messages := min(float64(j.spec.Count)*j.spec.Pace/messageEvery.Seconds(), messageRate)
	j.pace(messages, func(seq uint64, due time.Time) bool {
		if c := h.slots[seq%uint64(len(h.slots))].Load(); c != nil {
			c.send(seq, due)
		}
		return true
	})
	wg.Wait()
	return nil
}

// holder is the set of connections.
type holder struct {
	job   *job
	slots []atomic.Pointer[held] // nil: not open
}

// keep opens the connection of one slot when it is due and reads it until it breaks or the load ends.
func (h *holder) keep(slot int, due time.Time, target func() string) {
	j := h.job
	pause(j.stop, time.Until(due))
	for j.stop.Err() == nil {
		err := h.hold(slot, target())
		if err == nil {
			return
		}
		j.fail(err)
		if !j.spec.Reopen {
			return
		}
		pause(j.stop, j.spec.retryAfter())
	}
}

// hold returns nil when the load ended before the connection broke.
func (h *holder) hold(slot int, target string) error {
	j := h.job
	ctx, cancel := context.WithTimeout(j.hard, j.spec.Timeout)
	defer cancel()
	c, err := j.open(ctx, target, 0)
	if err != nil {
		return err
	}
	keep(c.Conn)
	defer c.Close()
	held := &held{job: j, conn: c}
	h.slots[slot].Store(held)
	j.rec.held(1)
	defer context.AfterFunc(j.stop, held.finish)()
	defer context.AfterFunc(j.hard, func() { _ = c.Close() })()
	err = held.read()
	h.slots[slot].Store(nil)
	if err != nil {
		j.rec.held(-1)
	}
	return err
}

// held is one connection. The pacer sends on it, its own goroutine reads.
type held struct {
	job  *job
	conn *conn

	mu       sync.Mutex
	pending  []message // outstanding, in the order sent
	failed   error     // of a send
	finished bool      // nothing more is sent
}

type message struct {
	seq uint64
	due time.Time
}

func (m message) bytes() []byte { return fmt.Appendf(nil, "%016x\n", m.seq) }

// send writes one message. It does not block: so little is outstanding that it fits the socket's buffer.
func (c *held) send(seq uint64, due time.Time) {
	m := message{seq, due}
	c.job.rec.sent(time.Since(due))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished || c.failed != nil {
		return
	}
	c.pending = append(c.pending, m)
	if len(c.pending) == 1 {
		_ = c.conn.SetReadDeadline(due.Add(c.job.spec.Timeout)) // fails when closed, which the reader sees
	}
	if _, err := c.conn.Write(m.bytes()); err != nil {
		c.failed = err
		c.wake()
	}
}

// finish lets the reader end once nothing is outstanding.
func (c *held) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	if len(c.pending) == 0 {
		c.wake()
	}
}

// wake makes the reader look.
func (c *held) wake() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) }

// read takes the echoes. It returns nil after finish, or why the connection broke.
func (c *held) read() error {
	for {
		// What a deadline cuts off stays in the buffer for the next time.
		answer, err := c.conn.in.Peek(messageLength)
		if err == nil {
			err = c.echoed(answer, time.Now())
			_, _ = c.conn.in.Discard(messageLength)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = c.timedOut()
			if err == nil {
				continue
			}
		}
		if errors.Is(err, errFinished) {
			return nil
		}
		if err != nil {
			return c.cause(err)
		}
	}
}

// cause is why a read failed: where a send failed before, that is the reset, and a read sees no more than the end.
func (c *held) cause(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil && errors.Is(err, io.EOF) {
		return c.failed
	}
	return err
}

// errFinished ends a reader in good order.
var errFinished = errors.New("finished")

// echoed ends the oldest message.
func (c *held) echoed(answer []byte, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq, err := strconv.ParseUint(string(answer[:messageLength-1]), 16, 64)
	if err != nil || len(c.pending) == 0 || seq != c.pending[0].seq {
		return &malformedError{string(answer)}
	}
	c.job.rec.success(c.conn.pod, now.Sub(c.pending[0].due), int64(len(answer)))
	c.pending = c.pending[1:]
	switch {
	case len(c.pending) > 0:
		return c.conn.SetReadDeadline(c.pending[0].due.Add(c.job.spec.Timeout))
	case c.finished:
		return errFinished
	}
	return c.conn.SetReadDeadline(time.Time{})
}

// timedOut tells why a read ended by its deadline; nil: for no reason that holds now.
func (c *held) timedOut() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failed != nil:
		return c.failed
	case len(c.pending) > 0 && !time.Now().Before(c.pending[0].due.Add(c.job.spec.Timeout)):
		return os.ErrDeadlineExceeded
	case len(c.pending) > 0:
		return c.conn.SetReadDeadline(c.pending[0].due.Add(c.job.spec.Timeout))
	case c.finished:
		return errFinished
	}
	return c.conn.SetReadDeadline(time.Time{})
}
