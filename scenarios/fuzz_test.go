package scenarios

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Whatever the file holds, it is a scenario, or everything that is said about it has a place in it.
func FuzzParse(f *testing.F) {
	for _, e := range Library() {
		text, _ := Show(e.Name)
		f.Add([]byte(text))
	}
	files, _ := filepath.Glob("testdata/wrong/*.txtar")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		scenario, _, _ := strings.Cut(string(text), "-- errors --")
		_, scenario, _ = strings.Cut(scenario, "\n")
		f.Add([]byte(scenario))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// A built-in scenario reads no other files.
		s, err := Parse(builtinPrefix+"fuzz", text, testOptions)
		if err == nil {
			if len(s.StepTexts()) == 0 {
				t.Error("a scenario without steps is taken")
			}
			return
		}
		var invalid *Invalid
		if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
			t.Fatalf("%T: %v", err, err)
		}
		// YAML has more line breaks than "\n".
		lines := len(regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]").FindAllIndex(text, -1)) + 1
		last := 0
		for _, p := range invalid.Problems {
			empty := strings.HasPrefix(p.Text, "is empty; `")
			if p.File != builtinPrefix+"fuzz" || p.Text == "" || !empty && (p.Line < 1 || p.Column < 1) || p.Line > lines {
				t.Errorf("place in %d lines: %+v", lines, p)
			}
			if p.Line < last {
				t.Errorf("not in file order: %v", err)
			}
			last = p.Line
		}
	})
}
