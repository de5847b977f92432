package play

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/usage"
	"proxylab/lab"
	"proxylab/scenarios"
)

// subject is one proxier being played once.
type subject struct {
	Plan
	api   *api
	nodes []lab.Node
	spec  lab.ProxierSpec
	id    events.Subject

	stage    *stage
	proxiers []*nodeProxier
	clients  map[string]client // where traffic comes from, by the node that a load names; "": where none is named
	direct   []string          // addresses of the pod that direct traffic goes to
	changes  nodeChanges

	balancers *balancers // nil: the lab has none
	publisher *publisher // of the same

	mu     sync.Mutex
	loads  map[string]*runningLoad
	probes map[string]*prober
}

// Closing down a subject is bounded. When it was interrupted, requests that wait for an answer are not waited for until
// their timeout: Ctrl-C is obeyed within seconds.
const (
	finishLimit      = 30 * time.Second
	interruptedLimit = 1500 * time.Millisecond
	tearDownLimit    = 90 * time.Second
)

// play sets the scene, takes the steps and clears up, whatever happens on the way.
func (s *subject) play(ctx context.Context) error {
	s.loads, s.probes = map[string]*runningLoad{}, map[string]*prober{}
	s.emit(events.Event{SubjectStarted: &events.SubjectStarted{}})
	stopSoftirq := s.measureSoftirq()
	err := s.startBalancers(ctx)
	if err == nil {
		err = s.setUp(ctx)
	}
	if err == nil {
		err = s.steps(ctx)
	}
	limit := lab.Patience(finishLimit)
	if ctx.Err() != nil {
		limit = interruptedLimit
	}
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	services := s.probed()
	err = errors.Join(err, s.finish(finishing))
	cancel()
	s.readRules(ctx, services...) // nothing is measured any more that this could disturb
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.Patience(tearDownLimit))
	defer cancel()
	err = errors.Join(err, s.tearDown(ending, ctx.Err() != nil))
	stopSoftirq()
	ended := events.SubjectEnded{}
	switch {
	case ctx.Err() != nil:
		ended.Error = "interrupted"
	case err != nil:
		ended.Error = err.Error()
	}
	s.emit(events.Event{SubjectEnded: &ended})
	return err
}

// emit stamps an event with the subject.
func (s *subject) emit(e events.Event) {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	e.Subject = &id
	s.Emit(e)
}

// synced takes from the subject's own proxier which rule back end it found, and logs the sync.
func (s *subject) synced(proxier, backend string, sync events.Event) {
	s.mu.Lock()
	if proxier == s.spec.Name && backend != "" {
		s.id.Backend = backend
	}
	s.mu.Unlock()
	s.emit(sync)
}

// setUp brings the proxier and the scenario's objects to where the steps can begin: every Service that will be loaded
// answers.
func (s *subject) setUp(ctx context.Context) error {
	for _, n := range s.nodes {
		s.proxiers = append(s.proxiers, &nodeProxier{lab: s.Lab, node: n.Name, emit: s.emit, synced: s.synced})
	}
	err := onAll(ctx, s.proxiers, func(ctx context.Context, n *nodeProxier) error { return n.start(ctx, s.spec) })
	if err != nil {
		return err
	}
	s.stage, err = newStage(ctx, s.api, s.namespaces(), s.endpointsChanged, s.publisher)
	if err != nil {
		return err
	}
	if err := s.startClients(ctx); err != nil {
		return err
	}
	if err := s.stage.apply(ctx, s.Scenario.Objects); err != nil {
		return err
	}
	for _, o := range s.Scenario.Objects {
		if o.GetKind() == "Deployment" {
			if err := s.stage.awaitDeployment(ctx, namespaceOf(o), o.GetName(), -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// namespaces are all that the scenario speaks of, and the one of the client pod.
func (s *subject) namespaces() []string {
	names := []string{clientNamespace, "default"}
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, o := range s.Scenario.Objects {
		add(o.GetNamespace())
	}
	for _, step := range s.Scenario.Spec.Steps {
		if step.Apply == nil {
			continue
		}
		for _, o := range step.Apply.Objects {
			add(o.GetNamespace())
		}
	}
	return names
}

// steps takes them in order. The first that fails ends the subject.
func (s *subject) steps(ctx context.Context) error {
	for i, step := range s.Scenario.Spec.Steps {
		if err := s.take(ctx, i, step); err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, step, err)
		}
	}
	return nil
}

// take takes one, and says so in the log.
func (s *subject) take(ctx context.Context, index int, step scenarios.Step) error {
	s.emit(events.Event{StepStarted: &events.StepStarted{Index: index, Kind: step.Kind(), Text: step.String()}})
	began := time.Now()
	err := s.step(ctx, step)
	ended := events.StepEnded{Index: index, Seconds: time.Since(began).Seconds()}
	if err != nil {
		ended.Error = err.Error()
	}
	s.emit(events.Event{StepEnded: &ended})
	return err
}

// finish ends the loads and then the probes, so that what was still under way is counted.
func (s *subject) finish(ctx context.Context) error {
	s.mu.Lock()
	var names []string
	for name := range s.loads {
		names = append(names, name)
	}
	probes := s.probes
	s.probes = nil
	s.mu.Unlock()
	err := errors.Join(s.stopLoads(ctx, names), stopProbes(probes))
	if s.publisher != nil {
		err = errors.Join(err, s.publisher.close())
	}
	if s.balancers != nil { // to clear up is not the scenario's doing any more
		s.balancers.close()
	}
	return err
}

// tearDown leaves the nodes and the namespaces as they were before the subject. When the run was interrupted and the
// lab is about to go, only the proxiers' last figures are still wanted.
func (s *subject) tearDown(ctx context.Context, interrupted bool) error {
	if interrupted {
		err := onAll(ctx, s.proxiers, func(ctx context.Context, n *nodeProxier) error {
			err := n.stop(ctx)
			n.unfollow()
			return err
		})
		if s.stage != nil {
			s.stage.stop()
		}
		return err
	}
	err := s.reviveNodes(ctx)
	if s.balancers != nil {
		err = errors.Join(err, s.balancers.clear(ctx, scenarios.Names{"all"}))
	}
	if s.stage != nil {
		err = errors.Join(err, s.stage.close(ctx))
	}
	err = errors.Join(err, onAll(ctx, s.proxiers, func(ctx context.Context, n *nodeProxier) error {
		left, err := n.close(ctx)
		if len(left) > 0 {
			s.emit(note("%s left behind on %s after its clean-up: %v", n.last.Name, n.node, left))
		}
		return err
	}))
	return errors.Join(err, s.removeNodes(ctx))
}

// startBalancers begins to log what becomes of load balancers, where the scenario asks for them.
func (s *subject) startBalancers(ctx context.Context) error {
	if s.Scenario.Spec.LBaaS == nil {
		return nil
	}
	l, err := balancersOf(ctx, s.Lab)
	if err != nil {
		return err
	}
	if s.balancers, err = watchBalancers(ctx, l, s.emit); err != nil {
		return err
	}
	s.publisher, err = startPublisher(ctx, s.Lab, s.emit)
	return err
}

// measureSoftirq emits the machine's softirq time, counted from now, until the returned function is called.
func (s *subject) measureSoftirq() (stop func()) {
	begin, err := usage.Softirq()
	if err != nil {
		s.emit(note("kernel network time (softirq) is not measured: %v", err))
		return func() {}
	}
	return func() {
		end, err := usage.Softirq()
		if err != nil {
			s.emit(note("kernel network time (softirq) is not measured: %v", err))
			return
		}
		s.emit(events.Event{Softirq: &events.Softirq{Seconds: end - begin}})
	}
}

// step takes one.
func (s *subject) step(ctx context.Context, step scenarios.Step) error {
	switch {
	case step.Load != nil:
		return s.load(ctx, *step.Load)
	case step.Wait != nil:
		return s.wait(ctx, step.Wait.Duration())
	case step.Scale != nil:
		return s.scale(ctx, *step.Scale)
	case step.Patch != nil:
		return s.patch(ctx, *step.Patch)
	case step.Churn != nil:
		return s.churn(ctx, *step.Churn)
	case step.Swap != nil:
		return s.swap(ctx, *step.Swap)
	case step.Stop != nil:
		return s.stopLoads(ctx, step.Stop)
	case step.Apply != nil:
		return s.stage.apply(ctx, step.Apply.Objects)
	case step.Delete != nil:
		return s.stage.remove(ctx, step.Delete.Ref())
	case step.Node != nil:
		return s.node(ctx, *step.Node)
	case step.LB != nil:
		return s.lb(ctx, *step.LB)
	}
	return fmt.Errorf("step %q cannot be played", step)
}
