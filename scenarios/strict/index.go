package strict

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Index finds the place in the file of what was decoded, by path ("spec.steps[3].load.rate").
type Index struct {
	place Place
	nodes map[string]entry
}

type entry struct{ node, at *yaml.Node }

// Has says whether the file gives a value at path.
func (x *Index) Has(path string) bool {
	_, ok := x.nodes[path]
	return ok
}

// Node is the value at path, or nil.
func (x *Index) Node(path string) *yaml.Node { return x.nodes[path].node }

// Place is where the whole text is.
func (x *Index) Place() Place { return x.place }

// Problem makes a Problem about the value at path, or about the nearest thing around it that the file has.
func (x *Index) Problem(path, format string, args ...any) Problem {
	for at := path; ; {
		if e, ok := x.nodes[at]; ok {
			return x.place.Problem(e.at.Line, e.at.Column, path, format, args...)
		}
		cut := strings.LastIndexAny(at, ".[")
		if cut < 0 {
			return x.place.Problem(1, 1, path, format, args...)
		}
		at = at[:cut]
	}
}

// add records a value. What is said about a mapping or a list points at its key, if it has one.
func (x *Index) add(path string, key, value *yaml.Node) {
	at := value
	if key != nil && value.Kind != yaml.ScalarNode {
		at = key
	}
	x.nodes[path] = entry{node: value, at: at}
}
