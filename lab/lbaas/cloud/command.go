package cloud

import (
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Name is how the controller's command, its process and its events are called.
const Name = "cloud-controller-manager"

// Commands returns the hidden command that runs the controller. It prints "ready" on standard output once it works, logs
// on standard error and ends in good order on SIGTERM.
func Commands() []*cobra.Command {
	var o Options
	var configFile string
	cmd := &cobra.Command{
		Use:          Name,
		Short:        "Give Services of type LoadBalancer their balancers, through OpenStack's LBaaS",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if configFile != "" {
				fromFile, err := ReadConfig(configFile)
				if err != nil {
					return err
				}
				o.Balancers = fromFile.overriddenBy(o.Balancers)
			}
			if o.Endpoint.Password == "" {
				o.Endpoint.Password = os.Getenv("OS_PASSWORD") // a command line is for everyone to read
			}
			o.Ready = func() { fmt.Fprintln(cmd.OutOrStdout(), "ready") }
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			return Main(ctx, o)
		},
	}
	flags(cmd, &o)
	cmd.Flags().StringVar(&configFile, "config", "", "YAML `file` with what balancers are made of; flags go before it")
	return []*cobra.Command{cmd}
}

func flags(cmd *cobra.Command, o *Options) {
	f, e, c := cmd.Flags(), &o.Endpoint, &o.Balancers
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&o.ClusterName, "cluster-name", "kubernetes", "part of every balancer's name; unique in the project")
	f.IntVar(&o.Workers, "concurrent-service-syncs", 10, "Services that are worked on at the same time")
	f.DurationVar(&o.DriftPeriod, "drift-period", 0, "how often balancers are compared with what is wanted of them (default 1m; below 0: never)")

	f.StringVar(&e.AuthURL, "auth-url", "", "URL of Keystone")
	f.StringVar(&e.Username, "username", "", "user, with --auth-url")
	f.StringVar(&e.Password, "password", "", "password, with --auth-url (default $OS_PASSWORD)")
	f.StringVar(&e.Project, "project-name", "", "project, with --auth-url")
	f.StringVar(&e.Domain, "domain-name", "Default", "domain of user and project, with --auth-url")
	f.StringVar(&e.Region, "region", "", "region, with --auth-url")
	f.StringVar(&e.Octavia, "octavia-endpoint", "", "URL of Octavia, without Keystone")
	f.StringVar(&e.Network, "network-endpoint", "", "URL of Neutron, without Keystone")
	f.StringVar(&e.ProjectID, "project-id", "", "project, without Keystone")
	f.DurationVar(&e.RequestTimeout, "request-timeout", 0, "how long one answer may take (default 30s)")

	f.StringVar(&c.SubnetID, "subnet-id", "", "subnet of VIPs, IPv4")
	f.StringVar(&c.SubnetID6, "subnet-id-v6", "", "subnet of VIPs, IPv6")
	f.StringVar(&c.NetworkID, "network-id", "", "network of VIPs, if no subnet is given")
	f.StringVar(&c.MemberSubnetID, "member-subnet-id", "", "subnet of members (default that of the VIP)")
	f.StringVar(&c.FloatingNetworkID, "floating-network-id", "", "network of floating IPs")
	f.BoolVar(&c.Internal, "internal", false, "no floating IPs")
	f.StringVar(&c.Provider, "lb-provider", "", "Octavia's provider")
	f.StringVar(&c.Algorithm, "lb-method", "", "algorithm of pools (default ROUND_ROBIN)")
	f.BoolVar(&c.CreateMonitor, "create-monitor", false, "health monitors also where externalTrafficPolicy is Cluster")
	_ = cmd.MarkFlagRequired("kubeconfig") // fails only for a flag that is not there
}

// overriddenBy is c with what flags have set.
func (c Config) overriddenBy(flags Config) Config {
	for _, s := range []struct{ to, from *string }{
		{&c.SubnetID, &flags.SubnetID}, {&c.SubnetID6, &flags.SubnetID6}, {&c.NetworkID, &flags.NetworkID},
		{&c.MemberSubnetID, &flags.MemberSubnetID}, {&c.FloatingNetworkID, &flags.FloatingNetworkID},
		{&c.Provider, &flags.Provider}, {&c.Algorithm, &flags.Algorithm},
	} {
		if *s.from != "" {
			*s.to = *s.from
		}
	}
	c.Internal = c.Internal || flags.Internal
	c.CreateMonitor = c.CreateMonitor || flags.CreateMonitor
	return c
}
