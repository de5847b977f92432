package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options say how a Set runs its instances.
type Options struct {
	// Names of the instances: one, or two of which one is the standby.
	Names []string
	// Start starts the instance with this name: the verb lbaas-instance, see StartCommand. ctx ends with the Set.
	Start func(ctx context.Context, name string) (Process, error)
	// Fence makes sure that an instance which has ended answers for no VIP any more, before another one does; nil where
	// nothing of it can be left. For instances with an interface that is RemoveVIPs, in its network namespace: the kernel
	// would go on answering for the addresses there until the instance is started again.
	Fence func(name string) error
	// HungAfter is how long an instance may be silent until it counts as hung, is killed and replaced; 0: 500 ms for a
	// process that is stopped, 3 s for one that may just be starved of CPU.
	HungAfter time.Duration
	Log       *slog.Logger // nil: nothing is logged
}

// Failover is what one change of the active instance was like.
type Failover struct {
	From  string `json:"from"`
	To    string `json:"to"` // the same as From where there is no other
	Cause string `json:"cause"`
	// Seconds from the last sign of life of From, or from Kill, until To carried traffic.
	Seconds float64 `json:"seconds"`
	// FlowsLost were carried by From: its TCP connections, and UDP flows that To did not know.
	FlowsLost int64 `json:"flowsLost"`
	// FlowsKept are UDP flows that go on at the same member.
	FlowsKept int64 `json:"flowsKept"`
}

// Causes of a failover.
const (
	Died    = "died"    // the process ended
	Hung    = "hung"    // it gave no sign of life
	Killed  = "killed"  // by Set.Kill
	Ordered = "ordered" // by Set.Failover
)

// Set is the data plane: one instance, or an active one and a standby. An instance that ends or hangs is replaced.
type Set struct {
	o       Options
	ctx     context.Context // of the processes
	cancel  context.CancelFunc
	inbox   chan func(*state)
	closing chan struct{}
	done    chan struct{}

	statuses *pump[Status]
	events   *pump[Failover]
}

// errClosed is what a closed Set says.
var errClosed = errors.New("the data plane is closed")

// NewSet starts the instances. The caller closes the Set.
func NewSet(o Options) *Set {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{
		o: o, inbox: make(chan func(*state)), closing: make(chan struct{}), done: make(chan struct{}),
		statuses: newPump(func(st Status) string { return st.ID }),
		events:   newPump(func(Failover) string { return "" }),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s
}

// Apply makes the instances carry these balancers, and no others, and returns when the active one does (a VIP that
// cannot be bound is a problem in its Status, not an error). It fails with ctx, and then the state is still wanted, and
// after Close.
func (s *Set) Apply(ctx context.Context, balancers []Balancer) error {
	result, taken := make(chan error, 1), make(chan struct{})
	if err := s.do(ctx, func(st *state) { defer close(taken); st.apply(balancers, result) }); err != nil {
		return err
	}
	<-taken // from here on the balancers are the caller's again
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("apply balancers: %w", ctx.Err())
	case <-s.done:
		return errClosed
	}
}

// Statuses are what the active instance sees: each is whole for its balancer, and balancers without news are left out.
// Counters go on over failovers. A reader that is slow gets the latest of each. Closed by Close.
func (s *Set) Statuses() <-chan []Status { return s.statuses.out }

// Events are the failovers; a reader that is slow gets the last thousand. Closed by Close.
func (s *Set) Events() <-chan []Failover { return s.events.out }

// Kill ends an instance as a crash would. The name "" is the active one.
func (s *Set) Kill(name string) error { return s.end(name, Killed) }

// Failover makes the standby active by ending the active instance.
func (s *Set) Failover() error { return s.end("", Ordered) }

func (s *Set) end(name, cause string) error {
	result := make(chan error, 1)
	if err := s.do(context.Background(), func(st *state) { result <- st.kill(name, cause) }); err != nil {
		return err
	}
	return <-result
}

// ActiveName is the instance that carries traffic now; "" while none does.
func (s *Set) ActiveName() string { return read(s, (*state).activeName) }

// StandbyName is the instance that would take over now; "" where none could.
func (s *Set) StandbyName() string { return read(s, (*state).standbyName) }

// Flows is what the active instance carried at its last sign of life, a tenth of a second ago at most: TCP connections, and
// flows of UDP.
func (s *Set) Flows() (tcp, udp int64) {
	b := read(s, (*state).flows)
	return b.TCP, b.UDP
}

// read asks the state; of a closed Set the answer is nothing.
func read[T any](s *Set, of func(*state) T) (value T) {
	result := make(chan T, 1)
	if err := s.do(context.Background(), func(st *state) { result <- of(st) }); err != nil {
		return value
	}
	return <-result
}

// Close ends the instances and waits until they are gone. It is called once.
func (s *Set) Close() {
	close(s.closing)
	<-s.done
}

// do runs f in the goroutine that owns the state.
func (s *Set) do(ctx context.Context, f func(*state)) error {
	select {
	case s.inbox <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return errClosed
	}
}

// tell is do for the goroutines of a peer, which end with the Set.
func (s *Set) tell(f func(*state)) {
	select {
	case s.inbox <- f:
	case <-s.done:
	}
}

func (s *Set) run() {
	defer close(s.done)
	defer s.statuses.close()
	defer s.events.close()
	st := newState(s)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for _, name := range s.o.Names {
		st.start(name)
	}
	for {
		select {
		case f := <-s.inbox:
			f(st)
		case now := <-tick.C:
			st.watch(now)
		case <-s.closing:
			st.shutdown()
			s.cancel()
			return
		}
	}
}
