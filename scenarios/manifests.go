package scenarios

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"proxylab/scenarios/strict"
)

// manifests reads the objects that the scenario gives at a path of its own: as text, or in files.
func (r *reader) manifests(path, text string) []object {
	node := r.index.Node(path)
	if node == nil || text == "" {
		r.world.unsure = r.world.unsure || node != nil
		return nil
	}
	if !strings.Contains(text, "\n") && !strings.HasPrefix(text, "{") {
		return r.manifestFiles(path, text)
	}
	return r.objects([]byte(text), r.inside(node))
}

// inside is where the text of a block (key: |) is in the scenario file.
func (r *reader) inside(node *yaml.Node) strict.Place {
	at := strict.Place{File: r.scenario.Path, Lines: node.Line, Columns: node.Column, Fixed: true}
	if node.Style&yaml.LiteralStyle == 0 {
		return at
	}
	// The first line that is not blank tells how far the block is indented, beyond what the text itself is.
	for i, line := range strings.Split(node.Value, "\n") {
		if content := strings.TrimLeft(line, " "); content != "" && node.Line+i < len(r.lines) {
			raw := r.lines[node.Line+i]
			indent := len(raw) - len(strings.TrimLeft(raw, " ")) - (len(line) - len(content))
			return strict.Place{File: at.File, Lines: node.Line, Columns: max(indent, 0)}
		}
	}
	return at
}

// manifestFiles reads a file, or the .yaml, .yml and .json files of a directory in the order of their names.
func (r *reader) manifestFiles(path, name string) []object {
	if strings.HasPrefix(r.scenario.Path, builtinPrefix) {
		r.problem(path, "names the file %q, but a built-in scenario has none; write the objects into it", name)
		return nil
	}
	file := r.relative(name)
	files := []string{file}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		if files = manifestsIn(file); len(files) == 0 {
			r.problem(path, "the directory %s has no .yaml, .yml or .json file", file)
		}
	}
	var objects []object
	for _, file := range files {
		text, problem := readFile(file)
		if problem != "" {
			r.world.unsure = true
			r.problem(path, "%s: %s; it is searched for from the directory of the scenario file", file, problem)
			continue
		}
		objects = append(objects, r.objects(text, strict.Place{File: file})...)
	}
	return objects
}

func manifestsIn(directory string) []string {
	var files []string
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		// The only error is a bad pattern.
		found, _ := filepath.Glob(filepath.Join(escapeGlob(directory), pattern))
		files = append(files, found...)
	}
	slices.Sort(files)
	return files
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func escapeGlob(s string) string { return globEscaper.Replace(s) }
