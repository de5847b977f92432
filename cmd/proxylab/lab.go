package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"proxylab/bench/events"
	"proxylab/bench/tui"
	"proxylab/bench/usage"
	"proxylab/lab"
	"proxylab/proxiers"
	"proxylab/scenarios/play"
)

func newLab() *cobra.Command {
	var service, out string
	cmd := &cobra.Command{
		Use:   "lab [NAME]",
		Short: "Open a running lab on the terminal: scale, churn, swap, traffic by key",
		Long: `Show a lab that is up ("proxylab up") full screen, and act on it by key: + and - change the number of pods, a
session affinity, c lets pods die, s swaps the proxier, l starts and stops traffic, k kills a pod, r reads the rules; ? says
all keys. What happens is recorded as a run is, to be watched again with "proxylab watch". The lab stays up.

Traffic goes to the Service named, whose pods are those of the Deployment of the same name. Where the lab has none, the
quickstart's Service and Deployment "web" are put there, and taken away in the end.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := screenFor("on")
			if err != nil {
				return err
			}
			l, err := openLab(cmd.Context(), optional(args))
			if err != nil {
				return err
			}
			return interact(cmd, l, service, out, s)
		},
	}
	cmd.Flags().StringVar(&service, "service", "web", "Service that traffic goes to: NAME, or NAMESPACE/NAME")
	cmd.Flags().StringVar(&out, "out", "runs", "directory that the session's own directory is made in")
	return cmd
}

// interact is a session at a terminal, from its begin to the record of it.
func interact(cmd *cobra.Command, l lab.Lab, service, out string, on *screen) error {
	demo, err := loadScenarios([]string{"quickstart"})
	if err != nil {
		return err
	}
	release, err := usage.Kernel()
	if err != nil {
		return err
	}
	id := time.Now().Format("20060102-150405") + "-lab-" + l.Name()
	dir := filepath.Join(out, id)
	log, err := events.Create(dir)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(cmd.Context())
	defer leave()
	keys := &controls{actions: make(chan tui.Action, 8)}
	shown := displayOn(ctx, log, on, tui.Options{Stop: leave, Control: keys})
	log.Emit(events.Event{RunStarted: &events.RunStarted{
		ID: id, Scenario: "lab " + l.Name(), Lab: l.Kind(), Kernel: events.Kernel{Kind: kernelKind(), Release: release},
		CPUs: runtime.NumCPU(), Version: versionText(), Repeat: 1, Steps: []string{}, Expect: []string{}, Proxiers: []string{},
	}})
	err = keys.serve(ctx, play.Plan{Scenario: demo[0], Lab: l, Emit: log.Emit}, service)
	ended := &events.RunEnded{Outcome: "done"}
	if err != nil {
		ended = &events.RunEnded{Outcome: "failed", Error: err.Error()}
	}
	log.Emit(events.Event{RunEnded: ended})
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	shown.close(closing, cmd.ErrOrStderr())
	err = errors.Join(err, log.Close())
	slog.Info("the session is recorded", "watch", "proxylab watch "+dir)
	return err
}

// controls are the keys of a session.
type controls struct{ actions chan tui.Action }

// Do is tui.Control's. What is asked for while there is much to do already is left out.
func (c *controls) Do(a tui.Action) {
	select {
	case c.actions <- a:
	default:
		slog.Warn("there is too much to do already", "left out", a.Kind)
	}
}

// Swaps is tui.Control's.
func (c *controls) Swaps() []string {
	var names []string
	for _, p := range proxiers.All() {
		names = append(names, p.Name)
	}
	return names
}

// serve does what the keys say until the user leaves. An action that fails is told in the log and on the screen.
func (c *controls) serve(ctx context.Context, plan play.Plan, service string) (err error) {
	session, err := play.OpenSession(ctx, plan, service)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-c.actions:
			if err := act(ctx, session, a); err != nil && ctx.Err() == nil {
				session.Note(fmt.Sprintf("%s: %v", a.Kind, err))
			}
		}
	}
}

func act(ctx context.Context, s *play.Session, a tui.Action) error {
	switch a.Kind {
	case tui.ScaleUp:
		return s.Scale(ctx, 1)
	case tui.ScaleDown:
		return s.Scale(ctx, -1)
	case tui.Affinity:
		return s.ToggleAffinity(ctx)
	case tui.Churn:
		return s.Churn(ctx)
	case tui.Swap:
		return s.Swap(ctx, a.To)
	case tui.ToggleLoad:
		return s.ToggleLoad(ctx)
	case tui.KillPod:
		return s.KillPod(ctx)
	case tui.ShowRules:
		s.ReadRules(ctx)
		return nil
	}
	return fmt.Errorf("there is no action %q", a.Kind)
}
