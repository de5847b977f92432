package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"proxylab/bench/events"
	"proxylab/bench/usage"
	"proxylab/lab"
	"proxylab/lab/controlplane"
	"proxylab/lab/kernel"
	"proxylab/lab/labs"
	"proxylab/proxiers"
	"proxylab/scenarios"
	"proxylab/scenarios/play"
)

// defaultProxiers are played when nobody says which.
var defaultProxiers = []string{"userspace", "iptables", "kube-proxy/iptables", "kube-proxy/nftables"}

// runOptions are the flags of run.
type runOptions struct {
	lab               labFlags
	name, out, output string
	proxiers          []string
	nodes, repeat     int
	pace              int // percent of the scenario's rates; 0: as the kernel can bear
	terms             proxierFlags
	kernel            kernelFlags
	tui               string
	screen            *screen // that the run is shown on; nil: as lines
	relay             bool    // this is the run inside a kernel: its events go to standard output, and nothing else
	web               string  // address of the dashboard; empty: none
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run SCENARIO...",
		Short: "Play scenarios against proxiers and say what it cost",
		Long: `Play each scenario (a built-in's name or a file) against each proxier, on a lab made for it and removed
afterwards, or on the one that --name says. What happens is written to OUT/<id>/events.jsonl as it happens; the
result is printed at the end, and again by "proxylab report". Ctrl-C ends the run and reports what was measured.

On a terminal the run is shown full screen while it goes on (--tui off: as lines); "proxylab watch" shows it again.

Exit codes: 0 done, 1 failed, 2 wrong use or a wrong file, 3 an expectation did not hold, 5 this machine lacks something.`,
		Example: `  proxylab run quickstart
  proxylab run quickstart --proxiers iptables,kube-proxy/iptables --repeat 6 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: o.run,
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.proxiers, "proxiers", defaultProxiers, "proxiers to play, in this order")
	o.lab.register(cmd)
	f.StringVar(&o.name, "name", "", "play on this lab, which is up and stays up (default: a lab of the run's own)")
	f.IntVar(&o.nodes, "nodes", 0, "nodes of the lab (default: as the scenario says)")
	f.IntVar(&o.repeat, "repeat", 1, "how often each proxier is played; repetitions of different proxiers alternate")
	f.IntVar(&o.pace, "pace", 0, "send loads and probes at this percentage of their rates (default: 100, in a User Mode Linux kernel 10)")
	f.StringVar(&o.out, "out", "runs", "directory that the run's own directory is made in")
	f.StringVarP(&o.output, "output", "o", "table", "what to print at the end: "+strings.Join(outputs(), ", "))
	f.StringVar(&o.web, "web", "", "serve the web dashboard while the run goes on, on this address")
	f.Lookup("web").NoOptDefVal = defaultListen
	f.BoolVar(&o.relay, "relay", false, "write the run's events on standard output, and no log and no result")
	_ = f.MarkHidden("relay") // it is there
	registerTUI(cmd, &o.tui)
	o.terms.register(cmd)
	o.kernel.register(cmd)
	return cmd
}

// run checks everything that can be checked before it starts anything.
func (o *runOptions) run(cmd *cobra.Command, names []string) error {
	collectSeldom()
	wrong := o.validate(cmd)
	loaded, err := loadScenarios(names)
	if err := errors.Join(wrong, err); err != nil {
		return err
	}
	if !o.kernel.uml() {
		if err := o.lab.settle(cmd, o.name); err != nil {
			return err
		}
		if err := o.fits(loaded); err != nil {
			return err
		}
		if err := o.lab.preflight(cmd.Context(), max(o.nodes, 1)); err != nil {
			return err
		}
	}
	if o.web != "" {
		page, err := startDashboard(cmd, o.out, o.web)
		if err != nil {
			return err
		}
		defer page.stop()
	}
	if o.kernel.uml() {
		return o.inKernel(cmd, names)
	}
	var specs []lab.ProxierSpec
	for _, name := range o.proxiers {
		spec, err := o.terms.spec(cmd.Context(), o.lab.kind, name)
		if err != nil {
			return err
		}
		specs = append(specs, spec)
	}
	var errs []error
	for _, s := range loaded {
		if cmd.Context().Err() != nil {
			break
		}
		errs = append(errs, o.runOne(cmd, s.AtPace(o.share()), specs))
	}
	return errors.Join(errs...)
}

// share of the scenario's rates at which loads are sent. One processor with slow system calls bears a hundred requests a
// second at most; more would measure that alone.
func (o *runOptions) share() float64 {
	switch {
	case o.pace > 0:
		return float64(o.pace) / 100
	case kernel.Inside():
		return 0.1
	}
	return 1
}

// validate says all that is wrong with the flags.
func (o *runOptions) validate(cmd *cobra.Command) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, usagef(format, args...))
		}
	}
	if o.name == "" {
		errs = append(errs, o.lab.settle(cmd, ""))
	}
	if o.web != "" {
		errs = append(errs, checkListen("--web", o.web))
	}
	var screenErr error
	o.screen, screenErr = screenFor(o.tui)
	errs = append(errs, checkOutput(o.output), o.terms.validate(), o.kernel.validate(cmd, o.name), screenErr)
	check(o.repeat >= 1 && o.repeat <= 1000, "--repeat %d: accepted are 1 to 1000", o.repeat)
	check(o.pace >= 0 && o.pace <= 100, "--pace %d: accepted are 1 to 100 (per cent)", o.pace)
	most := labs.MaxNodes(o.lab.kind)
	check(o.nodes >= 0 && o.nodes <= most, "--nodes %d: accepted are 1 to %d", o.nodes, most)
	check(o.nodes == 0 || o.name == "", "--nodes is for a lab of the run's own, --name for one that is up: give one of them")
	check(len(o.proxiers) > 0, "--proxiers is empty: name at least one")
	for _, name := range o.proxiers {
		if _, err := proxiers.Lookup(name); err != nil {
			errs = append(errs, usageError{err})
		}
	}
	return errors.Join(errs...)
}

// loadScenarios reads them all, so that all that is wrong with any of them is said together.
func loadScenarios(names []string) ([]*scenarios.Scenario, error) {
	var known []string
	for _, p := range proxiers.All() {
		known = append(known, p.Name)
	}
	var (
		loaded []*scenarios.Scenario
		errs   []error
	)
	for _, name := range names {
		s, err := scenarios.Load(name, scenarios.Options{Proxiers: known})
		loaded, errs = append(loaded, s), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageError{err}
	}
	return loaded, nil
}

// fits says which scenarios a lab of the kind cannot play.
func (o *runOptions) fits(loaded []*scenarios.Scenario) error {
	var errs []error
	for _, s := range loaded {
		if s.Elastic() && !labs.Elastic(o.lab.kind) {
			errs = append(errs, usagef("scenario %s: nodes come and go, which a %s lab cannot have: play it with --lab %s", s.Metadata.Name, o.lab.kind, labs.Default))
		}
		if most := labs.MaxNodes(o.lab.kind); o.name == "" && o.nodes == 0 && s.Spec.Nodes > most {
			errs = append(errs, usagef("scenario %s: %d nodes, a %s lab has at most %d: say how many with --nodes, or play it with --lab %s", s.Metadata.Name, s.Spec.Nodes, o.lab.kind, most, labs.Default))
		}
	}
	return errors.Join(errs...)
}

// recording is a run's log while it is written, shown as it goes.
type recording struct {
	cmd     *cobra.Command
	dir     string
	log     *events.Writer
	display *display
}

func (o *runOptions) record(cmd *cobra.Command, id string) (*recording, error) {
	dir := filepath.Join(o.out, filepath.Base(id))
	log, err := events.Create(dir)
	if err != nil {
		return nil, err
	}
	return &recording{cmd: cmd, dir: dir, log: log, display: displayOf(cmd, log, o.screen)}, nil
}

// conclude closes the log and prints the result. playErr is what kept the run from being played to its end.
func (r *recording) conclude(output string, playErr error) error {
	ctx := r.cmd.Context()
	shown, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	r.display.close(shown, r.cmd.ErrOrStderr())
	if err := r.log.Close(); err != nil {
		return fmt.Errorf("the run's log is not whole: %w", err)
	}
	slog.Info("the run is recorded", "report", "proxylab report "+r.dir)
	resultErr := printRun(r.cmd, r.dir, output)
	if ctx.Err() != nil {
		return errors.New("interrupted: the result is of what was measured until then")
	}
	if playErr != nil {
		return playErr
	}
	return resultErr
}

// runOne plays one scenario, from making the lab to printing the result.
func (o *runOptions) runOne(cmd *cobra.Command, s *scenarios.Scenario, specs []lab.ProxierSpec) error {
	id := time.Now().Format("20060102-150405") + "-" + s.Metadata.Name
	if o.relay { // whoever reads the events has the say over the rest
		log := events.NewWriter(cmd.OutOrStdout())
		if err := o.played(cmd.Context(), id, s, specs, log.Emit); err != nil {
			slog.Debug("the run ended early", "error", err)
		}
		return log.Close()
	}
	rec, err := o.record(cmd, id)
	if err != nil {
		return err
	}
	return rec.conclude(o.output, o.played(cmd.Context(), id, s, specs, rec.log.Emit))
}

// played plays one scenario and emits its events from the first to the last.
func (o *runOptions) played(ctx context.Context, id string, s *scenarios.Scenario, specs []lab.ProxierSpec, emit func(events.Event)) error {
	release, err := usage.Kernel()
	if err != nil {
		return err
	}
	emit(events.Event{RunStarted: o.started(id, s, release)})
	err = o.onLab(ctx, s, specs, emit)
	emit(events.Event{RunEnded: outcome(ctx, err)})
	return err
}

func outcome(ctx context.Context, err error) *events.RunEnded {
	switch {
	case ctx.Err() != nil:
		return &events.RunEnded{Outcome: "interrupted"}
	case err != nil:
		return &events.RunEnded{Outcome: "failed", Error: err.Error()}
	}
	return &events.RunEnded{Outcome: "done"}
}

// onLab plays on the lab that is up, or on one made for the run and removed after it.
func (o *runOptions) onLab(ctx context.Context, s *scenarios.Scenario, specs []lab.ProxierSpec, emit func(events.Event)) error {
	plan := play.Plan{Scenario: s, Proxiers: specs, Repeat: o.repeat, Emit: emit}
	if o.name != "" {
		l, err := labs.Open(o.name)
		if err != nil {
			return err
		}
		plan.Lab = l
		return play.Run(ctx, plan)
	}
	nodes := s.Spec.Nodes
	if o.nodes > 0 {
		nodes = o.nodes
	}
	options := o.lab.options(fmt.Sprintf("run-%d", os.Getpid()), nodes)
	options.Background = controlplane.Background{Services: s.Spec.Background.Services, EndpointsPerService: s.Spec.Background.EndpointsPerService}
	options.LBaaS = balancersOf(s.Spec.LBaaS)
	if err := options.Validate(); err != nil {
		return usageError{err}
	}
	return inLab(ctx, options, func(l lab.Lab) error {
		plan.Lab = l
		return play.Run(ctx, plan)
	})
}

// started is what a log begins with.
func (o *runOptions) started(id string, s *scenarios.Scenario, release string) *events.RunStarted {
	return &events.RunStarted{
		ID: id, Scenario: s.Metadata.Name, ScenarioYAML: s.Source,
		Lab: o.lab.kind, Kernel: events.Kernel{Kind: kernelKind(), Release: release},
		CPUs: runtime.NumCPU(), Version: versionText(),
		Proxiers: slices.Clone(o.proxiers), Repeat: o.repeat,
		Steps: s.StepTexts(), Expect: slices.Clone(s.Spec.Expect),
		Environment: o.environment(),
	}
}
