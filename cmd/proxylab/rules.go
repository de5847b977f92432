package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"proxylab/proxiers/rules"
	"proxylab/scenarios/inspect"
)

func newRules() *cobra.Command {
	var name, node, output string
	cmd := &cobra.Command{
		Use:   "rules [[NAMESPACE/]SERVICE]",
		Short: "Print the rules behind a Service, with a line of explanation per hop",
		Long: `Follow packets to each address of a Service through the rules of a node: iptables rules, nftables rules and map
elements, or IPVS virtual servers, as the proxier that runs there wrote them and the node's own tools print them.
Below each hop a line says what it does. Without a SERVICE, list those there are.`,
		Example: `  proxylab rules web
  proxylab rules --node node2 shop/checkout -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return usagef("-o %q: accepted are text, json", output)
			}
			l, err := openLab(cmd.Context(), name)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				list, err := inspect.Services(cmd.Context(), l)
				if err != nil {
					return err
				}
				return printServices(cmd, list, output)
			}
			found, err := inspect.ReadRules(cmd.Context(), l, node, args[0])
			if err != nil {
				return err
			}
			return printRules(cmd, found, output)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the lab (default: the one that is up)")
	cmd.Flags().StringVar(&node, "node", "", "the node to look at (default: the first)")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func printRules(cmd *cobra.Command, found *inspect.Rules, output string) error {
	w := cmd.OutOrStdout()
	if output == "json" {
		return printJSON(cmd, found)
	}
	by := found.Proxier
	if found.Backend != "" {
		by += " (iptables " + found.Backend + ")"
	}
	fmt.Fprintf(w, "On %s of lab %s, by %s:\n\n", found.Node, found.Lab, by)
	return rules.Print(w, found.Stories)
}

func printServices(cmd *cobra.Command, list []inspect.Service, output string) error {
	if output == "json" {
		return printJSON(cmd, list)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVICE\tTYPE\tADDRESSES\tPORTS\tENDPOINTS")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", s.Name, s.Type, strings.Join(s.Addresses, ","), strings.Join(s.Ports, ","), s.Endpoints)
	}
	return w.Flush()
}

func printJSON(cmd *cobra.Command, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), string(data))
	return err
}
