package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newKubeconfig() *cobra.Command {
	return &cobra.Command{
		Use:     "kubeconfig [NAME]",
		Short:   "Print the path of a lab's kubeconfig",
		Example: `  kubectl --kubeconfig "$(proxylab kubeconfig)" get pods -A`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab(cmd.Context(), optional(args))
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), l.Kubeconfig())
			return nil
		},
	}
}
