package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"proxylab/lab/lbaas/plane/vip"
)

// InstanceOptions say where an instance lives.
type InstanceOptions struct {
	Name      string    // in Status.Instance
	Interface string    // the link that VIPs are added to; "": addresses are left alone
	Log       io.Writer // nil: nothing is logged
}

const (
	beatEvery   = 100 * time.Millisecond
	statusEvery = time.Second
	// maxUntold bounds what waits to be told to the other instance.
	maxUntold = 64 * 1024
)

// InstanceMain is Instance with the arguments of a command line: those of the verb lbaas-instance.
func InstanceMain(ctx context.Context, stdin io.Reader, stdout io.Writer, args []string) error {
	cmd := Commands()[0]
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	return cmd.ExecuteContext(ctx)
}

// Instance carries the traffic of balancers as the lines of stdin say, until stdin ends or ctx does. It begins as a standby.
func Instance(ctx context.Context, stdin io.Reader, stdout io.Writer, o InstanceOptions) error {
	in, err := newInstance(stdout, o)
	if err != nil {
		return err
	}
	defer in.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages := make(chan message)
	ended := make(chan error, 1)
	go func() { ended <- readMessages(ctx, stdin, messages) }()
	beats, seconds := time.NewTicker(beatEvery), time.NewTicker(statusEvery)
	defer beats.Stop()
	defer seconds.Stop()
	for err == nil {
		select {
		case m := <-messages:
			err = in.take(m)
		case <-in.wake:
			err = in.report(in.changed())
		case now := <-beats.C:
			err = in.beat(now)
		case <-seconds.C:
			in.retry()
			err = in.report(in.all())
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return err
}

func readMessages(ctx context.Context, stdin io.Reader, out chan<- message) error {
	dec := json.NewDecoder(stdin)
	for {
		var m message
		if err := dec.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read what to do: %w", err)
		}
		select {
		case out <- m:
		case <-ctx.Done():
			return nil
		}
	}
}

// instance carries traffic. The goroutine of Instance owns it, but for what its mutex guards.
type instance struct {
	o         InstanceOptions
	log       *slog.Logger
	out       *lineWriter
	role      string
	link      *vip.Link // nil: addresses are left alone
	balancers map[string]*balancer
	applied   int64

	onLink      []netip.Addr // VIPs that the link has
	linkProblem string
	announce    announcer

	wake   chan struct{}
	mu     sync.Mutex
	dirty  map[string]bool // balancers with news
	untold []learned
}

func newInstance(stdout io.Writer, o InstanceOptions) (*instance, error) {
	in := &instance{
		o: o, log: slog.New(slog.DiscardHandler), out: newLineWriter(stdout), role: Standby,
		balancers: map[string]*balancer{}, wake: make(chan struct{}, 1), dirty: map[string]bool{},
	}
	if o.Log != nil {
		in.log = slog.New(slog.NewTextHandler(o.Log, nil))
	}
	if o.Interface != "" {
		link, err := vip.Open(o.Interface)
		if err != nil {
			return nil, err
		}
		in.link = link
		in.setVIPs(nil) // an instance that was killed has left its own
	}
	return in, nil
}

func (in *instance) close() {
	if in.link != nil {
		in.setVIPs(nil)
		in.link.Close()
	}
	for _, b := range in.balancers {
		b.close()
	}
}

func (in *instance) take(m message) error {
	switch {
	case m.Apply != nil:
		return in.apply(patch{Set: *m.Apply, Delete: in.missing(*m.Apply)})
	case m.Patch != nil:
		return in.apply(*m.Patch)
	case m.Role != "":
		return in.become(m.Role)
	case m.Tell:
		return in.out.write(report{Learned: in.known()})
	}
	in.learn(m.Learn)
	return nil
}

// missing are the balancers that are not in the whole desired state.
func (in *instance) missing(whole []Balancer) []string {
	var gone []string
	for id := range in.balancers {
		if !slices.ContainsFunc(whole, func(b Balancer) bool { return b.ID == id }) {
			gone = append(gone, id)
		}
	}
	return gone
}

// apply takes what is different, and acknowledges it.
func (in *instance) apply(p patch) error {
	for _, id := range p.Delete {
		if b := in.balancers[id]; b != nil {
			b.close()
			delete(in.balancers, id)
		}
	}
	var touched []*balancer
	for _, spec := range p.Set {
		b := in.balancers[spec.ID]
		if b == nil {
			b = newBalancer(in)
			in.balancers[spec.ID] = b
		}
		b.update(spec)
		touched = append(touched, b)
	}
	in.address()
	in.applied++
	if err := in.report(touched); err != nil {
		return err
	}
	return in.out.write(report{Applied: in.applied})
}

// become takes a role: sockets before addresses, so that nobody is refused; the other way round in the end.
func (in *instance) become(role string) error {
	if role != Active && role != Standby {
		return fmt.Errorf("role %q is not known", role)
	}
	was := in.role
	in.role = role
	kept := int64(0)
	if role == Standby && was == Active {
		in.address()
		for _, b := range in.balancers {
			b.drop()
		}
	}
	for _, b := range in.balancers {
		b.listen()
		if role == Active {
			kept += b.kept()
		}
		b.sent = Status{}
	}
	in.address()
	if err := in.out.write(report{Role: role, Kept: kept}); err != nil {
		return err
	}
	return in.report(in.all())
}

// retry opens sockets that could not be opened.
func (in *instance) retry() {
	for _, b := range in.balancers {
		if b.hasProblems() {
			b.listen()
		}
	}
	if in.linkProblem != "" {
		in.onLink = nil
		in.address()
	}
}

// beat gives a sign of life and tells what was decided since the last one.
func (in *instance) beat(now time.Time) error {
	n := beat{}
	for _, b := range in.balancers {
		f := b.flows()
		n.TCP += f.TCP
		n.UDP += f.UDP
	}
	in.mu.Lock()
	untold := in.untold
	in.untold = nil
	in.mu.Unlock()
	if in.link != nil && in.role == Active && in.announce.due(now) {
		if err := in.link.Announce(in.onLink); err != nil {
			in.log.Warn("announce VIPs", "error", err)
		}
	}
	return in.out.write(report{Beat: &n, Learned: untold})
}
