package netns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"proxylab/lab"
	"proxylab/lab/balancers"
	"proxylab/lab/controlplane"
	"proxylab/lab/lbaas/cloud"
	"proxylab/lab/lbaas/plane"
	"proxylab/lab/netns"
)

// TestMain makes the test binary its own sub-commands: a lab runs this binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"component", "agent", "proxier", "lab-up", "lab-down", "lab-lbaas", plane.InstanceCommand, cloud.Name}, os.Args[1]) {
		root := &cobra.Command{Use: "proxylab", SilenceUsage: true}
		root.AddCommand(controlplane.Commands()...)
		root.AddCommand(netns.Commands()...)
		root.AddCommand(balancers.Commands()...)
		root.AddCommand(plane.Commands()...)
		root.AddCommand(cloud.Commands()...)
		root.AddCommand(fakeProxier(), upCommand(), downCommand())
		ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
		err := root.ExecuteContext(ctx)
		stop()
		if err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fakeProxier does nothing but report, in the way that its name says.
func fakeProxier() *cobra.Command {
	var cleanup bool
	cmd := &cobra.Command{
		Use:  "proxier",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cleanup {
				fmt.Println("chain KUBE-LEFT-OVER")
				return nil
			}
			return report(cmd.Context(), args[0])
		},
	}
	for _, f := range []string{"node", "kubeconfig", "min-sync-period", "sync-period", "iptables"} {
		cmd.Flags().String(f, "", "")
	}
	cmd.Flags().BoolVar(&cleanup, "cleanup", false, "")
	return cmd
}

func report(ctx context.Context, how string) error {
	out := json.NewEncoder(os.Stdout)
	switch how {
	case "dies":
		return fmt.Errorf("the kernel lacks what it needs")
	case "fails":
		_ = out.Encode(map[string]any{"time": time.Now(), "error": "no such table"})
	case "recovers":
		_ = out.Encode(map[string]any{"time": time.Now(), "error": "lock is held"})
		time.Sleep(50 * time.Millisecond)
		_ = out.Encode(map[string]any{"time": time.Now(), "full": true})
	default:
		_ = out.Encode(map[string]any{"time": time.Now(), "full": true})
	}
	<-ctx.Done()
	return nil
}

// upCommand brings a lab up, to be killed while it does.
func upCommand() *cobra.Command {
	return &cobra.Command{Use: "lab-up", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		l, err := netns.New(netns.Options{Name: args[0], LBaaS: &lab.LBaaSSpec{Standby: true}})
		if err != nil {
			return err
		}
		return l.Up(cmd.Context())
	}}
}

// downCommand takes a lab down, beside others that do the same.
func downCommand() *cobra.Command {
	return &cobra.Command{Use: "lab-down", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		l, err := netns.New(netns.Options{Name: args[0]})
		if err != nil {
			return err
		}
		return l.Down(cmd.Context())
	}}
}
