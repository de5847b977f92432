package scenarios

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/invopop/jsonschema"

	"proxylab/lab/lbaas/faults"
)

// Schema is the JSON schema of a scenario file, for editors. It is made from the same types and tags that the decoder
// goes by.
func Schema() []byte {
	reflector := jsonschema.Reflector{
		RequiredFromJSONSchemaTags: true,
		ExpandedStruct:             true,
		DoNotReference:             true,
		Mapper:                     textForms,
	}
	schema := reflector.Reflect(&Scenario{})
	schema.ID = "urn:proxylab:scenario:v1alpha1"
	schema.Title = "proxylab scenario"
	schema.Description = "What a lab holds, what happens to it step by step, and what must hold in the end."
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	// The schema is made of strings, numbers and lists of them, all of which JSON has.
	_ = encoder.Encode(schema)
	return out.Bytes()
}

// textForms describes types of the lab that read themselves from text.
func textForms(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[faults.Duration]():
		return Duration(0).JSONSchema()
	case reflect.TypeFor[faults.Span]():
		return &jsonschema.Schema{Type: "string", Pattern: `^(forever|([0-9.]+(ns|us|µs|ms|s|m|h))+)$`, Examples: []any{"5s", "forever"}}
	}
	return nil
}

// OneOf has the decoder insist on a single key.
func (Step) OneOf() []string { return stepKinds }

// FieldWord is what messages call a key of a step.
func (Step) FieldWord() string { return "step" }

// OneOf has the decoder insist on a single object.
func (Target) OneOf() []string {
	return []string{"service", "deployment", "pod", "endpointSlice", "endpoints", "namespace"}
}

var stepKinds = []string{"load", "wait", "scale", "patch", "churn", "swap", "stop", "apply", "delete", "node", "lb"}

var one = uint64(1)

// JSONSchemaExtend says that a step has exactly one key.
func (Step) JSONSchemaExtend(s *jsonschema.Schema) {
	s.MinProperties, s.MaxProperties = &one, &one
}

// JSONSchemaExtend says that the step has exactly one key.
func (LBStep) JSONSchemaExtend(s *jsonschema.Schema) { s.MinProperties, s.MaxProperties = &one, &one }

// JSONSchemaExtend says that the step has exactly one key.
func (NodeStep) JSONSchemaExtend(s *jsonschema.Schema) { s.MinProperties, s.MaxProperties = &one, &one }

// JSONSchemaExtend says that exactly one object is named.
func (PatchStep) JSONSchemaExtend(s *jsonschema.Schema) { oneTarget(s) }

// JSONSchemaExtend says that exactly one object is named.
func (DeleteStep) JSONSchemaExtend(s *jsonschema.Schema) { oneTarget(s) }

func oneTarget(s *jsonschema.Schema) {
	for _, name := range (Target{}).OneOf() {
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{name}})
	}
}

// JSONSchema describes the text form.
func (Rate) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^ *[0-9.]+(e[0-9]+)? */ *[smh] *$`, Examples: []any{"200/s", "12/m"}}
}

// JSONSchema describes the text form.
func (Duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`, Examples: []any{"500ms", "5s", "1m30s"}}
}

// JSONSchema takes a name or a number.
func (Port) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		{Type: "string"},
		{Type: "integer", Minimum: "1", Maximum: "65535"},
	}}
}

// JSONSchema takes a name or a list.
func (Names) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		{Type: "string"},
		{Type: "array", Items: &jsonschema.Schema{Type: "string"}, MinItems: &one},
	}}
}

// JSONSchema describes the text form.
func (ApplyStep) JSONSchema() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
