package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"proxylab/scenarios/strict"
)

// check goes through a decoded scenario in the order in which it will be played, and fills in what depends on more
// than one field.
func (r *reader) check() {
	s := r.scenario
	if s.Metadata.Name != "" && !nameForm.MatchString(s.Metadata.Name) {
		r.problem("metadata.name", "%q cannot be a name; use lower-case letters, digits and dashes", s.Metadata.Name)
	}
	objects := r.manifests("spec.manifests", s.Spec.Manifests)
	for _, o := range objects {
		if r.world.has(o.Unstructured) {
			r.problems = append(r.problems, o.index.Problem("metadata.name", "is a second %s", key(o.GetKind(), o.GetNamespace(), o.GetName())))
		}
		r.add(o)
	}
	s.Objects = unwrap(objects)
	r.world.nodes = max(s.Spec.Nodes, 1)
	r.checkNode("spec.client.node", s.Spec.Client.Node)
	if s.Spec.LBaaS != nil {
		r.checkLBaaS("spec.lbaas", s.Spec.LBaaS)
	}
	if r.index.Has("spec.steps") && len(s.Spec.Steps) == 0 && r.index.Node("spec.steps").Kind != 0 {
		r.checkNoSteps()
	}
	for i := range s.Spec.Steps {
		r.checkStep(i, &s.Spec.Steps[i])
	}
	for i, text := range s.Spec.Expect {
		r.checkExpectation(fmt.Sprintf("spec.expect[%d]", i), text)
	}
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Every cluster has these.
var givenNamespaces = []string{"", "default", "kube-system", "kube-public", "kube-node-lease"}

// add puts an object into the world. The namespace it is in must be there by then.
func (r *reader) add(o object) {
	namespace := o.GetNamespace()
	_, made := r.world.objects[key("Namespace", "", namespace)]
	if !made && !r.world.unsure && !slices.Contains(givenNamespaces, namespace) {
		r.problems = append(r.problems, o.index.Problem("metadata.namespace", "there is no namespace %s yet; put a Namespace object of that name before this one", namespace))
	}
	r.world.add(o)
}

func (r *reader) checkNoSteps() {
	path := "spec.steps"
	for _, p := range r.problems {
		if strings.HasPrefix(p.Path, path) {
			return // it is not a list, and that is said already
		}
	}
	r.problem(path, "is empty; a scenario without steps shows nothing")
}

func (r *reader) checkStep(i int, s *Step) {
	path := fmt.Sprintf("spec.steps[%d].%s", i, s.Kind())
	switch s.Kind() {
	case "load":
		r.checkLoad(path, i, s.Load)
	case "scale":
		r.checkTarget(path+".deployment", "Deployment", s.Scale.Deployment)
	case "patch":
		r.checkPatch(path, s.Patch)
	case "churn":
		r.checkTarget(path+".deployment", "Deployment", s.Churn.Deployment)
		r.checkRate(path+".rate", s.Churn.Rate, maxChurn)
	case "swap":
		r.checkSwap(path, s.Swap)
	case "stop":
		r.checkStop(path, i, s.Stop)
	case "apply":
		objects := r.manifests(path, s.Apply.Manifests)
		if s.Apply.Manifests == "" {
			r.problem(path, "is empty; give it objects, or the path of a file")
		}
		for _, o := range objects {
			r.add(o)
		}
		s.Apply.Objects = unwrap(objects)
	case "delete":
		r.checkObject(path, s.Delete.Target)
		r.world.remove(s.Delete.Ref())
	case "node":
		r.checkNodeStep(path, s.Node)
	case "lb":
		r.checkLB(path, s.LB)
	}
}

// checkTarget checks NAME or NAMESPACE/NAME of an object that must be there.
func (r *reader) checkTarget(path, kind, ref string) {
	if ref == "" {
		return // that it is missing or wrong is said already
	}
	namespace, name := SplitName(ref)
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		r.problem(path, "%q is not a name; write NAME, or NAMESPACE/NAME", ref)
		return
	}
	if missing := r.world.missing(kind, ref); missing != "" {
		r.problem(path, "%s", missing)
	}
}

// Pods and slices come and go by themselves, and no scenario knows their names beforehand.
var madeByTheCluster = []string{"Pod", "EndpointSlice", "Endpoints", "Namespace"}

func (r *reader) checkObject(path string, t Target) {
	ref := t.Ref()
	if ref.Kind == "" || slices.Contains(madeByTheCluster, ref.Kind) {
		return
	}
	field := map[string]string{"Service": "service", "Deployment": "deployment"}[ref.Kind]
	name := t.Service
	if ref.Kind == "Deployment" {
		name = t.Deployment
	}
	r.checkTarget(path+"."+field, ref.Kind, name)
}

// checkPatch has the patch decoded as a part of the object: the API server would drop an unknown field in silence.
func (r *reader) checkPatch(path string, p *PatchStep) {
	r.checkObject(path, p.Target)
	ref := p.Ref()
	node := r.index.Node(path + ".patch")
	if node == nil || ref.Kind == "" {
		return
	}
	if p.Patch != nil && len(p.Patch) == 0 {
		r.problem(path+".patch", "is empty; say what is to change")
	}
	var part any
	switch ref.Kind {
	case "Service":
		part = &corev1.Service{}
	case "Deployment":
		part = &appsv1.Deployment{}
	case "Pod":
		part = &corev1.Pod{}
	case "EndpointSlice":
		part = &discoveryv1.EndpointSlice{}
	case "Endpoints":
		part = &corev1.Endpoints{} //nolint:staticcheck // deprecated, and still mirrored into slices by the control plane
	case "Namespace":
		part = &corev1.Namespace{}
	}
	at := r.index.Place()
	at.Prefix = path + ".patch"
	if p.Patch != nil {
		_, problems := strict.Decode(node, part, at, strict.Options{AllowNull: true})
		r.problems = append(r.problems, problems...)
	}
	r.world.blur(ref)
}

func (r *reader) checkSwap(path string, s *SwapStep) {
	for i, to := range s.To {
		at := path + ".to"
		if r.index.Has(fmt.Sprintf("%s[%d]", at, i)) {
			at = fmt.Sprintf("%s[%d]", at, i)
		}
		if known := append(slices.Clone(r.opts.Proxiers), Subject); len(r.opts.Proxiers) > 0 && !slices.Contains(known, to) {
			r.problem(at, "unknown proxier %q%s", to, strict.Suggest(to, known))
		}
	}
	if s.To != nil && len(s.To) == 0 {
		r.problem(path+".to", "is empty; name a proxier")
	}
	r.checkNode(path+".node", s.Node)
}

var nodeForm = regexp.MustCompile(`^node([1-9][0-9]?)$`)

func (r *reader) checkNode(path, node string) {
	if node == "" {
		return
	}
	nodes := r.world.nodes
	if m := nodeForm.FindStringSubmatch(node); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n <= nodes {
			return
		}
	}
	r.problem(path, "there is no node %q; the lab has node1 to node%d (spec.nodes)", node, nodes)
}

func (r *reader) checkStop(path string, step int, stop Names) {
	if len(stop) == 0 {
		r.problem(path, "is empty; name a load")
	}
	for i, name := range stop {
		at := path
		if indexed := fmt.Sprintf("%s[%d]", path, i); r.index.Has(indexed) {
			at = indexed
		}
		state, started := r.world.loads[name]
		switch {
		case started && state.stopped:
			r.problem(at, "the load %s is stopped already", name)
		case started:
			state.stopped = true
			r.world.loads[name] = state
		default:
			r.problem(at, "%s", r.noLoad(name, step))
		}
	}
}

// noLoad says why a load cannot be meant that no step before this one starts.
func (r *reader) noLoad(name string, before int) string {
	var known []string
	for i, s := range r.scenario.Spec.Steps {
		if s.Load == nil || s.Load.Name == "" {
			continue
		}
		if s.Load.Name == name {
			return fmt.Sprintf("the load %s is started only later, in spec.steps[%d]", name, i)
		}
		if known = append(known, s.Load.Name); i >= before {
			known = known[:len(known)-1]
		}
	}
	if len(known) == 0 {
		return fmt.Sprintf("there is no load %q, nor any other", name)
	}
	return fmt.Sprintf("there is no load %q%s", name, strict.Suggest(name, known))
}

const (
	maxRate  = 100_000 // requests per second: more than one generator can send
	maxChurn = 100     // pods per second: more than a Deployment brings up
)

func (r *reader) checkRate(path string, rate Rate, most float64) {
	if rate.PerSecond() > most {
		r.problem(path, "%s is too much; the most is %g/s", rate, most)
	}
}
