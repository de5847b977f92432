package play

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"proxylab/bench/events"
	"proxylab/lab"
	"proxylab/scenarios"
)

// nodeChanges is what the steps have done to nodes, to be undone in the end.
type nodeChanges struct {
	added    int
	gone     []string // killed, or deleted from the cluster
	cordoned []string
}

// node takes a step about a node.
func (s *subject) node(ctx context.Context, step scenarios.NodeStep) error {
	what, name := step.What()
	if what == "add" {
		return s.addNode(ctx)
	}
	n, err := s.nodeNamed(name)
	if err != nil {
		return err
	}
	done := map[string]string{"cordon": "cordoned", "uncordon": "uncordoned", "kill": "killed", "delete": "removed"}[what]
	switch what {
	case "cordon", "uncordon":
		err = s.cordon(ctx, n.Name, what == "cordon")
	case "kill":
		err = s.killNode(ctx, n.Name)
	case "delete":
		s.changes.gone = append(s.changes.gone, n.Name)
		err = s.api.typed.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{})
	}
	if err != nil {
		return err
	}
	s.emit(events.Event{NodeChange: &events.NodeChange{Node: n.Name, What: done}})
	return nil
}

// elastic is the lab, if its nodes can come and go.
func elastic(l lab.Lab) (lab.Elastic, error) {
	e, ok := l.(lab.Elastic)
	if !ok {
		return nil, fmt.Errorf("nodes of a lab of kind %s cannot be added or killed; play it on a netns lab", l.Kind())
	}
	return e, nil
}

func (s *subject) addNode(ctx context.Context) error {
	e, err := elastic(s.Lab)
	if err != nil {
		return err
	}
	n, err := e.AddNode(ctx)
	if err != nil {
		return err
	}
	s.changes.added++
	s.nodes = append(slices.Clone(s.nodes), n)
	s.emit(events.Event{NodeChange: &events.NodeChange{Node: n.Name, What: "added"}})
	p := &nodeProxier{lab: s.Lab, node: n.Name, emit: s.emit, synced: s.synced}
	s.proxiers = append(s.proxiers, p)
	spec := s.spec
	if last := s.proxiers[0].last; last.Name != "" { // a swap may have changed it
		spec = last
	}
	return p.start(ctx, spec)
}

func (s *subject) killNode(ctx context.Context, name string) error {
	e, err := elastic(s.Lab)
	if err != nil {
		return err
	}
	for _, p := range s.proxiers {
		if p.node == name {
			p.killed()
		}
	}
	s.changes.gone = append(s.changes.gone, name)
	return e.KillNode(ctx, name)
}

// killed ends the measuring of a proxier that is about to be killed with its node.
func (n *nodeProxier) killed() {
	n.leave()
	n.runs, n.dead = false, true
}

func (s *subject) cordon(ctx context.Context, node string, off bool) error {
	p := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, off)
	if _, err := s.api.typed.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, p, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("cordon %s: %w", node, err)
	}
	s.changes.cordoned = append(s.changes.cordoned, node)
	return nil
}

// alive are the proxiers of nodes that have power.
func (s *subject) alive() []*nodeProxier {
	return slices.DeleteFunc(slices.Clone(s.proxiers), func(n *nodeProxier) bool { return n.dead })
}

// reviveNodes brings back what the steps took away.
func (s *subject) reviveNodes(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.changes.gone))) {
		e, err := elastic(s.Lab)
		if err == nil { // an agent registers its node when it gets power
			err = errors.Join(e.KillNode(ctx, name), e.ReviveNode(ctx, name))
		}
		errs = append(errs, err)
	}
	for _, name := range s.changes.cordoned {
		if err := s.cordon(ctx, name, false); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeNodes takes away what the steps have added.
func (s *subject) removeNodes(ctx context.Context) error {
	var errs []error
	for range s.changes.added {
		e, err := elastic(s.Lab)
		if err == nil {
			err = e.RemoveNode(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// needs says what the scenario needs of the lab and it does not have.
func needs(ctx context.Context, sc *scenarios.Scenario, l lab.Lab) error {
	if sc.Spec.LBaaS != nil {
		b, err := balancersOf(ctx, l)
		if err != nil {
			return err
		}
		if b == nil {
			return fmt.Errorf("lab %s has no load balancers, which the scenario needs: make one with proxylab up --lbaas", l.Name())
		}
		if have, want := b.Spec.Instances(), len(sc.Spec.LBaaS.Instances()); have < want {
			return fmt.Errorf("lab %s has %d balancer instance, the scenario needs %d: make one with proxylab up --lb-standby", l.Name(), have, want)
		}
	}
	if sc.Elastic() {
		_, err := elastic(l)
		return err
	}
	return nil
}
