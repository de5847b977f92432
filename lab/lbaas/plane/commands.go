package plane

import (
	"os/signal"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// InstanceCommand is the name of the hidden verb that Commands returns.
const InstanceCommand = "lbaas-instance"

// Commands returns the hidden command that is an instance of the data plane.
func Commands() []*cobra.Command {
	var o InstanceOptions
	cmd := &cobra.Command{
		Use:          InstanceCommand,
		Short:        "Carry the traffic of load balancers, as standard input says",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			tune()
			o.Log = cmd.ErrOrStderr()
			return Instance(ctx, cmd.InOrStdin(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", "", "what the instance is called in statuses")
	cmd.Flags().StringVar(&o.Interface, "interface", "",
		"link that the VIPs are added to while the instance is active (every /32 and /128 there is the instance's); "+
			"without it they must be local already")
	return []*cobra.Command{cmd}
}

// tune fits the process to its work, which is system calls. Clients and members of a lab run on the same machine: half of
// its CPUs carry more than all of them, for fewer goroutines change threads.
func tune() {
	debug.SetGCPercent(400) // little memory, many short lives: collect less often
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
}
