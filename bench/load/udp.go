package load

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// runUDP sends datagrams and awaits their answers: each from a socket of its own, or all from a fixed set of
// sockets, which are as many flows to whatever tracks connections on the way.
func runUDP(j *job) error {
	if j.spec.Connections == KeepAlive {
		return runFlows(j)
	}
	workers := j.spec.workers()
	if j.spec.SourcePort > 0 {
		workers = j.spec.Count
	}
	next := j.spec.roundRobin()
	mark := newMark()
	var seq atomic.Uint64
	j.openLoop(workers, func(worker int, due time.Time) {
		ctx, cancel := context.WithDeadline(j.hard, due.Add(j.spec.Timeout))
		defer cancel()
		j.rec.sent(time.Since(due))
		pod, size, err := exchange(ctx, next(), j.spec.port(worker), mark.payload(seq.Add(1)))
		if err != nil {
			j.fail(err)
			return
		}
		j.rec.success(pod, time.Since(due), int64(size))
	})
	return nil
}

// exchange sends one datagram from a new socket and awaits its answer, until ctx's deadline.
func exchange(ctx context.Context, target string, port int, payload []byte) (pod string, size int, err error) {
	if ctx.Err() != nil {
		return "", 0, errUnsent
	}
	c, err := dial(ctx, "udp", target, port, nil)
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	defer interrupt(ctx, c)()
	if err := reportICMP(c.(*net.UDPConn)); err != nil {
		return "", 0, err
	}
	if _, err := c.Write(payload); err != nil {
		return "", 0, err
	}
	buf := make([]byte, 2048)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return "", 0, err
		}
		if !bytes.HasSuffix(buf[:n], payload) {
			continue // meant for an earlier socket with this port
		}
		pod, err := podOf(buf[:n])
		return pod, n, err
	}
}

// mark tells a load's datagrams from those of another that had the same port before.
type mark string

func newMark() mark {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return mark(hex.EncodeToString(b[:]))
}

// payload of a request: the mark, then its number, both of fixed length.
func (m mark) payload(seq uint64) []byte {
	const digits = "0000000000000000"
	n := strconv.FormatUint(seq, 16)
	return []byte(string(m) + digits[len(n):] + n)
}

// payloadLength is what payload makes.
const payloadLength = 8 + 16

// seq reads a payload that ends the given bytes; ok is false for what is not this load's.
func (m mark) seq(b []byte) (seq uint64, ok bool) {
	if len(b) < payloadLength {
		return 0, false
	}
	b = b[len(b)-payloadLength:]
	if string(b[:8]) != string(m) {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(b[8:]), 16, 64)
	return seq, err == nil
}

// runFlows sends all requests from Count sockets.
func runFlows(j *job) error {
	mark := newMark()
	flows := make([]*flow, 0, j.spec.Count)
	defer func() {
		for _, f := range flows {
			_ = f.conn.Close()
			<-f.done
		}
	}()
	for i := range j.spec.Count {
		f, err := j.newFlow(j.spec.Targets[i%len(j.spec.Targets)], j.spec.port(i), mark)
		if err != nil {
			return err
		}
		flows = append(flows, f)
	}
	expired := make(chan struct{})
	paced := make(chan struct{})
	go func() {
		defer close(expired)
		expire(j, flows, paced)
	}()
	j.pace(j.spec.Rate, func(seq uint64, due time.Time) bool {
		flows[seq%uint64(len(flows))].send(seq, due)
		return true
	})
	close(paced)
	<-expired
	return nil
}

// expire fails what was not answered in time. It returns once nothing is outstanding after the last was sent.
func expire(j *job, flows []*flow, paced <-chan struct{}) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		last := false
		select {
		case <-paced:
			last = true // read before counting: nothing is added from here on
		default:
		}
		outstanding := 0
		for _, f := range flows {
			outstanding += f.expire(time.Now())
		}
		if last && outstanding == 0 {
			return
		}
		select {
		case <-ticker.C:
		case <-j.hard.Done():
			return
		}
	}
}

// flow is one UDP socket, with requests outstanding on it.
type flow struct {
	job  *job
	conn *net.UDPConn
	mark mark
	done chan struct{} // closed when its reader has ended

	mu      sync.Mutex
	pending map[uint64]time.Time // number -> when it was due
	order   []uint64             // numbers in the order sent; may hold some that are not pending any more
}

func (j *job) newFlow(target string, port int, m mark) (*flow, error) {
	c, err := dial(j.hard, "udp", target, port, nil)
	if err != nil {
		return nil, err
	}
	f := &flow{job: j, conn: c.(*net.UDPConn), mark: m, done: make(chan struct{}), pending: map[uint64]time.Time{}}
	if err := reportICMP(f.conn); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go f.read()
	return f, nil
}

// send sends a request, and fails it where that does.
func (f *flow) send(seq uint64, due time.Time) {
	f.job.rec.sent(time.Since(due))
	f.mu.Lock()
	f.pending[seq] = due
	f.order = append(f.order, seq)
	f.mu.Unlock()
	payload := f.mark.payload(seq)
	// A send may fail with the error of an earlier datagram, and sends nothing then.
	for attempt := 1; ; attempt++ {
		_, err := f.conn.Write(payload)
		if err == nil {
			return
		}
		if f.drain() == 0 || attempt == 3 {
			f.end(seq, func(time.Time) { f.job.fail(err) })
			return
		}
	}
}

// read takes answers and errors until the socket is closed.
func (f *flow) read() {
	defer close(f.done)
	buf := make([]byte, 2048)
	for {
		n, err := f.conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if f.drain() == 0 {
				pause(f.job.hard, time.Millisecond) // the sender took it; in any case, do not spin
			}
			continue
		}
		seq, ok := f.mark.seq(buf[:n])
		if !ok {
			continue
		}
		now := time.Now()
		f.end(seq, func(due time.Time) {
			pod, err := podOf(buf[:n])
			if err != nil {
				f.job.fail(err)
				return
			}
			f.job.rec.success(pod, now.Sub(due), int64(n))
		})
	}
}

// end ends a request, unless it has ended already.
func (f *flow) end(seq uint64, record func(due time.Time)) {
	f.mu.Lock()
	due, ok := f.pending[seq]
	delete(f.pending, seq)
	f.mu.Unlock()
	if ok {
		record(due)
	}
}

// expire fails what is overdue and returns how many are still outstanding.
func (f *flow) expire(now time.Time) (outstanding int) {
	for {
		f.mu.Lock()
		for len(f.order) > 0 {
			if _, pending := f.pending[f.order[0]]; pending {
				break
			}
			f.order = f.order[1:]
		}
		if len(f.order) == 0 || now.Before(f.pending[f.order[0]].Add(f.job.spec.Timeout)) {
			outstanding = len(f.pending)
			f.mu.Unlock()
			return outstanding
		}
		seq := f.order[0]
		f.mu.Unlock()
		f.end(seq, func(time.Time) { f.job.fail(context.DeadlineExceeded) })
	}
}

// oldest returns the number of the request that is outstanding for longest.
func (f *flow) oldest() (seq uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, seq := range f.order {
		if _, pending := f.pending[seq]; pending {
			return seq, true
		}
	}
	return 0, false
}
