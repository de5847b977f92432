package play

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/usage"
	"proxylab/lab"
	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/octavia"
	"proxylab/lab/lbaas/plane"
)

// partInterval is the time between two readings of what the LBaaS costs.
const partInterval = time.Second

// balancers is what a subject sees of the load balancers of its lab, and does to them.
type balancers struct {
	lab  *lab.LBaaS
	emit func(events.Event)

	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a state has changed
	model   balancerModel
}

// balancersOf are those of a lab; nil: it has none.
func balancersOf(ctx context.Context, l lab.Lab) (*lab.LBaaS, error) {
	balanced, ok := l.(lab.Balanced)
	if !ok {
		return nil, nil
	}
	return balanced.LBaaS(ctx)
}

// watchBalancers begins to log what becomes of the load balancers, and what they cost, until close.
func watchBalancers(ctx context.Context, l *lab.LBaaS, emit func(events.Event)) (*balancers, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &balancers{lab: l, emit: emit, cancel: cancel, changed: make(chan struct{}), model: newBalancerModel()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL+"/proxylab/events", nil)
	if err != nil {
		cancel()
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request) // which tells of everything from now on
	if err != nil {
		cancel()
		return nil, fmt.Errorf("events of the LBaaS: %w", err)
	}
	b.group.Go(func() {
		defer answer.Body.Close()
		if err := b.follow(answer.Body); err != nil && ctx.Err() == nil {
			emit(note("what the LBaaS does is not logged any more: %v", err))
		}
	})
	b.group.Go(func() { b.measure(ctx) })
	return b, nil
}

// close ends the logging. What was on its way is logged.
func (b *balancers) close() {
	b.cancel()
	b.group.Wait()
}

// follow reads the stream of events.
func (b *balancers) follow(stream io.Reader) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 64<<10), 4<<20)
	for lines.Scan() {
		var e lbaas.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("not an event: %q: %w", lines.Text(), err)
		}
		b.tell(e)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// tell logs what the server has told.
func (b *balancers) tell(e lbaas.Event) {
	switch {
	case e.Call != nil:
		b.emit(events.Event{Time: e.Time, LBCall: callOf(e.Call)})
	case e.State != nil:
		b.emit(events.Event{Time: e.Time, LBState: b.state(e.Time, e.State)})
	case e.Fault != nil:
		b.emit(events.Event{Time: e.Time, LBFault: faultOf(e.Fault)})
	case e.Failover != nil:
		b.emit(events.Event{Time: e.Time, LBFailover: failoverOf(e.Failover)})
	case e.Problem != nil && e.Problem.Text != "":
		b.emit(note("a listener of load balancer %s carries no traffic: %s", e.Problem.LoadBalancer, e.Problem.Text))
	case e.Dropped > 0:
		b.emit(note("%d events of the LBaaS were lost: figures about it are too low", e.Dropped))
	}
}

func callOf(c *lbaas.Call) *events.LBCall {
	call := &events.LBCall{
		Operation: c.Operation, Write: c.Method != http.MethodGet && c.Method != http.MethodHead,
		Code: c.Status, Seconds: c.Seconds, Client: clientOf(c.Client), Fault: c.Fault,
	}
	if call.Operation == "" { // of a path that is none of the API's, such as the list of its versions
		call.Operation = c.Service
	}
	return call
}

// clientOf is a short name of who asks.
func clientOf(agent string) string {
	switch {
	case strings.Contains(agent, "cloud-controller-manager"):
		return "cloud"
	case strings.Contains(agent, "openstack"), strings.Contains(agent, "osc-lib"), strings.Contains(agent, "keystoneauth"):
		return "openstack"
	}
	name, _, _ := strings.Cut(agent, "/")
	return name
}

func faultOf(f *lbaas.Fault) *events.LBFault {
	what := map[string]string{"on": "on", "off": "off", "strike": "struck"}[f.What]
	if what == "" {
		what = "done"
	}
	return &events.LBFault{Name: f.Name, What: what, Text: strings.TrimSpace(f.What + " " + f.Target)}
}

func failoverOf(f *plane.Failover) *events.LBFailover {
	lost, kept := int(f.FlowsLost), int(f.FlowsKept)
	return &events.LBFailover{From: f.From, To: f.To, Reason: f.Cause, Seconds: f.Seconds, FlowsLost: &lost, FlowsKept: &kept}
}

// state notes a change, and is what is logged of it.
func (b *balancers) state(at time.Time, s *octavia.State) *events.LBState {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.model.change(at, s)
	close(b.changed)
	b.changed = make(chan struct{})
	return e
}

// measure logs what each part costs, until ctx ends, and once more then.
func (b *balancers) measure(ctx context.Context) {
	ticker := time.NewTicker(partInterval)
	defer ticker.Stop()
	base := map[int]float64{}
	var parts map[string]int
	for most, first := 0, true; ; first = false {
		if len(parts) == 0 || len(parts) < most { // looking for processes costs, and they stay what they are
			var err error
			if parts, err = b.lab.Processes(); err != nil {
				b.emit(note("what the LBaaS costs is not measured any more: %v", err))
				return
			}
			most = max(most, len(parts))
		}
		for part, pid := range parts {
			s, err := usage.Process(pid)
			if errors.Is(err, usage.ErrGone) {
				delete(parts, part) // another one may be in its place
				continue
			}
			if err != nil {
				b.emit(note("what %s costs is not measured: %v", part, err))
				continue
			}
			if first { // it may have worked for others before
				base[pid] = s.CPUSeconds
			}
			b.emit(events.Event{PartUsage: &events.PartUsage{
				Part: part, PID: pid, CPUSeconds: s.CPUSeconds - base[pid], RSSBytes: s.RSSBytes, MaxRSSBytes: s.MaxRSSBytes,
			}})
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}
