package main

import (
	"strings"

	"github.com/spf13/cobra"

	"proxylab/lab"
)

// newExec is for looking around: kubectl exec needs a kubelet, which a netns lab does not have.
func newExec() *cobra.Command {
	var name, node, pod string
	cmd := &cobra.Command{
		Use:   "exec [--node NODE | --pod [NAMESPACE/]POD] -- COMMAND [ARG...]",
		Short: "Run a command in the network of a node, of a pod, or beside the nodes",
		Example: `  proxylab exec --pod client -- curl -s http://web
  proxylab exec --node node1 -- iptables-save -t nat
  proxylab exec -- curl -s http://10.10.0.11:30080     (from outside)`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if node != "" && pod != "" {
				return usagef("exec takes --node or --pod, not both")
			}
			l, err := openLab(cmd.Context(), name)
			if err != nil {
				return err
			}
			at := lab.Place{Node: node}
			if pod != "" {
				namespace, podName, found := strings.Cut(pod, "/")
				if !found {
					namespace, podName = "default", pod
				}
				at = lab.Place{Namespace: namespace, Pod: podName}
			}
			process, err := l.Exec(cmd.Context(), at, lab.Command{
				Args: args, Stdin: cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
			})
			if err != nil {
				return err
			}
			return process.Wait()
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the lab (default: the one that is up)")
	cmd.Flags().StringVar(&node, "node", "", "in this node's network and mount namespace")
	cmd.Flags().StringVar(&pod, "pod", "", "in this pod's network namespace")
	return cmd
}
