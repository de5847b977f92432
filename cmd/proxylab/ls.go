package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"proxylab/lab"
	"proxylab/lab/labs"
)

func newLs() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the labs on this machine, also what a killed one left",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := labs.List(cmd.Context())
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tLAB\tNODES\tPROXIER\tAGE\tSTATE")
			for _, l := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Kind, nodeCount(l), proxiersOf(l), age(l), state(l))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			for _, l := range all {
				if l.LBaaS != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "load balancers of %s: %s\n", l.Name, l.LBaaS)
				}
			}
			return nil
		},
	}
}

func nodeCount(l lab.Info) string {
	if l.Nodes == 0 {
		return "?"
	}
	return fmt.Sprint(l.Nodes)
}

// proxiersOf is one name where all nodes run the same, and each node's own where they differ.
func proxiersOf(l lab.Info) string {
	names := slices.Compact(slices.Sorted(maps.Values(l.Proxiers)))
	switch {
	case len(names) == 0:
		return "none"
	case len(names) == 1 && len(l.Proxiers) == l.Nodes:
		return names[0]
	}
	var each []string
	for _, node := range slices.Sorted(maps.Keys(l.Proxiers)) {
		each = append(each, node+"="+l.Proxiers[node])
	}
	return strings.Join(each, ",")
}

func age(l lab.Info) string {
	if l.Created.IsZero() {
		return "?"
	}
	return time.Since(l.Created).Round(time.Second).String()
}

func state(l lab.Info) string {
	switch {
	case l.Complete:
		return "up"
	case runsInKernel(l.Name):
		return "running, in a kernel of its own"
	}
	return "incomplete (proxylab down " + l.Name + ")"
}
