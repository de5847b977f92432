package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"proxylab/proxiers"
	"proxylab/proxiers/kubeproxy"
)

// newProxier is what runs on a node. Its standard output carries one JSON line per sync.
func newProxier() *cobra.Command {
	var (
		node, kubeconfig string
		cleanup, own     bool
		takeOver         bool
		takenOverBy      string
		flags            proxierFlags
	)
	cmd := &cobra.Command{
		Use:   "proxier PROXIER --node NODE --kubeconfig FILE",
		Short: "Run a proxier on this node",
		Long: `Run a proxier in the network namespace it is started in, for the node named, until it is told to end.
It writes one JSON line per sync on standard output, and its log on standard error.

Proxiers:
` + proxierList(),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.validate(); err != nil {
				return err
			}
			info, err := proxiers.Lookup(args[0])
			if err != nil {
				return usageError{err}
			}
			options := proxiers.Options{
				Name: args[0], Node: node, Kubeconfig: kubeconfig,
				MinSyncPeriod: flags.minSync, SyncPeriod: flags.sync, Backend: flags.backend,
				Scheduler: flags.scheduler, Fallback: flags.fallback, TakenOverBy: takenOverBy, TakeOver: takeOver,
				Reports: cmd.OutOrStdout(), Log: slog.Default(),
			}
			if takeOver && (!info.Native || cleanup || own) {
				return usagef("--take-over is for a native proxier that runs")
			}
			if own {
				return proxiers.OwnCleanup(args[0])
			}
			if cleanup {
				leftovers, err := proxiers.Cleanup(cmd.Context(), options)
				for _, l := range leftovers {
					fmt.Fprintln(cmd.OutOrStdout(), l)
				}
				return err
			}
			if node == "" || kubeconfig == "" {
				return usagef("proxier needs --node and --kubeconfig")
			}
			return proxiers.Run(cmd.Context(), options)
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "name of the Node object that this is")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	cmd.Flags().BoolVar(&cleanup, "cleanup", false, "remove what this proxier's mode left on the node, print what is still there, and end")
	cmd.Flags().BoolVar(&own, "own-cleanup", false, "of kube-proxy: do what \"kube-proxy --cleanup\" does, no more, and end")
	cmd.Flags().StringVar(&takenOverBy, "taken-over-by", "", "with --cleanup: the proxier that runs now, whose rules stay")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "after the first sync, remove what proxiers of other modes left on the node, kube-proxy's rules too")
	flags.register(cmd)
	return cmd
}

// newKubeProxyReports is run by a kind lab beside a kube-proxy that is another process. Its standard output is as newProxier's.
func newKubeProxyReports() *cobra.Command {
	var o kubeproxy.FollowOptions
	cmd := &cobra.Command{
		Use: "kube-proxy-reports", Short: "Report the syncs of a kube-proxy that runs", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Reports = cmd.OutOrStdout()
			return kubeproxy.Follow(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Mode, "mode", "", "its mode")
	cmd.Flags().IntVar(&o.PID, "pid", 0, "its process")
	return cmd
}

func proxierList() string {
	text := ""
	for _, p := range proxiers.All() {
		text += fmt.Sprintf("  %-20s %s\n", p.Name, p.Summary)
	}
	return text
}
