package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"proxylab/scenarios/strict"
)

func (r *reader) checkExpectation(path, text string) {
	load, err := parseExpectation(text)
	if err != nil {
		r.problem(path, "%v", err)
		return
	}
	if load == "" || r.scenario.HasLoad(load) {
		return
	}
	// The same traffic straight to a pod is a load of its own in the results.
	if of, ok := strings.CutSuffix(load, "/direct"); ok {
		for _, s := range r.scenario.Spec.Steps {
			if s.Load != nil && s.Load.Name == of && s.Load.Direct {
				return
			}
		}
	}
	var known []string
	for _, s := range r.scenario.Spec.Steps {
		if s.Load != nil {
			known = append(known, s.Load.Name)
		}
	}
	slices.Sort(known)
	if len(known) == 0 {
		r.problem(path, "is about the load %q, but no step starts any", load)
		return
	}
	r.problem(path, "is about the load %q, which no step starts%s", load, strict.Suggest(load, known))
}

// parseExpectation reads one expectation and names the load that it is about, if it is about one.
func parseExpectation(text string) (load string, err error) {
	subject, _, found := strings.Cut(strings.TrimSpace(text), " ")
	if !found {
		return "", fmt.Errorf("%q is not an expectation; write for example load.web.errors == 0", text)
	}
	if rest, ok := strings.CutPrefix(subject, "load."); ok {
		load, _, _ = strings.Cut(rest, ".")
	}
	return load, nil
}
