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
	"proxylab/lab/netns"
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
func openLab(ctx context.Context, name string) (*netns.Lab, error) {
	if name != "" {
		return netns.Open(name)
	}
	labs, err := netns.List(ctx)
	if err != nil {
		return nil, err
	}
	switch len(labs) {
	case 0:
		return nil, fmt.Errorf("no lab is up; start one with: proxylab up")
	case 1:
		return netns.Open(labs[0].Name)
	}
	names := make([]string, len(labs))
	for i, l := range labs {
		names[i] = l.Name
	}
	return nil, usagef("several labs are up, name one of: %s", strings.Join(names, ", "))
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

// spec is the named proxier on these terms; it fails where the name is unknown or this machine cannot run it.
func (f *proxierFlags) spec(ctx context.Context, name string) (lab.ProxierSpec, error) {
	if _, err := proxiers.Lookup(name); err != nil {
		return lab.ProxierSpec{}, usageError{err}
	}
	_, refusal, err := proxiers.Choose(ctx, proxiers.Options{Name: name, Backend: f.backend, Scheduler: f.scheduler, Fallback: f.fallback})
	if err != nil {
		return lab.ProxierSpec{}, fmt.Errorf("%w", lab.Missing{What: err.Error(), Remedy: "proxylab doctor says what else this machine can run"})
	}
	if refusal != nil {
		slog.Warn("the proxier asked for cannot run here, its fallback runs in its place", "asked", name, "runs", f.fallback, "because", refusal)
	}
	return lab.ProxierSpec{Name: name, Backend: f.backend, MinSyncPeriod: f.minSync, SyncPeriod: f.sync,
		Scheduler: f.scheduler, Fallback: f.fallback}, nil
}

// checkLabKind refuses what this build has no lab for.
func checkLabKind(kind string) error {
	if kind != "netns" {
		return usagef("--lab %q: accepted is netns", kind)
	}
	return nil
}

// preflight fails with all that this machine lacks for a lab.
func preflight() error {
	var errs []error
	for _, p := range netns.Preflight() {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}
