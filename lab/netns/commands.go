package netns

import (
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"proxylab/lab/netns/agent"
	"proxylab/lab/netns/fabric"
)

// agentPart is what the node agent is among a lab's processes (see procs.Spec).
const agentPart = "agent"

// Commands returns the hidden commands that a lab's processes run. Up expects them in the binary.
func Commands() []*cobra.Command {
	var name, kubeconfig, file string
	var nodes int
	cmd := &cobra.Command{
		Use:          "agent",
		Short:        "Be the nodes of a netns lab",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fabric.ValidName(name); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			now := agent.Nodes{Count: nodes}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			var changes <-chan agent.Nodes
			if file != "" {
				changes = followNodes(ctx, file, log)
				if err := readJSON(file, &now); err != nil {
					return err
				}
			}
			return agent.Run(ctx, agent.Config{
				Plan:       fabric.Plan{Lab: name, Count: now.Count},
				Dead:       now.Dead,
				Changes:    changes,
				Kubeconfig: kubeconfig,
				Log:        log,
			})
		},
	}
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab")
	cmd.Flags().IntVar(&nodes, "nodes", 0, "number of its nodes")
	cmd.Flags().StringVar(&file, "nodes-file", "", "JSON file that says which nodes there are, read again at SIGHUP (default: as --nodes says)")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig with all rights")
	for _, f := range []string{"lab", "nodes", "kubeconfig"} {
		_ = cmd.MarkFlagRequired(f) // fails only for a flag that is not there
	}
	return []*cobra.Command{cmd}
}
