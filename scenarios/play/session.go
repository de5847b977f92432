package play

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/bench/events"
	"proxylab/lab"
	"proxylab/scenarios"
)

// Session is a subject without a plan: steps are taken one by one, as somebody asks for them, on a lab that is up and with
// the proxier that runs there. Its methods are not for use at the same time, but for Emit's.
type Session struct {
	*subject
	service string // that traffic goes to: NAME in the namespace default, or NAMESPACE/NAME
	taken   int    // steps
}

// sessionLoad is the traffic of a session.
const sessionLoad = "web"

// OpenSession begins a session on a lab. Traffic goes to the Service named; where there is none of that name, what the
// scenario of the plan has is put there, and taken away again in the end. What happens is emitted as in a run.
func OpenSession(ctx context.Context, plan Plan, service string) (*Session, error) {
	client, err := connect(plan.Lab.Kubeconfig())
	if err != nil {
		return nil, err
	}
	nodes, err := plan.Lab.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("nodes of the lab: %w", err)
	}
	namespace, name := scenarios.SplitName(service)
	s := &Session{service: strings.TrimPrefix(service, metav1.NamespaceDefault+"/"), subject: &subject{
		Plan: plan, api: client, nodes: nodes,
		loads: map[string]*runningLoad{}, probes: map[string]*prober{},
	}}
	for _, node := range nodes {
		n := &nodeProxier{lab: plan.Lab, node: node.Name, emit: s.emit, synced: s.synced}
		spec, err := n.adopt(ctx)
		if err != nil {
			return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
		s.proxiers = append(s.proxiers, n)
		if s.spec.Name == "" {
			s.spec = spec
			s.id = events.Subject{Proxier: spec.Name, Repetition: 1}
			s.emit(events.Event{SubjectStarted: &events.SubjectStarted{}})
		}
		n.observe()
	}
	if err := s.prepare(ctx, namespace, name); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// prepare puts there what traffic needs.
func (s *Session) prepare(ctx context.Context, namespace, name string) (err error) {
	namespaces := s.namespaces()
	if !slices.Contains(namespaces, namespace) {
		namespaces = append(namespaces, namespace)
	}
	// The end of ctx is that of the session: what is put away then is still to be watched.
	s.stage, err = newStage(context.WithoutCancel(ctx), s.api, namespaces, s.endpointsChanged, nil)
	if err != nil {
		return err
	}
	if err := s.startClients(ctx); err != nil {
		return err
	}
	if _, err := s.stage.service(namespace, name); err == nil {
		return nil
	}
	if err := s.stage.apply(ctx, s.Scenario.Objects); err != nil {
		return err
	}
	if _, err := s.stage.service(namespace, name); err != nil {
		return fmt.Errorf("there is no Service %s: %w", s.service, err)
	}
	return s.stage.awaitDeployment(ctx, namespace, name, -1)
}

// Take takes one step, as a run does.
func (s *Session) Take(ctx context.Context, step scenarios.Step) error {
	s.taken++
	return s.take(ctx, s.taken-1, step)
}

// Scale makes pods more or fewer by a number.
func (s *Session) Scale(ctx context.Context, by int) error {
	d, err := s.stage.deployment(scenarios.SplitName(s.service))
	if err != nil {
		return fmt.Errorf("nothing to scale: %w", err)
	}
	to := replicas(d) + by
	if to < 0 {
		return nil
	}
	return s.Take(ctx, scenarios.Step{Scale: &scenarios.ScaleStep{Deployment: s.service, Replicas: to, Wait: true}})
}

// ToggleAffinity turns session affinity on, or off again.
func (s *Session) ToggleAffinity(ctx context.Context) error {
	svc, err := s.stage.service(scenarios.SplitName(s.service))
	if err != nil {
		return fmt.Errorf("no affinity to change: %w", err)
	}
	to := corev1.ServiceAffinityClientIP
	if svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		to = corev1.ServiceAffinityNone
	}
	return s.Take(ctx, scenarios.Step{Patch: &scenarios.PatchStep{
		Target: scenarios.Target{Service: s.service},
		Patch:  map[string]any{"spec": map[string]any{"sessionAffinity": string(to)}},
	}})
}

// Churn lets a pod a second die, for five seconds.
func (s *Session) Churn(ctx context.Context) error {
	rate, err := scenarios.ParseRate("1/s")
	if err != nil {
		return err
	}
	return s.Take(ctx, scenarios.Step{Churn: &scenarios.ChurnStep{Deployment: s.service, Rate: rate, For: scenarios.Duration(5 * time.Second)}})
}

// Swap puts another proxier in place of the one that runs.
func (s *Session) Swap(ctx context.Context, to string) error {
	return s.Take(ctx, scenarios.Step{Swap: &scenarios.SwapStep{To: scenarios.Names{to}}})
}

// ToggleLoad starts traffic, 100 new connections a second, or stops it.
func (s *Session) ToggleLoad(ctx context.Context) error {
	s.mu.Lock()
	_, runs := s.loads[sessionLoad]
	s.mu.Unlock()
	if runs {
		return s.Take(ctx, scenarios.Step{Stop: scenarios.Names{sessionLoad}})
	}
	rate, err := scenarios.ParseRate("100/s")
	if err != nil {
		return err
	}
	return s.Take(ctx, scenarios.Step{Load: &scenarios.LoadStep{
		Name: sessionLoad, Service: s.service, Kind: "http", Rate: &rate, Connections: "new", From: "pod", Family: "ipv4",
		Direct: true, Timeout: scenarios.Duration(2 * time.Second),
	}})
}

// KillPod deletes the pod that has served longest.
func (s *Session) KillPod(ctx context.Context) error {
	namespace, name := scenarios.SplitName(s.service)
	pods, err := s.stage.readyPodsOf(namespace, name)
	if err != nil || len(pods) == 0 {
		return errors.Join(fmt.Errorf("no pod of %s is ready", s.service), err)
	}
	oldest := pods[0]
	for _, p := range pods {
		if p.CreationTimestamp.Before(&oldest.CreationTimestamp) {
			oldest = p
		}
	}
	return s.Take(ctx, scenarios.Step{Delete: &scenarios.DeleteStep{Target: scenarios.Target{Pod: namespace + "/" + oldest.Name}}})
}

// ReadRules emits the rules behind the Service on the first node.
func (s *Session) ReadRules(ctx context.Context) {
	namespace, name := scenarios.SplitName(s.service)
	s.readRules(ctx, namespace+"/"+name)
}

// Note emits a sentence for the reader.
func (s *Session) Note(text string) { s.emit(note("%s", text)) }

// Close ends the traffic and takes away what the session put there. The proxier runs on.
func (s *Session) Close(ctx context.Context) error {
	finishing, cancel := context.WithTimeout(ctx, lab.Patience(finishLimit))
	err := s.finish(finishing)
	cancel()
	if s.stage != nil {
		ending, cancel := context.WithTimeout(ctx, lab.Patience(tearDownLimit))
		err = errors.Join(err, s.stage.close(ending))
		cancel()
	}
	for _, n := range s.proxiers {
		n.leave()
	}
	if s.id.Proxier != "" {
		s.emit(events.Event{SubjectEnded: &events.SubjectEnded{}})
	}
	return err
}
