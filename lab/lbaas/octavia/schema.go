package octavia

import (
	"errors"
	"maps"
	"net/http"
	"sort"
	"strings"
)

// attr is an attribute a request may have.
type attr struct {
	name     string
	check    check
	required bool
	// def is what a new object has without it, and what a null resets it to.
	def any
}

// class is a kind of request body: its attributes in the order in which Octavia looks at them.
type class []attr

// without gives the class without some attributes.
func (c class) without(names ...string) class {
	var kept class
	for _, a := range c {
		drop := false
		for _, n := range names {
			drop = drop || a.name == n
		}
		if !drop {
			kept = append(kept, a)
		}
	}
	return kept
}

// nested says that an attribute is an object or a list of objects of another class.
func nested(c *class, list bool) check {
	return func(v any) (any, error) {
		if !list {
			m, ok := v.(map[string]any)
			if !ok {
				return nil, wrongType("dict", v)
			}
			return c.read(m)
		}
		items, ok := v.([]any)
		if !ok {
			return nil, wrongType("list", v)
		}
		out := make([]map[string]any, 0, len(items))
		for _, one := range items {
			m, ok := one.(map[string]any)
			if !ok {
				return nil, wrongType("dict", one)
			}
			read, err := c.read(m)
			if err != nil {
				return nil, err
			}
			out = append(out, read)
		}
		return out, nil
	}
}

// unknown is an attribute that does not exist; the argument's name is added on the way up.
type unknown struct{ path, names string }

func (u unknown) Error() string { return "unknown attribute " + u.path + ": " + u.names }

// read checks the attributes that are there. A null is kept as nil. The error is an *Error or an unknown.
func (c class) read(body map[string]any) (map[string]any, error) {
	if u := c.strangers(body); u != "" {
		return nil, unknown{names: u}
	}
	out := map[string]any{}
	for _, a := range c {
		v, there := body[a.name]
		if a.required && v == nil {
			return nil, invalidInput(a.name, nil, "Mandatory field missing.")
		}
		if !there || v == nil {
			if there {
				out[a.name] = nil
			}
			continue
		}
		value, err := a.check(v)
		if err != nil {
			return nil, a.refused(v, err)
		}
		out[a.name] = value
	}
	return out, nil
}

func (a attr) refused(v any, err error) error {
	var u unknown
	var inner *Error
	switch {
	case errors.As(err, &inner):
		return inner
	case errors.As(err, &u):
		return unknown{path: strings.TrimSuffix(a.name+"."+u.path, "."), names: u.names}
	}
	return invalidInput(a.name, v, err.Error())
}

// strangers names the attributes of a body that the class does not have.
func (c class) strangers(body map[string]any) string {
	var names []string
	for name := range body {
		known := false
		for _, a := range c {
			known = known || a.name == name
		}
		if !known {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

// fill gives what a new object has: what was sent, and the defaults of the rest.
func (c class) fill(sent map[string]any) map[string]any {
	out := map[string]any{}
	for _, a := range c {
		out[a.name] = a.def
	}
	for name, v := range sent {
		if v != nil {
			out[name] = v
		}
	}
	return out
}

// reset replaces the nulls of an update by defaults.
func (c class) reset(sent map[string]any, defaults class) map[string]any {
	out := maps.Clone(sent)
	for name, v := range out {
		if v != nil {
			continue
		}
		for _, a := range defaults {
			if a.name == name {
				out[name] = a.def
			}
		}
	}
	return out
}

// parse reads a whole body {root: {...}} of a class; argument is the name that messages give it.
func (c class) parse(body map[string]any, root, argument string) (map[string]any, error) {
	for name, v := range body {
		if name == argument && name != root {
			return nil, invalidInput(name, v, "unable to convert to "+rootClass(root)+
				". Error: Base.__init__() takes 1 positional argument but 2 were given")
		}
	}
	wrapper := class{{name: root, check: nested(&c, false), required: true}}
	read, err := wrapper.read(body)
	if err != nil {
		return nil, named(err, argument)
	}
	inner, _ := read[root].(map[string]any)
	return inner, nil
}

// rootClass is what Octavia calls the body of a creation.
func rootClass(root string) string {
	if root == "loadbalancer" {
		return "LoadBalancerRootPOST"
	}
	return strings.ToUpper(root[:1]) + root[1:] + "RootPOST"
}

// named finishes an error of read with the argument's name.
func named(err error, argument string) error {
	var u unknown
	if errors.As(err, &u) {
		path := strings.TrimSuffix(argument+"."+u.path, ".")
		return fault(http.StatusBadRequest, "Unknown attribute for argument %s: %s", path, u.names)
	}
	return err
}
