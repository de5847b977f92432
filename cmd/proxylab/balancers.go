package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"proxylab/lab"
	"proxylab/lab/labs"
	"proxylab/scenarios"
)

// balancerFlags say what load balancers a lab has.
type balancerFlags struct {
	on, standby bool
	delay       time.Duration
}

func (f *balancerFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "lbaas", true, "load balancers for Services of type LoadBalancer")
	cmd.Flags().BoolVar(&f.standby, "lb-standby", false, "two balancer instances, of which one stands by")
	cmd.Flags().DurationVar(&f.delay, "lb-provision-delay", 0, "how long the LBaaS takes to provision what is asked for")
}

// spec is what is asked for; nil: nothing, as for a lab that is there and about whose load balancers nothing was said.
func (f *balancerFlags) spec(cmd *cobra.Command, name string) (*lab.LBaaSSpec, error) {
	said := false
	for _, flag := range []string{"lbaas", "lb-standby", "lb-provision-delay"} {
		said = said || cmd.Flags().Changed(flag)
	}
	switch {
	case f.delay < 0:
		return nil, usagef("--lb-provision-delay %s: must not be negative", f.delay)
	case said && !f.on && (f.standby || f.delay > 0):
		return nil, usagef("--lbaas=false goes with no other flag about load balancers")
	case !f.on, !said && labs.Exists(name):
		return nil, nil
	}
	return &lab.LBaaSSpec{Standby: f.standby, ProvisionDelay: f.delay}, nil
}

// describeBalancers prints how to use the load balancers of a lab, if it has any.
func describeBalancers(cmd *cobra.Command, l lab.Lab) error {
	balanced, ok := l.(lab.Balanced)
	if !ok {
		return nil
	}
	b, err := balanced.LBaaS(cmd.Context())
	if err != nil || b == nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "  Services of type LoadBalancer get an address; the LBaaS API is at %s\n", b.URL)
	fmt.Fprintf(out, "  . %s; openstack loadbalancer list\n", b.OpenRC)
	return nil
}

// balancersOf are the load balancers that a scenario asks for; nil: none.
func balancersOf(l *scenarios.LBaaS) *lab.LBaaSSpec {
	if l == nil {
		return nil
	}
	return &lab.LBaaSSpec{
		Standby: l.Topology == scenarios.ActiveStandby, ProvisionDelay: l.ProvisionDelay.Duration(), ProvisionJitter: l.ProvisionJitter.Duration(),
		Plan: l.Plan,
	}
}
