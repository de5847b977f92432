// Package scenarios reads scenario files: what a lab holds, what happens to it step by step, and what must hold in the
// end. It also carries the built-in ones. Playing them is the sub-package play's business.
//
// A scenario is checked whole before anything starts. Everything that is wrong with a file is reported at once, in an
// *Invalid, each mistake with its place in the file and what to write instead.
package scenarios

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// APIVersion and Kind head every scenario file.
const (
	APIVersion = "proxylab/v1alpha1"
	Kind       = "Scenario"
)

// Scenario is one checked scenario file, with its defaults filled in.
type Scenario struct {
	APIVersion string   `json:"apiVersion" jsonschema:"required,enum=proxylab/v1alpha1" jsonschema_description:"Version of the file format."`
	Kind       string   `json:"kind" jsonschema:"required,enum=Scenario" jsonschema_description:"Always Scenario."`
	Metadata   Metadata `json:"metadata" jsonschema:"required" jsonschema_description:"What the scenario is called and what it shows."`
	Spec       Spec     `json:"spec" jsonschema:"required" jsonschema_description:"The lab, the steps and the expectations."`

	// Path is the file it came from, or "builtin:NAME".
	Path string `json:"-"`
	// Source is the file as it was read.
	Source string `json:"-"`
	// Objects are those of spec.manifests, in order, as they were written: no defaults, no namespace added.
	Objects []*unstructured.Unstructured `json:"-"`

	pace float64 // see Pace; 0 is 1
}

// Metadata names a scenario.
type Metadata struct {
	Name        string `json:"name" jsonschema:"required" jsonschema_description:"Short name: lower-case letters, digits and dashes."`
	Description string `json:"description,omitempty" jsonschema_description:"One line for a list of scenarios."`
}

// Spec is what a scenario does.
type Spec struct {
	Nodes      int        `json:"nodes,omitempty" jsonschema:"default=2,minimum=1,maximum=32" jsonschema_description:"Nodes of the lab. They are called node1, node2 and so on."`
	Manifests  string     `json:"manifests,omitempty" jsonschema_description:"Plain Kubernetes objects that exist before the first step: YAML text, or the path of a file or a directory of .yaml files, relative to this file."`
	Background Background `json:"background,omitempty" jsonschema_description:"Dummy Services that make the rule tables as large as a real cluster's."`
	LBaaS      *LBaaS     `json:"lbaas,omitempty" jsonschema_description:"Load balancers for Services of type LoadBalancer. Default: none. Write {} for one instance with nothing special."`
	Client     Client     `json:"client,omitempty" jsonschema_description:"The pod that traffic comes from."`
	Steps      []Step     `json:"steps" jsonschema:"required" jsonschema_description:"What happens, one after the other."`
	Expect     []string   `json:"expect,omitempty" jsonschema_description:"What must hold in the end, for example load.web.errors == 0 or programming.p99 < 1s. An expectation without samples fails."`
}

// Background asks for dummy Services. No traffic goes to them.
type Background struct {
	Services            int `json:"services,omitempty" jsonschema:"minimum=0,maximum=50000" jsonschema_description:"How many dummy Services."`
	EndpointsPerService int `json:"endpointsPerService,omitempty" jsonschema:"default=4,minimum=0,maximum=100" jsonschema_description:"Endpoints of each."`
}

// Client places the client pod.
type Client struct {
	Node string `json:"node,omitempty" jsonschema:"default=node1" jsonschema_description:"Node that the client pod runs on."`
}

// HasLoad says whether a step of the scenario starts a load of that name.
func (s *Scenario) HasLoad(name string) bool {
	for _, step := range s.Spec.Steps {
		if step.Load != nil && step.Load.Name == name {
			return true
		}
	}
	return false
}

// Elastic says whether a step makes nodes come or go.
func (s *Scenario) Elastic() bool {
	return slices.ContainsFunc(s.Spec.Steps, func(step Step) bool {
		return step.Node != nil && (step.Node.Add != "" || step.Node.Kill != "" || step.Node.Delete != "")
	})
}

// StepTexts is one readable line per step, for the log.
func (s *Scenario) StepTexts() []string {
	texts := make([]string, len(s.Spec.Steps))
	for i, step := range s.Spec.Steps {
		texts[i] = step.String()
	}
	return texts
}
