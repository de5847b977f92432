// Package balancers runs the load balancers of a lab, of whatever kind: the server that answers as OpenStack does, the
// instances that carry the traffic, and the controller that asks for what Services want. All are processes of the lab, and
// go with it; the instances are where the lab has a place for them.
package balancers

import (
	"fmt"
	"path/filepath"
	"reflect"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/lbaas/cloud"
	"proxylab/lab/lbaas/openstack"
)

// What load balancers are among a lab's processes (see procs.Spec).
const (
	serverPart   = "lbaas"
	instancePart = "lbaas-instance"
	cloudPart    = cloud.Name
)

// Site is a lab as its load balancers see it.
type Site struct {
	Lab        string `json:"lab"`
	Executable string `json:"executable"` // the binary whose sub-commands the parts are
	// Network is where nodes are and VIPs are given out, of its first subnet of each family.
	Network    openstack.Network `json:"network"`
	Instances  []Instance        `json:"instances"`
	Spec       lab.LBaaSSpec     `json:"spec"`
	Kubeconfig string            `json:"-"` // which the controller uses
}

// Instance is a place for one that carries traffic.
type Instance struct {
	Name  string `json:"name"`  // lb1, lb2
	NetNS string `json:"netns"` // file of its network namespace, where eth0 has the VIPs
}

// State is what a lab keeps of its load balancers.
type State struct {
	lab.LBaaSSpec
	Port int `json:"port,omitempty"` // of the API, on this machine's loopback
}

// URL is where the API answers.
func (s State) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.Port) }

// Take takes on the load balancers that are asked for; nil: none are. A lab that has none can get some; others than it has, it
// cannot.
func Take(has *State, asked *lab.LBaaSSpec) (*State, error) {
	switch {
	case asked == nil:
		return has, nil
	case has == nil:
		return &State{LBaaSSpec: *asked}, nil
	case !reflect.DeepEqual(has.LBaaSSpec, *asked):
		return nil, fmt.Errorf("it has load balancers %+v, asked for were %+v: take it down first", has.LBaaSSpec, *asked)
	}
	return has, nil
}

func dir(name string) string        { return filepath.Join(labdir.Dir(name), "lbaas") }
func siteFile(name string) string   { return filepath.Join(dir(name), "site.json") }
func cloudReady(name string) string { return filepath.Join(dir(name), "cloud.ready") }
func openRC(name string) string     { return filepath.Join(labdir.Dir(name), "openrc") }
