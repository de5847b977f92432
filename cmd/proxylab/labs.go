package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"proxylab/lab"
	"proxylab/lab/labs"
	"proxylab/proxiers"
	"proxylab/proxiers/ipvs"
)

const defaultLab = "lab"

// optional is the argument of a command that takes at most one.
func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// openLab finds a lab that is up: the one named, or the only one.
func openLab(ctx context.Context, name string) (lab.Lab, error) {
	if name != "" {
		return labs.Open(name)
	}
	all, err := labs.List(ctx)
	if err != nil {
		return nil, err
	}
	switch len(all) {
	case 0:
		return nil, fmt.Errorf("no lab is up; start one with: proxylab up")
	case 1:
		return labs.Open(all[0].Name)
	}
	names := make([]string, len(all))
	for i, l := range all {
		names[i] = l.Name
	}
	return nil, usagef("several labs are up, name one of: %s", strings.Join(names, ", "))
}

// labFlags say what kind of lab, and what it is made of.
type labFlags struct{ kind, image, config string }

func (f *labFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kind, "lab", labs.Default, "kind of lab: "+strings.Join(labs.Kinds(), ", "))
	cmd.Flags().StringVar(&f.image, "image", "", "with --lab kind: image of the nodes (default: kind's own)")
	cmd.Flags().StringVar(&f.config, "kind-config", "", "with --lab kind: your own kind configuration file (default: one is generated)")
}

// settle has the flags say what the named lab is, if one is named, and refuses what does not go together.
func (f *labFlags) settle(cmd *cobra.Command, name string) error {
	if err := (labs.Options{Kind: f.kind, Image: f.image, ConfigFile: f.config}).Validate(); err != nil {
		return usagef("--lab, --image, --kind-config: %w", err)
	}
	if name == "" {
		return nil
	}
	if f.image != "" || f.config != "" {
		return usagef("--image and --kind-config are for a lab of the run's own, --name for one that is up: give one of them")
	}
	l, err := labs.Open(name)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("lab") && l.Kind() != f.kind {
		return usagef("--lab %s: lab %s is of kind %s", f.kind, name, l.Kind())
	}
	f.kind = l.Kind()
	return nil
}

// options of a lab to make.
func (f *labFlags) options(name string, nodes int) labs.Options {
	if f.config != "" { // it says how many
		nodes = 0
	}
	return labs.Options{Kind: f.kind, Name: name, Nodes: nodes, Image: f.image, ConfigFile: f.config, Log: slog.Default()}
}

// preflight fails with all that this machine lacks for such a lab.
func (f *labFlags) preflight(ctx context.Context, nodes int) error {
	var errs []error
	for _, p := range labs.Preflight(ctx, f.kind, nodes) {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// proxierFlags are the terms under which a proxier runs; they are equal for all of a lab.
type proxierFlags struct {
	minSync, sync       time.Duration
	backend             string
	scheduler, fallback string
}

func (f *proxierFlags) register(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.minSync, "min-sync-period", time.Second, "shortest time between two syncs of a proxier")
	cmd.Flags().DurationVar(&f.sync, "sync-period", 30*time.Second, "time after which a proxier checks everything again")
	cmd.Flags().StringVar(&f.backend, "iptables", "auto", "iptables back end: legacy, nft, or auto (the one this machine uses)")
	cmd.Flags().StringVar(&f.scheduler, "ipvs-scheduler", "rr", "IPVS scheduler: "+strings.Join(ipvs.Schedulers(), ", "))
	cmd.Flags().StringVar(&f.fallback, "fallback", "", "proxier to run where this machine cannot run the one asked for (default: fail)")
}

func (f *proxierFlags) validate() error {
	var errs []error
	if f.backend != "auto" && f.backend != "legacy" && f.backend != "nft" {
		errs = append(errs, fmt.Errorf("--iptables %q: accepted are legacy, nft, auto", f.backend))
	}
	if err := ipvs.CheckScheduler(f.scheduler); err != nil {
		errs = append(errs, fmt.Errorf("--ipvs-scheduler: %w", err))
	}
	if f.fallback != "" {
		if _, err := proxiers.Lookup(f.fallback); err != nil {
			errs = append(errs, fmt.Errorf("--fallback: %w", err))
		}
	}
	switch {
	case f.minSync < 0:
		errs = append(errs, fmt.Errorf("--min-sync-period %s: must not be negative", f.minSync))
	case f.sync <= 0:
		errs = append(errs, fmt.Errorf("--sync-period %s: must be positive", f.sync))
	case f.minSync > f.sync:
		errs = append(errs, fmt.Errorf("--min-sync-period %s is longer than --sync-period %s", f.minSync, f.sync))
	}
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

// spec is the named proxier on these terms, for a lab of that kind; it fails where the name is unknown, or this machine cannot
// run it and the lab's nodes could not either.
func (f *proxierFlags) spec(ctx context.Context, kind, name string) (lab.ProxierSpec, error) {
	if _, err := proxiers.Lookup(name); err != nil {
		return lab.ProxierSpec{}, usageError{err}
	}
	if labs.HostTools(kind) {
		if err := f.runsHere(ctx, name); err != nil {
			return lab.ProxierSpec{}, err
		}
	}
	return lab.ProxierSpec{Name: name, Backend: f.backend, MinSyncPeriod: f.minSync, SyncPeriod: f.sync,
		Scheduler: f.scheduler, Fallback: f.fallback}, nil
}

// runsHere fails where neither the proxier nor its fallback can run on this machine.
func (f *proxierFlags) runsHere(ctx context.Context, name string) error {
	_, refusal, err := proxiers.Choose(ctx, proxiers.Options{Name: name, Backend: f.backend, Scheduler: f.scheduler, Fallback: f.fallback})
	if err != nil {
		return fmt.Errorf("%w", lab.Missing{What: err.Error(), Remedy: "proxylab doctor says what else this machine can run"})
	}
	if refusal != nil {
		slog.Warn("the proxier asked for cannot run here, its fallback runs in its place", "asked", name, "runs", f.fallback, "because", refusal)
	}
	return nil
}

// inLab makes a lab, which is removed when f returns.
func inLab(ctx context.Context, options labs.Options, f func(lab.Lab) error) error {
	l, err := labs.New(options)
	if err != nil {
		return err
	}
	defer func() {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := l.Down(down); err != nil {
			slog.Error("the lab is not wholly removed", "error", err, "remedy", "proxylab down "+l.Name())
		}
	}()
	if err := l.Up(ctx); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return f(l)
}
