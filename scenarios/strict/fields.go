package strict

import (
	"reflect"
	"strings"
)

// field is one field of a struct, as the file sees it.
type field struct {
	name  string
	index []int
	rules rules
}

// rules are those of a field's jsonschema tag.
type rules struct {
	required         bool
	enum             []string
	fallback         string // the default
	minimum, maximum string
}

// fields lists the fields of a struct type, those of inlined structs among them.
func fields(t reflect.Type) []field {
	var list []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			for _, inner := range fields(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				list = append(list, inner)
			}
		case !f.IsExported():
		default:
			if name == "" {
				name = f.Name
			}
			list = append(list, field{name: name, index: []int{i}, rules: parseRules(f.Tag.Get("jsonschema"))})
		}
	}
	return list
}

func parseRules(tag string) rules {
	var r rules
	for part := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "required":
			r.required = true
		case "enum":
			r.enum = append(r.enum, value)
		case "default":
			r.fallback = value
		case "minimum":
			r.minimum = value
		case "maximum":
			r.maximum = value
		}
	}
	return r
}

func fieldNames(list []field) []string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = f.name
	}
	return names
}

// A struct may implement these to be understood better.
type (
	// oneOfer names fields of which exactly one must be given.
	oneOfer interface{ OneOf() []string }
	// fieldWorder says what its fields are called in messages, instead of "field".
	fieldWorder interface{ FieldWord() string }
)
