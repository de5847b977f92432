package play

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/bench/events"
	"proxylab/bench/load"
	"proxylab/bench/probe"
	"proxylab/lab"
	"proxylab/scenarios"
)

// prober watches one Service from where its traffic comes from: whether it answers at all, and how long after each
// change of its endpoints the data path obeys.
type prober struct {
	*worker
	service string // namespace/name
	awaited chan events.Awaited
}

// answerLimit is how long a Service may take from its objects being there to its first answer.
const answerLimit = time.Minute

// probe starts a prober for the Service of a load, unless there is one, and returns once the Service answers.
func (s *subject) probe(ctx context.Context, step scenarios.LoadStep, spec load.Spec, at lab.Place) error {
	namespace, name := scenarios.SplitName(step.Service)
	service := namespace + "/" + name
	s.mu.Lock()
	_, running := s.probes[service]
	s.mu.Unlock()
	kinds := map[string]string{load.HTTP: load.HTTP, load.Connect: load.Connect, load.Hold: load.Connect, load.UDP: load.UDP}
	kind := kinds[spec.Kind]
	if running || kind == "" {
		return nil
	}
	p := &prober{service: service, awaited: make(chan events.Awaited, 1)}
	probing := probe.Spec{Service: service, Target: spec.Targets[0], Kind: kind}.AtPace(s.Scenario.Pace())
	w, err := startWorker(context.WithoutCancel(ctx), s.Lab, at, "probe", service, probing, func(e events.Event) {
		if e.Awaited != nil {
			p.awaited <- *e.Awaited
			return
		}
		s.emit(e)
	})
	if err != nil {
		return err
	}
	p.worker = w
	s.mu.Lock()
	s.probes[service] = p
	s.mu.Unlock()
	return p.awaitAnswer(ctx)
}

// awaitAnswer returns once the Service answers.
func (p *prober) awaitAnswer(ctx context.Context) error {
	if err := p.tell(probe.Command{Await: probe.AwaitAny, Limit: lab.Patience(answerLimit).String()}); err != nil {
		return err
	}
	select {
	case a := <-p.awaited:
		if a.Error != "" {
			return fmt.Errorf("no answer of Service %s: %s", p.service, a.Error)
		}
		return nil
	case <-p.done:
		return fmt.Errorf("the prober of Service %s ended: %w", p.service, p.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endpointsChanged tells the prober of a Service what to look out for.
func (s *subject) endpointsChanged(c endpointChange) {
	s.mu.Lock()
	p := s.probes[c.service]
	s.mu.Unlock()
	if p == nil || s.sticky(c.service) {
		return
	}
	if err := p.tell(probe.Command{At: c.at, Added: c.added, Removed: c.removed}); err != nil {
		s.emit(note("a change of the endpoints of %s was not measured: %v", c.service, err))
	}
}

// sticky: session affinity keeps each client on one pod, so a prober cannot see the others.
func (s *subject) sticky(service string) bool {
	svc, err := s.stage.service(scenarios.SplitName(service))
	return err == nil && svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP
}

// patch changes an object. Where that makes a Service sticky, what its prober was looking out for cannot be seen any more.
func (s *subject) patch(ctx context.Context, step scenarios.PatchStep) error {
	ref := step.Ref()
	service := ref.Namespace + "/" + ref.Name
	affinity := nested(step.Patch, "spec", "sessionAffinity")
	s.mu.Lock()
	p := s.probes[service]
	s.mu.Unlock()
	if ref.Kind == "Service" && p != nil && affinity == string(corev1.ServiceAffinityClientIP) {
		if err := p.tell(probe.Command{Forget: true}); err != nil {
			return err
		}
	}
	if err := s.stage.patch(ctx, ref, step.Patch); err != nil {
		return err
	}
	if ref.Kind != "Service" || affinity == nil {
		return nil
	}
	// What endpointsChanged goes by is what the watch has shown.
	return s.stage.await(ctx, fmt.Sprintf("Service %s patched", ref.Name), 10*time.Second, func() (bool, string) {
		svc, err := s.stage.service(ref.Namespace, ref.Name)
		if err != nil {
			return false, err.Error()
		}
		return string(svc.Spec.SessionAffinity) == affinity, "sessionAffinity " + string(svc.Spec.SessionAffinity)
	})
}

func nested(m map[string]any, path ...string) any {
	var v any = m
	for _, key := range path {
		inner, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = inner[key]
	}
	return v
}

// stopProbes ends them. What they still look out for is given up: the objects are about to go.
func stopProbes(probes map[string]*prober) error {
	var errs []error
	for _, p := range probes {
		errs = append(errs, p.tell(probe.Command{Forget: true}), p.stop(2*time.Second))
	}
	return errors.Join(errs...)
}
