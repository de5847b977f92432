package main

import (
	"github.com/spf13/cobra"

	"proxylab/bench/load"
	"proxylab/bench/probe"
	"proxylab/bench/publish"
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

// newPublish is run by a scenario outside, beside the nodes.
func newPublish() *cobra.Command {
	return &cobra.Command{
		Use: "publish", Short: "Ask VIPs as standard input says, until they answer", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return publish.Main(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
