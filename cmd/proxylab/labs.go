package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"proxylab/lab"
	"proxylab/lab/netns"
	"proxylab/proxiers"
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
	minSync, sync time.Duration
	backend       string
}

func (f *proxierFlags) register(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.minSync, "min-sync-period", time.Second, "shortest time between two syncs of a proxier")
	cmd.Flags().DurationVar(&f.sync, "sync-period", 30*time.Second, "time after which a proxier checks everything again")
	cmd.Flags().StringVar(&f.backend, "iptables", "auto", "iptables back end: legacy, nft, or auto (the one this machine uses)")
}

func (f *proxierFlags) validate() error {
	switch {
	case f.backend != "auto" && f.backend != "legacy" && f.backend != "nft":
		return usagef("--iptables %q: accepted are legacy, nft, auto", f.backend)
	case f.minSync < 0:
		return usagef("--min-sync-period %s: must not be negative", f.minSync)
	case f.sync <= 0:
		return usagef("--sync-period %s: must be positive", f.sync)
	case f.minSync > f.sync:
		return usagef("--min-sync-period %s is longer than --sync-period %s", f.minSync, f.sync)
	}
	return nil
}

// spec is the named proxier on these terms; it fails where the name is unknown or this machine cannot run it.
func (f *proxierFlags) spec(ctx context.Context, name string) (lab.ProxierSpec, error) {
	if _, err := proxiers.Lookup(name); err != nil {
		return lab.ProxierSpec{}, usageError{err}
	}
	if err := proxiers.Preflight(ctx, name, f.backend); err != nil {
		return lab.ProxierSpec{}, fmt.Errorf("%w", lab.Missing{What: err.Error(), Remedy: "proxylab doctor says what else this machine can run"})
	}
	return lab.ProxierSpec{Name: name, Backend: f.backend, MinSyncPeriod: f.minSync, SyncPeriod: f.sync}, nil
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
