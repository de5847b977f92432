package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/charmbracelet/log"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"proxylab/lab/balancers"
	"proxylab/lab/controlplane"
	"proxylab/lab/kernel"
	"proxylab/lab/kind"
	"proxylab/lab/lbaas/cloud"
	"proxylab/lab/lbaas/plane"
	"proxylab/lab/netns"
)

// version is set by the linker (-X main.version=...).
var version = ""

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		printError(stderr, err)
	}
	return exitCode(err)
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	// Kubernetes' libraries register flags of their own for every program that links them in, and cobra would offer
	// them all.
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	verbose := false
	root := &cobra.Command{
		Use:   "proxylab",
		Short: "A lab and benchmark harness for Kubernetes Service proxying",
		Long: `proxylab brings up a cluster on this machine, runs a Service proxy on its nodes, plays a scenario
against it and shows what the traffic felt and what the proxy cost.

Begin with "proxylab doctor", then "proxylab run quickstart".`,
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			level := log.InfoLevel
			if verbose {
				level = log.DebugLevel
			}
			slog.SetDefault(slog.New(log.NewWithOptions(stderr, log.Options{
				Level: level, ReportTimestamp: true, TimeFormat: time.TimeOnly,
			})))
		},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetVersionTemplate("proxylab {{.Version}}\n")
	root.PersistentFlags().BoolVarP(&verbose, "verbose", "v", false, "say more on standard error")
	root.AddCommand(
		newDoctor(), newUp(), newLs(), newDown(), newKubeconfig(), newSwap(), newExec(), newRules(),
		newRun(), newWatch(), newLab(), newScenarios(), newReport(), newCompare(), newServe(), newConformance(), newManifests(), newLBaaS(),
		newProxier(), newKubeProxyReports(), newLoad(), newProbe(), newPublish(), newDial(),
		&cobra.Command{
			Use: "version", Short: "Print the version", Args: cobra.NoArgs,
			Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "proxylab", versionText()) },
		})
	root.AddCommand(controlplane.Commands()...)
	root.AddCommand(netns.Commands()...)
	root.AddCommand(cloud.Commands()...)
	root.AddCommand(kind.Commands()...)
	root.AddCommand(balancers.Commands()...)
	root.AddCommand(kernel.Commands()...)
	root.AddCommand(plane.Commands()...)
	return root
}
