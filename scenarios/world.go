package scenarios

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proxylab/scenarios/strict"
)

// world is what exists in the lab as the steps are gone through, as far as the scenario itself says.
type world struct {
	objects    map[string]*object // by key; nil: it exists, but is not known any closer
	namespaces map[string]bool    // those that the scenario puts objects into
	loads      map[string]loadState
	nodes      int
	dead       map[string]bool // nodes that were killed
	faults     map[string]bool // names of faults that were put on
	unsure     bool            // manifests could not be read, so there may be more
}

// loadState says what has become of a load.
type loadState struct {
	step    int // that starts it
	stopped bool
}

func newWorld() *world {
	w := &world{objects: map[string]*object{}, namespaces: map[string]bool{"default": true}, loads: map[string]loadState{},
		dead: map[string]bool{}, faults: map[string]bool{}}
	w.objects[key("Service", "default", "kubernetes")] = nil // every cluster has it
	return w
}

func (w *world) broken(o *unstructured.Unstructured) {
	w.put(o, nil)
}

func (w *world) add(o object) { w.put(o.Unstructured, &o) }

func (w *world) put(o *unstructured.Unstructured, as *object) {
	namespace := o.GetNamespace()
	w.objects[key(o.GetKind(), namespace, o.GetName())] = as
	if o.GetKind() == "Namespace" {
		namespace = o.GetName()
	}
	if namespace != "" {
		w.namespaces[namespace] = true
	}
}

func (w *world) has(o *unstructured.Unstructured) bool {
	_, ok := w.objects[key(o.GetKind(), o.GetNamespace(), o.GetName())]
	return ok
}

// missing says that the scenario refers to an object which is not there; empty: it is there, or it may be, since it is
// in a namespace that is somebody else's.
func (w *world) missing(kind, ref string) string {
	namespace, name := SplitName(ref)
	if _, ok := w.objects[key(kind, namespace, name)]; ok || w.unsure || !w.namespaces[namespace] {
		return ""
	}
	var known []string
	for k := range w.objects {
		if n, ok := strings.CutPrefix(k, strings.ToLower(kind)+" "); ok && (kind != "Service" || n != "kubernetes") {
			known = append(known, n)
		}
	}
	slices.Sort(known)
	if len(known) == 0 {
		return "there is no " + strings.ToLower(kind) + " " + ref + " at this point, nor any other; put it into spec.manifests"
	}
	return "there is no " + strings.ToLower(kind) + " " + ref + " at this point" + strict.Suggest(ref, known)
}

// service is the Service that ref names, or nil if it is not known closely.
func (w *world) service(ref string) *corev1.Service {
	namespace, name := SplitName(ref)
	o := w.objects[key("Service", namespace, name)]
	if o == nil {
		return nil
	}
	service, _ := o.typed.(*corev1.Service)
	return service
}

// blur keeps that the object exists and forgets what it is like.
func (w *world) blur(ref Ref) {
	k := key(ref.Kind, ref.Namespace, ref.Name)
	if _, ok := w.objects[k]; ok {
		w.objects[k] = nil
	}
}

func (w *world) remove(ref Ref) { delete(w.objects, key(ref.Kind, ref.Namespace, ref.Name)) }
