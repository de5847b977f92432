package main

import (
	"github.com/spf13/cobra"

	"proxylab/bench/load"
	"proxylab/bench/probe"
)

// newLoad and newProbe are run by a scenario inside a client pod's network namespace.
func newLoad() *cobra.Command {
	return &cobra.Command{
		Use: "load", Short: "Generate the load that standard input describes", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return load.Main(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newProbe() *cobra.Command {
	return &cobra.Command{
		Use: "probe", Short: "Probe a Service as standard input says", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return probe.Main(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
