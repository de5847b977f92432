package kind

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"proxylab/lab/netns/echo"
)

// Commands returns the hidden commands that a lab's processes run, here and in pods. Up expects them in the binary.
func Commands() []*cobra.Command { return []*cobra.Command{newCreate(), newEcho(), newIdle()} }

// newEcho is the image proxylab/echo. It ignores the polite signal, so that a pod that is being deleted serves until its grace
// period is over, as those of the netns lab do.
func newEcho() *cobra.Command {
	return &cobra.Command{
		Use: "echo [ARG...]", Short: "Be the image proxylab/echo", Hidden: true, SilenceUsage: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := echo.Parse(args)
			if err != nil {
				return err
			}
			if o.Pod, err = os.Hostname(); err != nil {
				return err
			}
			o.Node, o.Namespace = os.Getenv("PROXYLAB_NODE"), namespace()
			signal.Ignore(unix.SIGTERM)
			server, err := echo.Serve(cmd.Context(), o, echo.Local{})
			if err != nil {
				return err
			}
			defer func() { _ = server.Close() }()
			<-cmd.Context().Done()
			return nil
		},
	}
}

// namespace is the pod's, from its service account.
func namespace() string {
	b, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return string(b)
}

// newIdle is the image proxylab/client: nothing listens there.
func newIdle() *cobra.Command {
	return &cobra.Command{
		Use: "idle", Short: "Be the image proxylab/client", Hidden: true, Args: cobra.ArbitraryArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
