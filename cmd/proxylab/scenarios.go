package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"proxylab/scenarios"
)

func newScenarios() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scenarios",
		Short: "List the built-in scenarios",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, s := range scenarios.Library() {
				fmt.Fprintf(w, "%s\t%s\n", s.Name, s.Description)
			}
			return w.Flush()
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "show NAME", Short: "Print a built-in scenario, to learn from or to start one's own", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				text, err := scenarios.Show(args[0])
				if err != nil {
					return usageError{err}
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			},
		},
		&cobra.Command{
			Use: "schema", Short: "Print the JSON schema of the scenario format, for editors", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), string(scenarios.Schema()))
				return err
			},
		})
	return cmd
}
