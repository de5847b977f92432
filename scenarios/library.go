package scenarios

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"proxylab/scenarios/strict"
)

//go:embed *.yaml
var library embed.FS

const builtinPrefix = "builtin:"

// Entry is one line of the list of built-in scenarios.
type Entry struct {
	Name        string
	Description string
}

// Library lists the built-in scenarios by name.
func Library() []Entry {
	var entries []Entry
	for _, name := range names() {
		// That every built-in can be read is tested.
		text, _ := library.ReadFile(name + ".yaml")
		var head struct{ Metadata Metadata }
		_ = yaml.Unmarshal(text, &head)
		entries = append(entries, Entry{Name: name, Description: head.Metadata.Description})
	}
	return entries
}

// Show is the text of a built-in scenario.
func Show(name string) (string, error) {
	text, err := library.ReadFile(name + ".yaml")
	if err != nil {
		return "", fmt.Errorf("there is no built-in scenario %q%s", name, strict.Suggest(name, names()))
	}
	return string(text), nil
}

func names() []string {
	files, _ := library.ReadDir(".")
	var list []string
	for _, f := range files {
		list = append(list, strings.TrimSuffix(path.Base(f.Name()), ".yaml"))
	}
	slices.Sort(list)
	return list
}
