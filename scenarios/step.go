package scenarios

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Step is one entry of a scenario. Exactly one of its fields is set.
type Step struct {
	Load   *LoadStep   `json:"load,omitempty" jsonschema_description:"Start traffic. It runs on beside the steps that follow until it is stopped, its time is up, or the scenario ends."`
	Wait   *Duration   `json:"wait,omitempty" jsonschema_description:"Let time pass, for example 5s."`
	Scale  *ScaleStep  `json:"scale,omitempty" jsonschema_description:"Change the number of pods of a Deployment."`
	Patch  *PatchStep  `json:"patch,omitempty" jsonschema_description:"Change an object with a merge patch."`
	Churn  *ChurnStep  `json:"churn,omitempty" jsonschema_description:"Delete pods of a Deployment one by one, at a rate; it brings up others."`
	Swap   *SwapStep   `json:"swap,omitempty" jsonschema_description:"Put another proxier in place of the running one, under traffic."`
	Stop   Names       `json:"stop,omitempty" jsonschema_description:"Stop a load, or each of a list of loads."`
	Apply  *ApplyStep  `json:"apply,omitempty" jsonschema_description:"Create or change objects: YAML text, or the path of a file or a directory, relative to this file."`
	Delete *DeleteStep `json:"delete,omitempty" jsonschema_description:"Delete an object."`
	Node   *NodeStep   `json:"node,omitempty" jsonschema_description:"Add, cordon, kill or delete a node."`
	LB     *LBStep     `json:"lb,omitempty" jsonschema_description:"Do something to load balancers, or wait for them."`
}

// LoadStep starts traffic to a Service.
type LoadStep struct {
	Name        string   `json:"name" jsonschema:"required" jsonschema_description:"What the results call it: lower-case letters, digits and dashes, used once in a scenario."`
	Service     string   `json:"service" jsonschema:"required" jsonschema_description:"The Service: NAME in the namespace default, or NAMESPACE/NAME."`
	Port        Port     `json:"port,omitempty" jsonschema_description:"Name or number of the Service's port. Default: the first that is named as the kind wants (http: http, connect and hold: tcp, udp: udp, stream: stream), else the first of the kind's protocol."`
	Kind        string   `json:"kind" jsonschema:"required,enum=http,enum=connect,enum=udp,enum=stream,enum=hold" jsonschema_description:"http: requests. connect: TCP connections, one question and answer each. udp: datagrams, each answered. stream: as many bytes as will pass. hold: connections that stay open."`
	Rate        *Rate    `json:"rate,omitempty" jsonschema_description:"How many a second or minute, for example 200/s (http, connect, udp)."`
	Connections string   `json:"connections,omitempty" jsonschema:"enum=new,enum=keepalive" jsonschema_description:"new (the default): a connection for each request; keepalive: connections that are used again. For udp these are sockets, and with them flows: what the kernel keeps sending to the same pod."`
	Count       int      `json:"count,omitempty" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"hold: connections kept open (default 10). stream: streams at once (default 1). http and udp with keepalive: clients (default 1)."`
	Reopen      bool     `json:"reopen,omitempty" jsonschema:"default=true" jsonschema_description:"hold: open another connection for each that breaks."`
	From        string   `json:"from,omitempty" jsonschema:"default=pod,enum=pod,enum=outside" jsonschema_description:"pod: the client pod. outside: a client beside the nodes, which reaches the NodePort of node1."`
	Via         string   `json:"via,omitempty" jsonschema:"enum=clusterIP,enum=nodePort,enum=vip" jsonschema_description:"Which address of the Service is used; vip is the one that its load balancer has (spec.lbaas). Default: clusterIP from a pod, nodePort from outside."`
	Node        string   `json:"node,omitempty" jsonschema_description:"Node that it is sent from, by a client pod of its own there; from outside: whose NodePort is used. Default: where the client pod is, and node1."`
	Family      string   `json:"family,omitempty" jsonschema:"default=ipv4,enum=ipv4,enum=ipv6" jsonschema_description:"IP family."`
	Direct      bool     `json:"direct,omitempty" jsonschema:"default=true" jsonschema_description:"Send the same traffic at a tenth of the rate straight to a pod beside it, to tell what the proxying costs. Not with hold or from outside."`
	For         Duration `json:"for,omitempty" jsonschema_description:"How long. Default: until it is stopped or the scenario ends."`
	Timeout     Duration `json:"timeout,omitempty" jsonschema:"default=5s" jsonschema_description:"After this a request, or making a connection, counts as failed."`
}

// ScaleStep changes the number of pods of a Deployment.
type ScaleStep struct {
	Deployment string `json:"deployment" jsonschema:"required" jsonschema_description:"NAME in the namespace default, or NAMESPACE/NAME."`
	Replicas   int    `json:"replicas" jsonschema:"required,minimum=0,maximum=1000" jsonschema_description:"How many pods it shall have."`
	Wait       bool   `json:"wait,omitempty" jsonschema:"default=true" jsonschema_description:"Go on only when they are Ready (and those too many are gone)."`
}

// PatchStep changes the object that its one set target names with a JSON merge patch (RFC 7396).
type PatchStep struct {
	Target `json:",inline"`
	Patch  map[string]any `json:"patch" jsonschema:"required" jsonschema_description:"A merge patch: what is given is changed, null removes."`
}

// ChurnStep deletes pods of a Deployment, one at a time, oldest first.
type ChurnStep struct {
	Deployment string   `json:"deployment" jsonschema:"required" jsonschema_description:"NAME in the namespace default, or NAMESPACE/NAME."`
	Rate       Rate     `json:"rate" jsonschema:"required" jsonschema_description:"Pods deleted a second or minute, for example 2/s."`
	For        Duration `json:"for" jsonschema:"required" jsonschema_description:"How long."`
}

// SwapStep replaces the running proxier.
type SwapStep struct {
	To   Names  `json:"to" jsonschema:"required" jsonschema_description:"A proxier, or the word subject: the one that this part of the run started with. Of a list, the first that does not run now."`
	Node string `json:"node,omitempty" jsonschema_description:"Only on this node. Default: on all."`
}

// Subject is the word in SwapStep.To for the proxier that the subject of the run started with.
const Subject = "subject"

// Resolve is the proxier to change to, for a run whose subject is subject and where running is at work now.
func (s SwapStep) Resolve(subject, running string) string {
	last := running
	for _, to := range s.To {
		if to == Subject {
			to = subject
		}
		if last = to; to != running {
			break
		}
	}
	return last
}

// ApplyStep creates or changes objects.
type ApplyStep struct {
	Manifests string                       `json:"-"` // as written
	Objects   []*unstructured.Unstructured `json:"-"` // what it holds, checked
}

// UnmarshalText keeps the text; the objects in it are read, and checked, with the rest of the scenario.
func (a *ApplyStep) UnmarshalText(text []byte) error {
	a.Manifests = string(text)
	return nil
}

// DeleteStep deletes the object that its one set target names.
type DeleteStep struct {
	Target `json:",inline"`
}

// Target names an object. Exactly one of its fields is set, to NAME or NAMESPACE/NAME.
type Target struct {
	Service       string `json:"service,omitempty" jsonschema_description:"A Service."`
	Deployment    string `json:"deployment,omitempty" jsonschema_description:"A Deployment."`
	Pod           string `json:"pod,omitempty" jsonschema_description:"A Pod."`
	EndpointSlice string `json:"endpointSlice,omitempty" jsonschema_description:"An EndpointSlice."`
	Endpoints     string `json:"endpoints,omitempty" jsonschema_description:"An Endpoints object."`
	Namespace     string `json:"namespace,omitempty" jsonschema_description:"A Namespace."`
}

// Ref is the object that a Target names.
type Ref struct {
	APIVersion string // "v1", "apps/v1"
	Kind       string // "Service"
	Resource   string // "services"
	Namespace  string // empty for what has none
	Name       string
}

// Ref resolves the target. It is zero when no field is set.
func (t Target) Ref() Ref {
	for _, c := range []struct {
		name                       string
		apiVersion, kind, resource string
	}{
		{t.Service, "v1", "Service", "services"},
		{t.Deployment, "apps/v1", "Deployment", "deployments"},
		{t.Pod, "v1", "Pod", "pods"},
		{t.EndpointSlice, "discovery.k8s.io/v1", "EndpointSlice", "endpointslices"},
		{t.Endpoints, "v1", "Endpoints", "endpoints"},
	} {
		if c.name != "" {
			namespace, name := SplitName(c.name)
			return Ref{c.apiVersion, c.kind, c.resource, namespace, name}
		}
	}
	if t.Namespace != "" {
		return Ref{"v1", "Namespace", "namespaces", "", t.Namespace}
	}
	return Ref{}
}

// SplitName splits NAME or NAMESPACE/NAME; a bare name is in the namespace default.
func SplitName(s string) (namespace, name string) {
	if ns, n, ok := strings.Cut(s, "/"); ok {
		return ns, n
	}
	return "default", s
}

// Names is one name or a list of them.
type Names []string

// UnmarshalText reads the form with one name.
func (n *Names) UnmarshalText(text []byte) error {
	*n = Names{string(text)}
	return nil
}

// Kind is the step's one key: "load", "wait" and so on.
func (s Step) Kind() string {
	switch {
	case s.Load != nil:
		return "load"
	case s.Wait != nil:
		return "wait"
	case s.Scale != nil:
		return "scale"
	case s.Patch != nil:
		return "patch"
	case s.Churn != nil:
		return "churn"
	case s.Swap != nil:
		return "swap"
	case s.Stop != nil:
		return "stop"
	case s.Apply != nil:
		return "apply"
	case s.Delete != nil:
		return "delete"
	case s.Node != nil:
		return "node"
	case s.LB != nil:
		return "lb"
	}
	return ""
}

// String says in one line what the step does: "scale web to 3".
func (s Step) String() string {
	switch s.Kind() {
	case "load":
		return s.Load.String()
	case "wait":
		return "wait " + s.Wait.String()
	case "scale":
		return fmt.Sprintf("scale %s to %d", s.Scale.Deployment, s.Scale.Replicas)
	case "patch":
		return fmt.Sprintf("patch %s with %s", s.Patch.Target, oneLine(s.Patch.Patch))
	case "churn":
		return fmt.Sprintf("churn pods of %s at %s for %s", s.Churn.Deployment, s.Churn.Rate, s.Churn.For)
	case "swap":
		return s.Swap.String()
	case "stop":
		return "stop load " + strings.Join(s.Stop, ", ")
	case "apply":
		return "apply " + describeObjects(s.Apply.Objects)
	case "delete":
		return "delete " + s.Delete.Target.String()
	case "node":
		return s.Node.String()
	case "lb":
		return s.LB.String()
	}
	return "nothing"
}
