// Package strict decodes YAML into Go structs without letting anything pass: unknown, doubled and missing fields, wrong
// types, values out of bounds. It does not stop at the first mistake, and it says of each where it is and what to
// write instead.
//
// Fields go by their json tags, so that Kubernetes' own types can be decoded as well. The rules for a field are those
// of its jsonschema tag (required, enum=, default=, minimum=, maximum=), so that what an editor is told by the schema
// and what the decoder insists on cannot differ.
package strict

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a file.
type Problem struct {
	File   string
	Line   int    // from 1; 0: the file as a whole
	Column int    // from 1
	Path   string // "spec.steps[3].load.rate"; may be empty
	Text   string // what is wrong, and what to write instead
}

// String is file:line:column: path: text, without the parts that are unknown.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if p.Path != "" {
		b.WriteString(": " + p.Path)
	}
	return b.String() + ": " + p.Text
}

// Sort puts problems in file order; files stay in the order in which they first appear.
func Sort(problems []Problem) {
	order := map[string]int{}
	for _, p := range problems {
		if _, seen := order[p.File]; !seen {
			order[p.File] = len(order)
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.File != b.File {
			return order[a.File] - order[b.File]
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

// Place says where the text that a YAML node was read from is: in a file, or in a part of one.
type Place struct {
	File    string
	Lines   int    // lines of the file before the text
	Columns int    // characters before it, in each line
	Fixed   bool   // the text cannot be found line by line in the file: it is all said to be at Lines and Columns
	Prefix  string // put before each path: "Service web"
}

// Problem makes a Problem at a position of the text.
func (p Place) Problem(line, column int, path, format string, args ...any) Problem {
	if p.Prefix != "" {
		path = strings.TrimSuffix(p.Prefix+": "+path, ": ")
	}
	if p.Fixed {
		line, column = 0, 0
	}
	return Problem{File: p.File, Line: p.Lines + line, Column: p.Columns + column, Path: path, Text: fmt.Sprintf(format, args...)}
}
