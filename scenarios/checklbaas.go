package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"proxylab/lab"
	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/faults"
	"proxylab/scenarios/strict"
)

// Instances are the names of the balancer instances of a lab.
func (l LBaaS) Instances() []string {
	return lab.BalancerNames(lab.LBaaSSpec{Standby: l.Topology == ActiveStandby}.Instances())
}

func (r *reader) checkLBaaS(path string, l *LBaaS) {
	r.checkPlan(path, l.Plan)
	for i, f := range l.Faults {
		if f.Name != "" {
			r.world.faults[f.Name] = true
		}
		if f.Kill != "" {
			r.problem(fmt.Sprintf("%s.faults[%d].kill", path, i), "before the first step nothing is to be killed; use a step lb: {kill: %s}", f.Kill)
		}
	}
}

// checkPlan has the faults checked by those who make them, and puts what they say at its place in this file.
func (r *reader) checkPlan(path string, plan faults.Plan) {
	known := lbaas.Known(nil)
	if l := r.scenario.Spec.LBaaS; l != nil {
		known.Instances = l.Instances()
	}
	for _, m := range plan.Validate(known) {
		at := path
		if m.Path != "" {
			at += "." + m.Path
		}
		r.problemOnce(at, m.Text)
	}
}

// problemOnce leaves out what the decoder has said of the same place.
func (r *reader) problemOnce(path, text string) {
	if !slices.ContainsFunc(r.problems, func(p strict.Problem) bool { return p.Path == path }) {
		r.problem(path, "%s", text)
	}
}

func (r *reader) checkLB(path string, s *LBStep) {
	if r.scenario.Spec.LBaaS == nil {
		r.problem(path, "there are no load balancers; write spec.lbaas, for example lbaas: {topology: single}")
		return
	}
	switch {
	case s.Fault != nil:
		r.checkFault(path+".fault", *s.Fault)
	case s.Clear != nil:
		r.checkClear(path+".clear", s.Clear)
	case s.Edit != nil:
		r.checkFault(path, faults.Fault{Edit: s.Edit})
	case s.Delete != nil:
		r.checkFault(path, faults.Fault{Delete: s.Delete})
	case s.Flap != nil:
		r.checkFault(path, faults.Fault{Flap: &s.Flap.Flap})
	case s.Kill != "" && s.Kill != "active":
		if has := r.scenario.Spec.LBaaS.Instances(); !slices.Contains(has, s.Kill) {
			r.problem(path+".kill", "there is no instance %s; with topology %s there is %s", s.Kill, cmp.Or(r.scenario.Spec.LBaaS.Topology, SingleBalancer), strings.Join(has, " and "))
		}
	case s.Create != nil:
		r.addBalanced(path+".create", s.Create)
	case s.Await != nil:
		r.checkAwait(path+".await", s.Await)
	}
}

// checkFault checks one fault as a plan that holds nothing else.
func (r *reader) checkFault(path string, f faults.Fault) {
	known := lbaas.Known(r.scenario.Spec.LBaaS.Instances())
	for _, m := range (faults.Plan{Faults: []faults.Fault{f}}).Validate(known) {
		at := path
		if rest := strings.TrimPrefix(m.Path, "faults[0]"); rest != "" {
			at += rest
		}
		r.problemOnce(at, m.Text)
	}
	if f.Name != "" {
		r.world.faults[f.Name] = true
	}
}

func (r *reader) checkClear(path string, names Names) {
	if len(names) == 0 {
		r.problem(path, "is empty; name a fault, or write all")
	}
	for i, name := range names {
		at := path
		if indexed := fmt.Sprintf("%s[%d]", path, i); r.index.Has(indexed) {
			at = indexed
		}
		if name != "all" && !r.world.faults[name] {
			known := []string{"all"}
			for n := range r.world.faults {
				known = append(known, n)
			}
			slices.Sort(known)
			r.problem(at, "there is no fault %q by now%s", name, strict.Suggest(name, known))
		}
	}
}

func (r *reader) checkAwait(path string, a *LBAwait) {
	if a.Members > 0 && r.index.Has(path+".until") {
		r.problem(path+".until", "does not go with members; give one of them")
	}
	for i, name := range a.Service {
		at := path + ".service"
		if indexed := fmt.Sprintf("%s[%d]", at, i); r.index.Has(indexed) {
			at = indexed
		}
		r.checkTarget(at, "Service", name)
		if service := r.world.service(name); service != nil && service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			r.problem(at, "%s is not of type LoadBalancer", name)
		}
	}
}

// Name of the i-th Service, from 0.
func (c LBCreate) Name(i int) string { return fmt.Sprintf("lb-%d", i+1) }

// Objects are the Services.
func (c LBCreate) Objects() []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, c.Services)
	for i := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.service(i))
		if err != nil { // a Service is made of what JSON has
			content = map[string]any{}
		}
		objects[i] = &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(objects[i].Object, "status")
	}
	return objects
}

func (c LBCreate) service(i int) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Name(i), Namespace: "default"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: c.Selector},
	}
	for p := range c.Ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("p%d", p+1), Port: int32(8001 + p), TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP,
		})
	}
	return s
}

func (r *reader) addBalanced(path string, c *LBCreate) {
	if len(c.Selector) == 0 && r.index.Has(path+".selector") {
		r.problemOnce(path+".selector", "is empty; give the labels of the pods behind them")
	}
	for i := range c.Services {
		k := key("Service", "default", c.Name(i))
		if _, there := r.world.objects[k]; there {
			r.problem(path, "there is a service %s already", c.Name(i))
			return
		}
		r.world.objects[k] = &object{typed: c.service(i)}
	}
}

// checkNodeStep follows what becomes of nodes.
func (r *reader) checkNodeStep(path string, s *NodeStep) {
	what, node := s.What()
	at := path + "." + what
	switch what {
	case "add":
		if next := lab.NodeName(r.world.nodes); node != next {
			r.problem(at, "the next node is %s, not %q", next, node)
			return
		}
		r.world.nodes++
	case "kill":
		if r.checkNode(at, node); r.world.dead[node] {
			r.problem(at, "%s is dead already", node)
		}
		if node == r.clientNode() {
			r.problem(at, "%s is where the traffic comes from (spec.client.node); kill another", node)
		}
		r.world.dead[node] = true
	case "cordon", "uncordon", "delete":
		r.checkNode(at, node)
	}
}

// clientNode is where the client pod runs.
func (r *reader) clientNode() string { return r.scenario.Spec.Client.Node }
