package strict

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// scalar decodes a single value.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string, r rules) {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, path, "is %s, where %s is wanted", describe(n), wanted(v))
		return
	}
	tag := n.ShortTag()
	switch v.Kind() {
	case reflect.String:
		if tag != "!!str" && tag != "!!timestamp" && tag != "!!binary" {
			d.problem(n, path, "is %s, where text is wanted; put it in quotes: %q", n.Value, n.Value)
			return
		}
		d.text(n, v, path, r)
	case reflect.Bool:
		var b bool
		if tag != "!!bool" || n.Decode(&b) != nil {
			d.problem(n, path, "%q is not true or false", n.Value)
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.integer(n, v, path, r)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		var u uint64
		if tag != "!!int" || n.Decode(&u) != nil || v.OverflowUint(u) {
			d.problem(n, path, "%q is not %s", n.Value, wanted(v))
			return
		}
		v.SetUint(u)
	case reflect.Float32, reflect.Float64:
		var f float64
		if tag != "!!int" && tag != "!!float" || n.Decode(&f) != nil || v.OverflowFloat(f) {
			d.problem(n, path, "%q is not %s", n.Value, wanted(v))
			return
		}
		v.SetFloat(f)
	case reflect.Slice: // of bytes
		data, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			d.problem(n, path, "is not base64: %v", err)
			return
		}
		v.SetBytes(data)
	default:
		d.problem(n, path, "cannot be given in a file")
	}
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, path string, r rules) {
	switch {
	case n.Value == "" && r.required:
		d.problem(n, path, "is empty%s", choices(r))
	case len(r.enum) == 1 && n.Value != r.enum[0]:
		d.problem(n, path, "is %q; write %s", n.Value, r.enum[0])
	case len(r.enum) > 0 && !slices.Contains(r.enum, n.Value):
		d.problem(n, path, "unknown value %q%s", n.Value, Suggest(n.Value, r.enum))
	default:
		v.SetString(n.Value)
	}
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, path string, r rules) {
	var i int64
	if n.ShortTag() != "!!int" || n.Decode(&i) != nil || v.OverflowInt(i) {
		d.problem(n, path, "%q is not %s", n.Value, wanted(v))
		return
	}
	if least, err := strconv.ParseInt(r.minimum, 10, 64); err == nil && i < least {
		d.problem(n, path, "%d is too small; the least is %d", i, least)
		return
	}
	if most, err := strconv.ParseInt(r.maximum, 10, 64); err == nil && i > most {
		d.problem(n, path, "%d is too large; the most is %d", i, most)
		return
	}
	v.SetInt(i)
}

func wanted(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number that fits here"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "text"
	}
	return "a single value"
}

// Plain turns a node into maps, lists, strings, int64, float64, bool and nil, as JSON has them.
func Plain(n *yaml.Node, at Place) (any, []Problem) {
	d := &decoder{opts: Options{AllowNull: true}, index: &Index{place: at, nodes: map[string]entry{}}}
	plain, _ := d.plain(n, "")
	return plain, d.problems
}

func (d *decoder) plain(n *yaml.Node, path string) (any, bool) {
	n, done, ok := d.follow(n, path)
	if !ok {
		return nil, false
	}
	defer done()
	d.index.add(path, nil, n)
	before := len(d.problems)
	var result any
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		d.pairs(n, path, func(key, value *yaml.Node) {
			m[key.Value], _ = d.plain(value, join(path, key.Value))
		})
		result = m
	case yaml.SequenceNode:
		l := make([]any, len(n.Content))
		for i, item := range n.Content {
			l[i], _ = d.plain(item, path+"["+strconv.Itoa(i)+"]")
		}
		result = l
	default:
		result = d.plainScalar(n, path)
	}
	return result, len(d.problems) == before
}

func (d *decoder) plainScalar(n *yaml.Node, path string) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
		d.problem(n, path, "%s is too large a number", n.Value)
	case "!!float":
		return d.plainFloat(n, path)
	}
	return n.Value
}

func (d *decoder) plainFloat(n *yaml.Node, path string) any {
	var f float64
	// JSON has no infinity and no NaN.
	if n.Decode(&f) != nil || f-f != 0 {
		d.problem(n, path, "%s is not a number that JSON has", n.Value)
		return nil
	}
	return f
}
