package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"proxylab/lab"
	"proxylab/lab/labs"
)

func newUp() *cobra.Command {
	var (
		what          labFlags
		name, proxier string
		nodes         int
		flags         proxierFlags
		balancers     balancerFlags
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring up a lab and leave it running",
		Long: `Bring up a cluster on this machine. --lab netns: a real control plane, and nodes and pods in network namespaces.
--lab kind: a real cluster in Docker, made by kind; or the kind cluster of that name that is there already, which then
stays when the lab goes. The lab stays until "proxylab down". Called again, it completes what is missing.`,
		Example: `  proxylab up --nodes 3 --proxier iptables
  proxylab up --lab kind --proxier kube-proxy/nftables
  kubectl --kubeconfig "$(proxylab kubeconfig)" get nodes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := what.settle(cmd, "")
			if err != nil {
				return err
			}
			if nodes < 1 || nodes > labs.MaxNodes(what.kind) {
				return usagef("--nodes %d: accepted are 1 to %d", nodes, labs.MaxNodes(what.kind))
			}
			if what.config != "" && cmd.Flags().Changed("nodes") {
				return usagef("--nodes and --kind-config: the configuration says how many nodes there are, give one of them")
			}
			if err := flags.validate(); err != nil {
				return err
			}
			if err := what.preflight(cmd.Context(), nodes); err != nil {
				return err
			}
			if !cmd.Flags().Changed("nodes") {
				nodes = 0 // as many as it has, or as is usual for its kind
			}
			options := what.options(name, nodes)
			if options.LBaaS, err = balancers.spec(cmd, name); err != nil {
				return err
			}
			if proxier != "none" {
				spec, err := flags.spec(cmd.Context(), what.kind, proxier)
				if err != nil {
					return err
				}
				options.Proxier = &spec
			}
			l, err := labs.New(options)
			if err != nil {
				return usageError{err}
			}
			if err := l.Up(cmd.Context()); err != nil {
				return err
			}
			if options.Proxier != nil {
				if err := sayAllInEffect(cmd.Context(), cmd.ErrOrStderr(), l, options.Proxier.Name); err != nil {
					return err
				}
			}
			return describe(cmd, l)
		},
	}
	what.register(cmd)
	cmd.Flags().StringVar(&name, "name", defaultLab, "name of the lab")
	cmd.Flags().IntVar(&nodes, "nodes", 2, "number of nodes")
	cmd.Flags().StringVar(&proxier, "proxier", "iptables", `proxier to run on every node, or "none"`)
	flags.register(cmd)
	balancers.register(cmd)
	return cmd
}

// describe prints how to use a lab that is up.
func describe(cmd *cobra.Command, l lab.Lab) error {
	nodes, err := l.Nodes(cmd.Context())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "lab %s is up: %d nodes\n", l.Name(), len(nodes))
	fmt.Fprintf(out, "  kubectl --kubeconfig %s get nodes\n", l.Kubeconfig())
	if err := describeBalancers(cmd, l); err != nil {
		return err
	}
	fmt.Fprintf(out, "  proxylab down %s\n", l.Name())
	return nil
}
