// Package play runs a scenario on a lab: for each subject it starts the proxier, sets the scene, takes the steps, and
// writes what happens and what is measured into the run's log. It computes no result: that is the views' business.
package play

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxylab/bench/events"
	"proxylab/lab"
	"proxylab/scenarios"
)

// Plan is what to play.
type Plan struct {
	Scenario *scenarios.Scenario
	Lab      lab.Lab // up
	// Proxiers in the order they are played; of several repetitions each plays all of them in turn, so that what
	// drifts on the machine hits all alike.
	Proxiers []lab.ProxierSpec
	Repeat   int
	Emit     func(events.Event) // called from several goroutines
}

// Run plays every subject of the plan. A subject that fails is noted in the log and the next one is played; what they
// failed with is returned in the end. When ctx ends, what was begun is closed down within a few seconds.
func Run(ctx context.Context, plan Plan) error {
	client, err := connect(plan.Lab.Kubeconfig())
	if err != nil {
		return err
	}
	nodes, err := plan.Lab.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("nodes of the lab: %w", err)
	}
	if err := needs(ctx, plan.Scenario, plan.Lab); err != nil {
		return err
	}
	restore, err := park(ctx, plan.Lab, nodes)
	if err != nil {
		return err
	}
	var failures []error
	for repetition := 1; repetition <= plan.Repeat; repetition++ {
		for _, spec := range plan.Proxiers {
			s := &subject{
				Plan: plan, api: client, nodes: nodes, spec: spec,
				id: events.Subject{Proxier: spec.Name, Repetition: repetition},
			}
			if err := s.play(ctx); err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", spec.Name, err))
			}
			if ctx.Err() != nil {
				return errors.Join(append(failures, restore())...)
			}
		}
	}
	return errors.Join(append(failures, restore())...)
}

// park stops what runs on the nodes of a lab that was up before, and returns how to bring it back.
func park(ctx context.Context, l lab.Lab, nodes []lab.Node) (restore func() error, err error) {
	was := map[string]lab.ProxierSpec{}
	for _, node := range nodes {
		state, err := l.Proxier(ctx, node.Name)
		if err != nil {
			return nil, fmt.Errorf("proxier of %s: %w", node.Name, err)
		}
		if state == nil {
			continue
		}
		was[node.Name] = state.ProxierSpec
		if err := l.StopProxier(ctx, node.Name); err != nil {
			return nil, err
		}
		if _, err := l.CleanupProxier(ctx, node.Name, state.ProxierSpec); err != nil {
			return nil, err
		}
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		var errs []error
		for node, spec := range was {
			errs = append(errs, l.StartProxier(ctx, node, spec))
		}
		return errors.Join(errs...)
	}, nil
}
