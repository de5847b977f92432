package main

import (
	"github.com/spf13/cobra"

	"proxylab/lab/lbaas/plane"
)

// newLBaaSInstance is run by proxylab lbaas and by labs with load balancers.
func newLBaaSInstance() []*cobra.Command { return plane.Commands() }
