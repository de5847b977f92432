package kind

import (
	"time"

	"proxylab/lab"
	"proxylab/lab/balancers"
	"proxylab/lab/labdir"
	"proxylab/lab/lbaas/openstack"
)

// state is what Up was asked for and what it found, kept in the lab's directory for those who come later.
type state struct {
	Name    string           `json:"name"`
	Kind    string           `json:"kind"`
	Nodes   int              `json:"nodes"`
	Image   string           `json:"image,omitempty"`
	Created time.Time        `json:"created"`
	Proxier *lab.ProxierSpec `json:"proxier,omitempty"`
	// Adopted: the cluster was there before, and stays.
	Adopted bool `json:"adopted,omitempty"`
	// Network: Docker had no network for kind before, so that the one there is now goes with the lab if nobody else is in it.
	Network  bool               `json:"network,omitempty"`
	Parked   *original          `json:"parked,omitempty"`  // nil: kube-proxy is still as kind started it
	Untaint  []string           `json:"untaint,omitempty"` // nodes that took no pods
	Complete bool               `json:"complete"`          // Up came to its end
	Release  string             `json:"release,omitempty"` // of Kubernetes
	LBaaS    *balancers.State   `json:"lbaas,omitempty"`
	VIPs     *openstack.Network `json:"vips,omitempty"`   // of the load balancers, once chosen
	Filled   bool               `json:"filled,omitempty"` // Options.Fill was done
}

// loadState reads what is known of a lab; its error is fs.ErrNotExist where nothing is.
func loadState(name string) (s state, err error) {
	err = labdir.Load(name, &s)
	return s, err
}

func (s state) save() error { return labdir.Save(s.Name, s) }
