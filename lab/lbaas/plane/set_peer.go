package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// peer is a running instance, as the Set sees it.
type peer struct {
	name     string
	proc     Process
	started  time.Time
	lastSeen time.Time
	heard    bool // has written anything
	role     string
	beat     beat
	sent     []int64 // versions of the applies that are not acknowledged
	acked    int64   // applies acknowledged
	version  int64   // reached
	cause    string  // of its end, when the Set brought it about
	endedAt  time.Time
	out      outbox
}

// start starts an instance; where that fails it is tried again later.
func (st *state) start(name string) {
	proc, err := st.set.o.Start(st.set.ctx, name)
	if err != nil {
		st.set.o.Log.Error("load balancer instance does not start", "instance", name, "error", err)
		st.restartLater(name)
		return
	}
	now := time.Now()
	p := &peer{name: name, proc: proc, started: now, lastSeen: now}
	p.out.wake = make(chan struct{}, 1)
	st.peers[name] = p
	go p.out.run(proc)
	go func() {
		err := st.set.listen(p)
		p.out.close()
		st.set.tell(func(st *state) { st.ended(p, err) })
	}()
	p.send(message{Role: Standby})
	if st.want != nil {
		st.sendWhole(p)
	}
}

// listen reads the lines of an instance until it is gone.
func (s *Set) listen(p *peer) error {
	dec := json.NewDecoder(p.proc.Output())
	var err error
	for {
		var r report
		if err = dec.Decode(&r); err != nil {
			break
		}
		s.tell(func(st *state) { st.heard(p, r) })
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		_ = p.proc.Kill() // it would block for ever on a pipe that nobody reads
		return errors.Join(fmt.Errorf("not a report: %w", err), p.proc.Wait())
	}
	return p.proc.Wait()
}

func (st *state) restartLater(name string) {
	n := st.retries[name]
	st.retries[name] = n + 1
	wait := time.Duration(0)
	if n > 0 {
		wait = min(100*time.Millisecond<<min(n-1, 10), maxBackoff)
	}
	time.AfterFunc(wait, func() {
		st.set.tell(func(st *state) {
			if !st.closing && st.peers[name] == nil {
				st.start(name)
			}
		})
	})
}

func (p *peer) send(m message) { p.out.put(m) }

func (p *peer) sendApply(m message, version int64) {
	p.sent = append(p.sent, version)
	p.send(m)
}

func (p *peer) appliesSent() int64 { return p.acked + int64(len(p.sent)) }

// reached notes the acknowledgement of the n-th apply.
func (p *peer) reached(n int64) {
	for p.acked < n && len(p.sent) > 0 {
		p.version = p.sent[0]
		p.sent = p.sent[1:]
		p.acked++
	}
}

// stopped says whether the process is stopped, by a signal or a debugger.
func (p *peer) stopped() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.proc.PID()))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "t")
}

// outbox is what waits to be written to an instance. One that does not read makes nobody wait: it is soon killed.
type outbox struct {
	mu     sync.Mutex
	queue  []message
	closed bool
	wake   chan struct{}
}

func (o *outbox) put(m message) {
	o.mu.Lock()
	o.queue = append(o.queue, m)
	o.mu.Unlock()
	o.poke()
}

func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.poke()
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes until the outbox is closed, or the instance's input is.
func (o *outbox) run(proc Process) {
	w := newLineWriter(proc)
	for range o.wake {
		o.mu.Lock()
		batch, closed := o.queue, o.closed
		o.queue = nil
		o.mu.Unlock()
		for _, m := range batch {
			if w.write(m) != nil {
				return // it has ended, which its reader notices
			}
		}
		if closed {
			_ = proc.Close()
			return
		}
	}
}
