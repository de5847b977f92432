package scenarios

import (
	"fmt"
	"strings"

	"proxylab/lab/lbaas/faults"
)

// LBaaS asks for load balancers: Services of type LoadBalancer get a VIP, and traffic to it goes through a balancer.
type LBaaS struct {
	Topology        string   `json:"topology,omitempty" jsonschema:"default=single,enum=single,enum=active-standby" jsonschema_description:"single: one balancer instance. active-standby: two, of which one takes over the VIPs when the other dies."`
	ProvisionDelay  Duration `json:"provisionDelay,omitempty" jsonschema_description:"How long the LBaaS takes from a write until what it changes is ACTIVE. Default: no time."`
	ProvisionJitter Duration `json:"provisionJitter,omitempty" jsonschema_description:"Up to so much more, by chance."`
	faults.Plan     `json:",inline"`
}

// Topologies of load balancers.
const (
	SingleBalancer = "single"
	ActiveStandby  = "active-standby"
)

// LBStep does something to load balancers. Exactly one of its fields is set.
type LBStep struct {
	Fault  *faults.Fault  `json:"fault,omitempty" jsonschema_description:"Put a fault on. It stays on until it is cleared or has struck as often as it shall."`
	Clear  Names          `json:"clear,omitempty" jsonschema_description:"Put off a fault, each of a list of faults, or, with the word all, every fault."`
	Edit   *faults.Edit   `json:"edit,omitempty" jsonschema_description:"Edit a resource behind the controller's back. Balancers are called kube_service_CLUSTER_NAMESPACE_SERVICE, and the rest of a balancer like it."`
	Delete *faults.Target `json:"delete,omitempty" jsonschema_description:"Delete a resource behind the controller's back."`
	Flap   *LBFlap        `json:"flap,omitempty" jsonschema_description:"Let a member fail and recover, again and again."`
	Kill   string         `json:"kill,omitempty" jsonschema:"enum=active,enum=lb1,enum=lb2" jsonschema_description:"Kill a balancer instance. active: the one that carries the VIPs."`
	Create *LBCreate      `json:"create,omitempty" jsonschema_description:"Create many Services of type LoadBalancer at once. They are called lb-1, lb-2 and so on."`
	Await  *LBAwait       `json:"await,omitempty" jsonschema_description:"Go on only when Services of type LoadBalancer are as they shall be."`
}

// LBFlap is a member that comes and goes for a while.
type LBFlap struct {
	faults.Flap `json:",inline"`
	For         Duration `json:"for" jsonschema:"required" jsonschema_description:"How long."`
}

// LBCreate makes Services.
type LBCreate struct {
	Services int               `json:"services" jsonschema:"required,minimum=1,maximum=250" jsonschema_description:"How many Services."`
	Ports    int               `json:"ports,omitempty" jsonschema:"default=1,minimum=1,maximum=20" jsonschema_description:"TCP ports of each, from 8001 on; all lead to the pods' port 8080."`
	Selector map[string]string `json:"selector" jsonschema:"required" jsonschema_description:"Labels of the pods behind them."`
}

// LBAwait waits for Services.
type LBAwait struct {
	Service Names    `json:"service,omitempty" jsonschema_description:"A Service of type LoadBalancer, or a list of them. Default: all that the scenario has made."`
	Until   string   `json:"until,omitempty" jsonschema:"default=answers,enum=address,enum=answers" jsonschema_description:"address: the Service has its VIP. answers: the first byte came through it."`
	Members int      `json:"members,omitempty" jsonschema:"minimum=1,maximum=32" jsonschema_description:"Wait for so many members of each pool that take traffic instead."`
	Within  Duration `json:"within,omitempty" jsonschema:"default=1m" jsonschema_description:"After this the step has failed."`
}

// NodeStep does something to a node. Exactly one of its fields is set.
type NodeStep struct {
	Add      string `json:"add,omitempty" jsonschema_description:"Add the next node, with a proxier, to a netns lab: of a lab with three, node4."`
	Cordon   string `json:"cordon,omitempty" jsonschema_description:"Let no new pods onto a node."`
	Uncordon string `json:"uncordon,omitempty" jsonschema_description:"Let them onto it again."`
	Kill     string `json:"kill,omitempty" jsonschema_description:"Take a node's power away, in a netns lab: its link is down, its agent and its proxier end. The cluster is not told."`
	Delete   string `json:"delete,omitempty" jsonschema_description:"Delete the Node from the cluster, as a cloud does when a machine is gone."`
}

// OneOf has the decoder insist on a single key.
func (LBStep) OneOf() []string {
	return []string{"fault", "clear", "edit", "delete", "flap", "kill", "create", "await"}
}

// OneOf has the decoder insist on a single key.
func (NodeStep) OneOf() []string { return []string{"add", "cordon", "uncordon", "kill", "delete"} }

// What is the step's one key, and Node the node that it is about.
func (s NodeStep) What() (what, node string) {
	for _, c := range [][2]string{{"add", s.Add}, {"cordon", s.Cordon}, {"uncordon", s.Uncordon}, {"kill", s.Kill}, {"delete", s.Delete}} {
		if c[1] != "" {
			return c[0], c[1]
		}
	}
	return "", ""
}

// String says what it does: "kill node2".
func (s NodeStep) String() string {
	what, node := s.What()
	return what + " " + node
}

// String says what it does: "load balancers: kill the active instance".
func (s LBStep) String() string { return "load balancers: " + s.text() }

func (s LBStep) text() string {
	switch {
	case s.Fault != nil:
		return "fault " + faultText(*s.Fault)
	case len(s.Clear) > 0:
		return "clear " + strings.Join(s.Clear, ", ")
	case s.Edit != nil:
		return fmt.Sprintf("edit %s %s: %s", s.Edit.Kind, s.Edit.Name, oneLine(s.Edit.Set))
	case s.Delete != nil:
		return fmt.Sprintf("delete %s %s", s.Delete.Kind, s.Delete.Name)
	case s.Flap != nil:
		return fmt.Sprintf("flap member %s for %s", s.Flap.Member, s.Flap.For)
	case s.Kill == "active":
		return "kill the active instance"
	case s.Kill != "":
		return "kill " + s.Kill
	case s.Create != nil:
		return fmt.Sprintf("create %d Services with %d ports each", s.Create.Services, s.Create.Ports)
	case s.Await != nil:
		return s.Await.text()
	}
	return "nothing"
}

func (a LBAwait) text() string {
	who := "all Services"
	if len(a.Service) > 0 {
		who = strings.Join(a.Service, ", ")
	}
	switch {
	case a.Members > 0:
		return fmt.Sprintf("await %d members of %s", a.Members, who)
	case a.Until == "address":
		return "await the VIP of " + who
	}
	return "await an answer of " + who + " through the VIP"
}

// faultText is a fault in a line: what it is about, and its effects as they were written.
func faultText(f faults.Fault) string {
	text := oneLine(f)
	if f.Name != "" {
		f2 := f
		f2.Name = ""
		text = f.Name + " " + oneLine(f2)
	}
	return text
}
