package scenarios

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"proxylab/scenarios/strict"
)

// Options say what a scenario is checked against.
type Options struct {
	// Proxiers are the names that a swap may go to. Without any, those names are not checked.
	Proxiers []string
}

// MaxFileSize is the most that a scenario file, or a file of manifests, may hold, in bytes.
const MaxFileSize = 1 << 20

// Load reads a built-in scenario by its name, or else a file by its path, and checks it. What is wrong with it is an
// *Invalid, also when there is no such file.
func Load(pathOrName string, opts Options) (*Scenario, error) {
	if text, err := Show(pathOrName); err == nil {
		return Parse(builtinPrefix+pathOrName, []byte(text), opts)
	}
	text, problem := readFile(pathOrName)
	if problem == "" {
		return Parse(pathOrName, text, opts)
	}
	if problem == noSuchFile && !strings.ContainsAny(pathOrName, `./\`) {
		problem = "there is neither a built-in scenario nor a file of this name" + strict.Suggest(pathOrName, names())
	}
	return nil, &Invalid{[]strict.Problem{{File: pathOrName, Text: problem}}}
}

const noSuchFile = "there is no such file"

// readFile reads a file of bounded size, or says in words why it cannot.
func readFile(path string) (text []byte, problem string) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, noSuchFile
	case errors.Is(err, syscall.EISDIR):
		return nil, "is a directory; name a file in it"
	case err != nil:
		var pathError *os.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return nil, fmt.Sprintf("cannot be read: %v", err)
	case len(text) > MaxFileSize:
		return nil, fmt.Sprintf("is larger than %d KiB; that is no scenario or manifest", MaxFileSize>>10)
	}
	return text, ""
}

// Parse checks the text of a scenario file. path is what messages call it, and what paths in it are relative to.
func Parse(path string, text []byte, opts Options) (*Scenario, error) {
	r := &reader{
		opts:     opts,
		scenario: &Scenario{Path: path, Source: string(text)},
		lines:    strings.Split(string(text), "\n"),
		world:    newWorld(),
	}
	r.read(text)
	if len(r.problems) > 0 {
		strict.Sort(r.problems)
		return nil, &Invalid{r.problems}
	}
	return r.scenario, nil
}

// reader turns one file into a Scenario and collects what is wrong with it.
type reader struct {
	opts     Options
	scenario *Scenario
	lines    []string // of the file
	index    *strict.Index
	problems []strict.Problem
	world    *world
}

// problem adds a mistake at a path of the scenario.
func (r *reader) problem(path, format string, args ...any) {
	r.problems = append(r.problems, r.index.Problem(path, format, args...))
}

func (r *reader) read(text []byte) {
	at := strict.Place{File: r.scenario.Path}
	docs, problems := strict.Parse(text, at)
	if r.problems = problems; len(problems) > 0 {
		return
	}
	if len(docs) == 0 {
		r.problems = []strict.Problem{{File: at.File, Text: "is empty; `proxylab scenarios show quickstart` prints one to start from"}}
		return
	}
	if foreign := r.notAScenario(docs[0], at); foreign != nil {
		r.problems = append(r.problems, *foreign)
		return
	}
	if len(docs) > 1 {
		r.problems = append(r.problems, at.Problem(docs[1].Line, docs[1].Column, "",
			"a second document begins here; a file holds one scenario, and Kubernetes objects go under spec.manifests"))
	}
	index, problems := strict.Decode(docs[0], r.scenario, at, strict.Options{})
	r.index, r.problems = index, append(r.problems, problems...)
	r.check()
}

// notAScenario recognises a file that is something else altogether: going on about its fields would help nobody.
func (r *reader) notAScenario(doc *yaml.Node, at strict.Place) *strict.Problem {
	if doc.Kind != yaml.MappingNode {
		p := at.Problem(doc.Line, doc.Column, "", "is not a scenario: it should begin with apiVersion: %s", APIVersion)
		return &p
	}
	for i := 0; i+1 < len(doc.Content); i += 2 {
		key, value := doc.Content[i], doc.Content[i+1]
		if key.Value == "kind" && value.Kind == yaml.ScalarNode && value.Value != "" && value.Value != Kind && !strings.EqualFold(value.Value, Kind) {
			p := at.Problem(value.Line, value.Column, "kind", "is %q, not a scenario; write kind: %s, and put Kubernetes objects under spec.manifests", value.Value, Kind)
			return &p
		}
	}
	return nil
}

// relative finds a path that the scenario file gives.
func (r *reader) relative(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.scenario.Path), path)
}
