package scenarios

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"proxylab/scenarios/strict"
)

// object is one Kubernetes object of a scenario: as it was written, and as its Go type.
type object struct {
	*unstructured.Unstructured
	typed runtime.Object
	index *strict.Index
}

// objects reads the documents of a text as Kubernetes objects. Those with mistakes are left out.
func (r *reader) objects(text []byte, at strict.Place) []object {
	docs, problems := strict.Parse(text, at)
	r.problems = append(r.problems, problems...)
	r.world.unsure = r.world.unsure || len(problems) > 0
	var objects []object
	for _, doc := range docs {
		o, problems := readObject(doc, at)
		if r.problems = append(r.problems, problems...); len(problems) == 0 {
			objects = append(objects, o)
		} else if o.Unstructured != nil {
			// It is known by name, so that whatever refers to it is not a second mistake.
			r.world.broken(o.Unstructured)
		} else {
			r.world.unsure = true
		}
	}
	return objects
}

// readObject reads one document. An object that has mistakes, but is recognisable, comes without its typed form.
func readObject(doc *yaml.Node, at strict.Place) (object, []strict.Problem) {
	plain, _ := strict.Plain(doc, at)
	fields, ok := plain.(map[string]any)
	if !ok {
		return object{}, []strict.Problem{at.Problem(doc.Line, doc.Column, "", "is not a Kubernetes object: it should begin with apiVersion and kind")}
	}
	apiVersion, _, _ := unstructured.NestedString(fields, "apiVersion")
	kind, _, _ := unstructured.NestedString(fields, "kind")
	name, _, _ := unstructured.NestedString(fields, "metadata", "name")
	at.Prefix = strings.TrimSpace(kind + " " + name)
	if apiVersion == "" || kind == "" {
		return object{}, []strict.Problem{at.Problem(doc.Line, doc.Column, "", "is not a Kubernetes object: it needs both apiVersion and kind")}
	}
	o := object{Unstructured: &unstructured.Unstructured{Object: fields}}
	typed, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return o, []strict.Problem{at.Problem(doc.Line, doc.Column, "", "there is no kind %s in %s%s", kind, apiVersion, knownKinds(kind))}
	}
	if _, err := meta.Accessor(typed); err != nil {
		return object{}, []strict.Problem{at.Problem(doc.Line, doc.Column, "", "a %s is not an object by itself; write each object as a document of its own, with --- between them", kind)}
	}
	index, problems := strict.Decode(doc, typed, at, strict.Options{AllowNull: true})
	o.typed, o.index = typed, index
	problems = append(problems, nameProblems(o, name)...)
	// What Plain finds besides is in fields that are unknown, or read themselves: doubled keys, numbers too large.
	_, more := strict.Plain(doc, at)
	problems = distinct(append(problems, more...))
	if len(problems) == 0 {
		problems = lastWord(o, doc, at)
	}
	return o, problems
}

// distinct leaves out what is said twice.
func distinct(problems []strict.Problem) []strict.Problem {
	strict.Sort(problems)
	return slices.CompactFunc(problems, func(a, b strict.Problem) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Text == b.Text
	})
}

// knownKinds tells where else a kind exists, or which kinds are spelt alike.
func knownKinds(kind string) string {
	var versions, kinds []string
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		if kinds = append(kinds, gvk.Kind); gvk.Kind == kind {
			versions = append(versions, gvk.GroupVersion().String())
		}
	}
	if len(versions) > 0 {
		slices.Sort(versions)
		return "; write apiVersion: " + strings.Join(versions, ", or ")
	}
	slices.Sort(kinds)
	return strict.Suggest(kind, slices.Compact(kinds))
}

// Names of these kinds become part of domain names or of the names of other objects, so that the API takes no others.
var dnsNamed = []string{"Service", "Deployment", "Pod", "DaemonSet", "StatefulSet", "ReplicaSet", "EndpointSlice", "Endpoints", "Namespace"}

func nameProblems(o object, name string) []strict.Problem {
	if name == "" {
		return []strict.Problem{o.index.Problem("metadata", "name is missing")}
	}
	if !slices.Contains(dnsNamed, o.GetKind()) {
		return nil
	}
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return []strict.Problem{o.index.Problem("metadata.name", "%q cannot be a name; use lower-case letters, digits, dashes and dots", name)}
	}
	return nil
}

// lastWord has Kubernetes' own strict decoder read the object too. It knows no places in the file, and stops earlier;
// but it is the one that the API server uses.
func lastWord(o object, doc *yaml.Node, at strict.Place) []strict.Problem {
	text, err := json.Marshal(o.Object)
	if err == nil {
		decoder := serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializerjson.SerializerOptions{Strict: true})
		_, _, err = decoder.Decode(text, nil, nil)
	}
	if err != nil {
		return []strict.Problem{at.Problem(doc.Line, doc.Column, "", "%v", err)}
	}
	return nil
}

// unwrap is the objects as the player takes them.
func unwrap(objects []object) []*unstructured.Unstructured {
	list := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		list[i] = o.Unstructured
	}
	return list
}

// key names an object as messages do: "service web", "deployment prod/web".
func key(kind, namespace, name string) string {
	if namespace != "" && namespace != "default" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %s", strings.ToLower(kind), name)
}
