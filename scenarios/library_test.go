package scenarios

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"proxylab/scenarios/strict"
)

func TestLibrary(t *testing.T) {
	var found []string
	for _, e := range Library() {
		found = append(found, e.Name)
		if e.Description == "" || strings.Contains(e.Description, "\n") || len(e.Description) > 120 {
			t.Errorf("%s: the description should be one line: %q", e.Name, e.Description)
		}
		s, err := Load(e.Name, testOptions)
		if err != nil {
			t.Errorf("%s:\n%v", e.Name, err)
			continue
		}
		text, err := Show(e.Name)
		if err != nil || s.Source != text || s.Metadata.Name != e.Name {
			t.Errorf("%s: source or name differs: %v", e.Name, err)
		}
		if len(s.Objects) == 0 || len(s.Spec.Expect) == 0 {
			t.Errorf("%s: has no objects or no expectations", e.Name)
		}
		for i, line := range s.StepTexts() {
			if line == "" || strings.Contains(line, "\n") || s.Spec.Steps[i].Kind() == "" {
				t.Errorf("%s: step %d is described as %q", e.Name, i, line)
			}
		}
	}
	if got, want := strings.Join(found, " "), "affinity churn lb-failover lb-local-policy lb-many lb-node-churn lb-publish live-swap quickstart rollout scale-out udp-flows"; got != want {
		t.Errorf("built in are %s, want %s", got, want)
	}
	if _, err := Show("qickstart"); err == nil || !strings.Contains(err.Error(), "did you mean quickstart?") {
		t.Errorf("Show of a misspelt name: %v", err)
	}
}

// The objects as this package decodes them are what Kubernetes' own decoder makes of them.
func TestObjectsAsKubernetesDecodesThem(t *testing.T) {
	serializer := serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		serializerjson.SerializerOptions{Yaml: true, Strict: true})
	for _, e := range Library() {
		s, err := Load(e.Name, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		docs, problems := strict.Parse([]byte(s.Spec.Manifests), strict.Place{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for i, doc := range docs {
			text, err := yaml.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			want, _, err := serializer.Decode(text, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			o, problems := readObject(doc, strict.Place{})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if !equality.Semantic.DeepEqual(o.typed, want) {
				t.Errorf("%s, object %d:\n%+v\nKubernetes reads\n%+v", e.Name, i, o.typed, want)
			}
		}
	}
}

func schemaValidator(t *testing.T) *validate.SchemaValidator {
	t.Helper()
	var s spec.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	return validate.NewSchemaValidator(&s, nil, "", strfmt.Default)
}

func plain(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchema(t *testing.T) {
	validator := schemaValidator(t)
	for _, e := range Library() {
		text, _ := Show(e.Name)
		if result := validator.Validate(plain(t, text)); result.HasErrors() {
			t.Errorf("%s does not follow the schema: %v", e.Name, result.Errors)
		}
	}
	text, _ := Show("quickstart")
	for what, change := range map[string][2]string{
		"unknown field":   {"  nodes: 2", "  nodse: 2"},
		"too many nodes":  {"  nodes: 2", "  nodes: 200"},
		"rate, no unit":   {"rate: 150/s", `rate: "150"`},
		"unknown kind":    {"kind: udp", "kind: dup"},
		"unknown step":    {"- churn:", "- node:"},
		"two steps":       {"- wait: 3s", "- {wait: 3s, stop: web}"},
		"no step":         {"- wait: 3s", "- {}"},
		"duration":        {"- wait: 3s", "- wait: 3 s"},
		"two targets":     {"patch: {service: web,", "patch: {service: web, pod: x,"},
		"no target":       {"patch: {service: web,", "patch: {"},
		"field missing":   {"deployment: web, replicas: 3", "deployment: web"},
		"another version": {"proxylab/v1alpha1", "proxylab/v2"},
		"swap to nothing": {"{to: subject}", "{to: []}"},
	} {
		wrong := strings.Replace(text, change[0], change[1], 1)
		if wrong == text {
			t.Fatalf("%s: quickstart has no %q", what, change[0])
		}
		if !validator.Validate(plain(t, wrong)).HasErrors() {
			t.Errorf("%s: the schema takes it", what)
		}
		if _, err := Parse("x.yaml", []byte(wrong), testOptions); !isInvalid(err) {
			t.Errorf("%s: the decoder takes it: %v", what, err)
		}
	}
	if !bytes.Contains(Schema(), []byte(`"description"`)) || !json.Valid(Schema()) {
		t.Error("the schema has no descriptions")
	}
}

func isInvalid(err error) bool {
	var invalid *Invalid
	return errors.As(err, &invalid)
}

// Every field has a description for editors.
func TestSchemaDescribesEverything(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, s map[string]any)
	walk = func(path string, s map[string]any) {
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			if property["description"] == nil {
				t.Errorf("%s.%s has no description", path, name)
			}
			walk(path+"."+name, property)
		}
		if items, ok := s["items"].(map[string]any); ok {
			walk(path+"[]", items)
		}
	}
	walk("", schema)
}
