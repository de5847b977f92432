package lab

import (
	"context"
	"fmt"
	"time"

	"proxylab/lab/lbaas/faults"
)

// Balanced is a lab that may have load balancers for Services of type LoadBalancer.
type Balanced interface {
	// LBaaS says how to reach what makes them; nil: the lab has none.
	LBaaS(ctx context.Context) (*LBaaS, error)
}

// LBaaSSpec says what load balancers a lab has.
type LBaaSSpec struct {
	// Standby: there are two instances, of which one stands by. Otherwise there is one.
	Standby         bool          `json:"standby,omitempty"`
	ProvisionDelay  time.Duration `json:"provisionDelay,omitempty"`  // from a write until what it changes is ACTIVE
	ProvisionJitter time.Duration `json:"provisionJitter,omitempty"` // up to so much more, by chance
	Plan            faults.Plan   `json:"plan"`                      // advertised version, quotas, what the provider lacks, faults
}

// Instances is how many there are.
func (s LBaaSSpec) Instances() int {
	if s.Standby {
		return 2
	}
	return 1
}

// BalancerNames are those of the first so many instances.
func BalancerNames(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("lb%d", i+1)
	}
	return names
}

// LBaaS is the load balancers of a lab.
type LBaaS struct {
	Spec LBaaSSpec
	// URL of the server on this machine's loopback: Keystone, Octavia and Neutron are below it, and /proxylab.
	URL string
	// OpenRC is a file that a shell reads before it calls the OpenStack client.
	OpenRC string
	// Processes are those that load balancers cost, by part: "lbaas", "lbaas-instance/lb1", "cloud-controller-manager".
	Processes func() (map[string]int, error)
}
