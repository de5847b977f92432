package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// markdown is the page: how many passed, every test that ran, and what did not, with the reason.
func markdown(all []results, reasons []reason) string {
	var b strings.Builder
	b.WriteString("| proxier | passed | failed | skipped |\n| --- | ---: | ---: | ---: |\n")
	for _, r := range all {
		passed, failed, skipped := r.count()
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", r.proxier, passed, failed, skipped)
	}
	b.WriteString("\n## Tests that ran\n\n| test |")
	for _, r := range all {
		fmt.Fprintf(&b, " %s |", r.proxier)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(all)) + "\n")
	ran, not := split(all)
	for _, name := range ran {
		b.WriteString("| " + cell(name) + " |")
		for _, r := range all {
			b.WriteString(" " + stateName(r.states[name]) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString(failures(all, ran))
	b.WriteString("\n## Tests that did not run\n\n| test | why |\n| --- | --- |\n")
	for _, name := range not {
		fmt.Fprintf(&b, "| %s | %s |\n", cell(name), cell(whyNot(name, all, reasons)))
	}
	return b.String()
}

func (r results) count() (passed, failed, skipped int) {
	for _, t := range r.states {
		switch t.state {
		case "passed":
			passed++
		case "skipped":
			skipped++
		default:
			failed++
		}
	}
	return passed, failed, skipped
}

// split returns the names of tests that ran with one proxier at least, and of the others, both sorted.
func split(all []results) (ran, not []string) {
	names := map[string]bool{}
	for _, r := range all {
		for name, t := range r.states {
			names[name] = names[name] || t.state != "skipped"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			ran = append(ran, name)
		} else {
			not = append(not, name)
		}
	}
	return ran, not
}

// failures says why, where a test did not pass.
func failures(all []results, ran []string) string {
	var b strings.Builder
	for _, name := range ran {
		for _, r := range all {
			if t := r.states[name]; t.state != "passed" && t.state != "" {
				fmt.Fprintf(&b, "- %s, %s: %s: %s\n", r.proxier, name, t.state, t.why)
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n## What they said that did not pass\n\n" + b.String()
}

// whyNot is the reason in the list, or the one that the test gave itself.
func whyNot(name string, all []results, reasons []reason) string {
	for _, r := range reasons {
		if r.tests.MatchString(focus + " " + name) {
			return r.why
		}
	}
	for _, r := range all {
		if why := r.states[name].why; why != "" {
			return "the test itself: " + why
		}
	}
	return "the test gives no reason"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
