package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"proxylab/lab"
	"proxylab/lab/netns"
	"proxylab/lab/netns/fabric"
)

func newUp() *cobra.Command {
	var (
		kind, name, proxier string
		nodes               int
		flags               proxierFlags
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring up a lab and leave it running",
		Long: `Bring up a cluster on this machine: a real control plane, and nodes and pods in network namespaces.
It stays until "proxylab down". Called again, it completes what is missing.`,
		Example: `  proxylab up --nodes 3 --proxier iptables
  kubectl --kubeconfig "$(proxylab kubeconfig)" get nodes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLabKind(kind); err != nil {
				return err
			}
			if nodes < 1 || nodes > fabric.MaxNodes {
				return usagef("--nodes %d: accepted are 1 to %d", nodes, fabric.MaxNodes)
			}
			if err := flags.validate(); err != nil {
				return err
			}
			if err := preflight(); err != nil {
				return err
			}
			options := netns.Options{Name: name, Nodes: nodes, Log: slog.Default()}
			if proxier != "none" {
				spec, err := flags.spec(cmd.Context(), proxier)
				if err != nil {
					return err
				}
				options.Proxier = &spec
			}
			l, err := netns.New(options)
			if err != nil {
				return usageError{err}
			}
			if err := l.Up(cmd.Context()); err != nil {
				return err
			}
			if options.Proxier != nil {
				if err := sayAllInEffect(cmd.Context(), cmd.ErrOrStderr(), l, options.Proxier.Name); err != nil {
					return err
				}
			}
			return describe(cmd, l)
		},
	}
	cmd.Flags().StringVar(&kind, "lab", "netns", "kind of lab: netns")
	cmd.Flags().StringVar(&name, "name", defaultLab, "name of the lab")
	cmd.Flags().IntVar(&nodes, "nodes", 2, "number of nodes")
	cmd.Flags().StringVar(&proxier, "proxier", "iptables", `proxier to run on every node, or "none"`)
	flags.register(cmd)
	return cmd
}

// describe prints how to use a lab that is up.
func describe(cmd *cobra.Command, l lab.Lab) error {
	nodes, err := l.Nodes(cmd.Context())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "lab %s is up: %d nodes\n", l.Name(), len(nodes))
	fmt.Fprintf(out, "  kubectl --kubeconfig %s get nodes\n", l.Kubeconfig())
	fmt.Fprintf(out, "  proxylab down %s\n", l.Name())
	return nil
}
