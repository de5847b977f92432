package scenarios

import (
	"slices"
	"strings"

	"proxylab/bench/report"
	"proxylab/scenarios/strict"
)

// checkExpectation checks that an expectation can be read, and that the load is there that it is about.
func (r *reader) checkExpectation(path, text string) {
	if text == "" {
		return // that it is no text is said already
	}
	expectation, err := report.ParseExpectation(text)
	if err != nil {
		r.problem(path, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	load := expectation.Load()
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
