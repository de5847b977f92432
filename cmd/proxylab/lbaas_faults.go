package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/faults"
	"proxylab/scenarios"
	"proxylab/scenarios/strict"
)

func (o *lbaasOptions) known() faults.Known {
	var instances []string
	if o.server.Instances != nil {
		instances = o.server.Instances.Names
	}
	return lbaas.Known(instances)
}

// readFaults reads a file of faults. The error lists all mistakes with their places.
func readFaults(path string, known faults.Known) (faults.Plan, error) {
	var plan faults.Plan
	text, err := os.ReadFile(path)
	if err != nil {
		return plan, usageError{fmt.Errorf("--faults: %w", err)}
	}
	if len(text) > scenarios.MaxFileSize {
		return plan, usagef("--faults: %s is larger than %d KiB; that is no file of faults", path, scenarios.MaxFileSize>>10)
	}
	at := strict.Place{File: path}
	docs, wrong := strict.Parse(text, at)
	if len(wrong) == 0 && len(docs) != 1 {
		wrong = []strict.Problem{{File: path, Text: fmt.Sprintf("holds %d YAML documents; one with the key faults is wanted", len(docs))}}
	}
	if len(wrong) == 0 {
		var index *strict.Index
		index, wrong = strict.Decode(docs[0], &plan, at, strict.Options{})
		for _, m := range plan.Validate(known) {
			if slices.ContainsFunc(wrong, func(p strict.Problem) bool { return within(p.Path, m.Path) || within(m.Path, p.Path) }) {
				continue // it was said, or follows from what was
			}
			wrong = append(wrong, index.Problem(m.Path, "%s", m.Text))
		}
		strict.Sort(wrong)
	}
	if len(wrong) > 0 {
		return plan, &scenarios.Invalid{Problems: wrong}
	}
	return plan, nil
}

// within says whether a path leads to something, or to a part of it.
func within(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".["))
}
