package strict

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// structure decodes a mapping into a struct.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "is %s, where a mapping with the fields %s is wanted", describe(n), strings.Join(fieldNames(fields(v.Type())), ", "))
		d.defaults(v)
		return
	}
	known := fields(v.Type())
	given := map[string]bool{}
	var unknown []string
	d.pairs(n, path, func(key, value *yaml.Node) {
		i := slices.IndexFunc(known, func(f field) bool { return f.name == key.Value })
		if i < 0 {
			unknown = append(unknown, key.Value)
			d.unknownField(key, v, known, path)
			return
		}
		given[key.Value] = true
		d.value(key, value, v.FieldByIndex(known[i].index), join(path, key.Value), known[i].rules)
	})
	for _, f := range known {
		if given[f.name] {
			continue
		}
		// A misspelt field is one mistake, not two.
		if f.rules.required && !slices.ContainsFunc(unknown, func(u string) bool { return near(u, f.name) }) {
			d.problem(n, path, "%s is missing%s", f.name, choices(f.rules))
		}
		d.fallback(v.FieldByIndex(f.index), f.rules)
	}
	if o, ok := v.Interface().(oneOfer); ok {
		d.oneOf(n, path, o.OneOf(), given, len(unknown))
	}
}

func near(a, b string) bool { return distance(strings.ToLower(a), strings.ToLower(b)) <= reach(a) }

func choices(r rules) string {
	if len(r.enum) == 0 {
		return ""
	}
	if len(r.enum) == 1 {
		return "; write " + r.enum[0]
	}
	return "; it is one of " + strings.Join(r.enum, ", ")
}

func (d *decoder) unknownField(key *yaml.Node, v reflect.Value, known []field, path string) {
	word := "field"
	if w, ok := v.Interface().(fieldWorder); ok {
		word = w.FieldWord()
	}
	d.problem(key, path, "unknown %s %q%s", word, key.Value, Suggest(key.Value, fieldNames(known)))
}

// oneOf insists on exactly one of some fields. Unknown fields count as an attempt at one: they are reported already.
func (d *decoder) oneOf(n *yaml.Node, path string, names []string, given map[string]bool, unknown int) {
	var set []string
	for _, name := range names {
		if given[name] {
			set = append(set, name)
		}
	}
	switch {
	case len(set) > 1:
		d.problem(n, path, "has %s together; only one of them may be given", strings.Join(set, " and "))
	case len(set) == 0 && unknown == 0:
		d.problem(n, path, "has none of %s; one is needed", strings.Join(names, ", "))
	}
}

// defaults fills in a struct that the file does not give.
func (d *decoder) defaults(v reflect.Value) {
	for _, f := range fields(v.Type()) {
		d.fallback(v.FieldByIndex(f.index), f.rules)
	}
}

func (d *decoder) fallback(v reflect.Value, r rules) {
	switch {
	case r.fallback != "":
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: r.fallback}
		if !d.custom(n, v, "") {
			d.scalar(n, v, "", rules{})
		}
	case v.Kind() == reflect.Struct && v.CanAddr():
		d.defaults(v)
	}
}
