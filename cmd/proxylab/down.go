package main

import (
	"github.com/spf13/cobra"

	"proxylab/lab/labs"
)

func newDown() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down [NAME]",
		Short: "Remove a lab and everything it put on the machine",
		Long: `Remove a lab: its processes, network namespaces, mounts, containers and files, found by name, whatever state it is
in. A kind cluster that was there before the lab stays, and gets its own kube-proxy back.
--all removes every lab, also what a killed proxylab left behind.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return usagef("down takes a NAME or --all, not both")
			}
			if err := (&labFlags{kind: labs.Default}).preflight(cmd.Context(), 0); err != nil {
				return err
			}
			if all {
				return labs.DownAll(cmd.Context())
			}
			if name := optional(args); name != "" { // what a crash left of a lab is enough
				return labs.Remove(cmd.Context(), name)
			}
			l, err := openLab(cmd.Context(), "")
			if err != nil {
				return err
			}
			return l.Down(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all labs, and leftovers of killed ones")
	return cmd
}
