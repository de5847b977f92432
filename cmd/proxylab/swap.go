package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"proxylab/lab"
	"proxylab/scenarios/play"
)

func newSwap() *cobra.Command {
	var (
		node, name string
		flags      proxierFlags
	)
	cmd := &cobra.Command{
		Use:   "swap PROXIER",
		Short: "Change the proxier of a running lab",
		Long: `Stop the proxier that runs, start another, and once that one's first sync is in the kernel remove the rules that
the old one's mode left. "none" only stops and removes.

Proxiers:
` + proxierList(),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.validate(); err != nil {
				return err
			}
			l, err := openLab(cmd.Context(), name)
			if err != nil {
				return err
			}
			var to *lab.ProxierSpec
			if args[0] != "none" {
				spec, err := flags.spec(cmd.Context(), l.Kind(), args[0])
				if err != nil {
					return err
				}
				to = &spec
			}
			nodes, err := l.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(cmd.Context())
			found := false
			for _, n := range nodes {
				if node != "" && node != n.Name {
					continue
				}
				found = true
				group.Go(func() error { return swapNode(ctx, cmd, l, n.Name, to) })
			}
			if !found {
				return usagef("--node %q: lab %s has no such node", node, l.Name())
			}
			return group.Wait()
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "only on this node (default: on all)")
	cmd.Flags().StringVar(&name, "name", "", "name of the lab (default: the one that is up)")
	flags.register(cmd)
	return cmd
}

func swapNode(ctx context.Context, cmd *cobra.Command, l lab.Lab, node string, to *lab.ProxierSpec) error {
	old, err := l.Proxier(ctx, node)
	if err != nil {
		return err
	}
	if err := l.StopProxier(ctx, node); err != nil {
		return err
	}
	if to != nil {
		if err := l.StartProxier(ctx, node, *to); err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
	}
	now := ""
	if to != nil {
		if now, err = sayInEffect(ctx, cmd.ErrOrStderr(), l, node, to.Name); err != nil {
			return err
		}
	}
	if old == nil {
		return nil
	}
	left, err := play.LeaveMode(ctx, l, node, old.ProxierSpec, now)
	for _, line := range left {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s left behind: %s\n", node, old.Name, line)
	}
	return err
}

// sayInEffect finds out which proxier runs on a node, by its own word, and says so if it is not the one asked for.
func sayInEffect(ctx context.Context, w io.Writer, l lab.Lab, node, asked string) (string, error) {
	state, err := l.Proxier(ctx, node)
	if err != nil || state == nil {
		return asked, err
	}
	is := play.InEffect(state.Reports)
	if is == "" || is == asked {
		return asked, nil
	}
	fmt.Fprintf(w, "%s: %s was asked for, %s runs in its place; see %s\n", node, asked, is, state.Log)
	return is, nil
}

// sayAllInEffect is sayInEffect for every node.
func sayAllInEffect(ctx context.Context, w io.Writer, l lab.Lab, asked string) error {
	nodes, err := l.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if _, err := sayInEffect(ctx, w, l, n.Name, asked); err != nil {
			return err
		}
	}
	return nil
}
