package strict

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Options loosen the decoder.
type Options struct {
	// AllowNull takes a key without a value for an absent key, as Kubernetes does.
	AllowNull bool
}

// Decode fills the struct that into points at. It goes on after a mistake; a field whose value is wrong stays as it
// is. The Index is never nil.
func Decode(node *yaml.Node, into any, at Place, opts Options) (*Index, []Problem) {
	d := &decoder{opts: opts, index: &Index{place: at, nodes: map[string]entry{}}}
	d.value(nil, node, reflect.ValueOf(into).Elem(), "", rules{})
	Sort(d.problems)
	return d.index, d.problems
}

type decoder struct {
	opts     Options
	index    *Index
	problems []Problem
	open     []*yaml.Node // aliases that are being followed
	followed int          // nodes reached through aliases, so far
}

// A file of a few lines can hold aliases of aliases that stand for billions of nodes.
const maxFollowed = 10_000

func (d *decoder) problem(at *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, d.index.place.Problem(at.Line, at.Column, path, format, args...))
}

// follow replaces an alias by what it stands for. ok is false if it must not be looked into.
func (d *decoder) follow(n *yaml.Node, path string) (target *yaml.Node, done func(), ok bool) {
	if len(d.open) > 0 {
		d.followed++
	}
	if d.followed > maxFollowed {
		if d.followed == maxFollowed+1 {
			d.problem(n, path, "the aliases of this file stand for too much; write it out")
		}
		return nil, nil, false
	}
	if n.Kind != yaml.AliasNode {
		return n, func() {}, true
	}
	if n.Alias == nil || slices.Contains(d.open, n.Alias) {
		d.problem(n, path, "the alias *%s stands for something that holds itself", n.Value)
		return nil, nil, false
	}
	d.open = append(d.open, n.Alias)
	return n.Alias, func() { d.open = d.open[:len(d.open)-1] }, true
}

// value decodes one value. key is the node of its key, if it has one.
func (d *decoder) value(key, n *yaml.Node, v reflect.Value, path string, r rules) {
	n, done, ok := d.follow(n, path)
	if !ok {
		return
	}
	defer done()
	d.index.add(path, key, n)
	if isNull(n) && v.Kind() != reflect.Interface {
		if !d.opts.AllowNull {
			d.problem(n, path, "has no value; give it one, or leave the key out")
		}
		return
	}
	if v.Kind() == reflect.Pointer {
		fresh := reflect.New(v.Type().Elem())
		before := len(d.problems)
		d.value(key, n, fresh.Elem(), path, r)
		if len(d.problems) == before || fresh.Elem().Kind() == reflect.Struct {
			v.Set(fresh)
		}
		return
	}
	if d.custom(n, v, path) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			d.scalar(n, v, path, r)
			return
		}
		d.list(n, v, path)
	case reflect.Interface:
		if plain, ok := d.plain(n, path); ok && plain != nil {
			v.Set(reflect.ValueOf(plain))
		}
	default:
		d.scalar(n, v, path, r)
	}
}

// custom lets types that read themselves do so.
func (d *decoder) custom(n *yaml.Node, v reflect.Value, path string) bool {
	switch u := v.Addr().Interface().(type) {
	case json.Unmarshaler:
		plain, ok := d.plain(n, path)
		if !ok {
			return true
		}
		text, err := json.Marshal(plain)
		if err == nil {
			err = u.UnmarshalJSON(text)
		}
		if err != nil {
			d.problem(n, path, "%s is not what is wanted here: %v", describe(n), err)
		}
		return true
	case encoding.TextUnmarshaler:
		if n.Kind != yaml.ScalarNode {
			if v.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode {
				return false
			}
			d.problem(n, path, "is %s, where a single value is wanted", describe(n))
			return true
		}
		if err := u.UnmarshalText([]byte(n.Value)); err != nil {
			d.problem(n, path, "%v", err)
		}
		return true
	}
	return false
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.problem(n, path, "is %s, where a list is wanted; begin each entry with a dash", describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.value(nil, item, v.Index(i), fmt.Sprintf("%s[%d]", path, i), rules{})
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "is %s, where a mapping (key: value) is wanted", describe(n))
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	d.pairs(n, path, func(key, value *yaml.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(key, value, element, join(path, key.Value), rules{})
		v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), element)
	})
}

// pairs goes through a mapping and reports the keys that no mapping may have.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode && key.Alias != nil {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			d.problem(key, path, "has %s as a key; a key is a word", describe(key))
		case key.ShortTag() == "!!merge":
			d.problem(key, path, "merge keys (<<) are not known here; write the fields out")
		case seen[key.Value] > 0:
			d.problem(key, join(path, key.Value), "is given a second time; the first is in line %d", d.index.place.Lines+seen[key.Value])
		default:
			seen[key.Value] = key.Line
			each(key, value)
		}
	}
}

func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]/ ") {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// describe says in words what a node is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		return fmt.Sprintf("%q", n.Value)
	}
	return "something else"
}
