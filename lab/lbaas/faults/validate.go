package faults

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Mistake is something in a plan that cannot be.
type Mistake struct {
	Path string // such as faults[2].status; "" is the plan as a whole
	Text string // what is wrong, and what to write instead
}

func (m Mistake) Error() string {
	if m.Path == "" {
		return m.Text
	}
	return m.Path + ": " + m.Text
}

// Known is what a plan may speak of.
type Known struct {
	Operations []string
	Quotas     []string // kinds that have one
	Instances  []string // of the data plane
}

var versionShape = regexp.MustCompile(`^v2\.\d{1,3}$`)

// Validate finds all that is wrong with a plan.
func (p Plan) Validate(known Known) []Mistake {
	v := validator{known: known}
	if p.Version != "" && !versionShape.MatchString(p.Version) {
		v.add("version", "%q is no version of the API; write for example v2.10", p.Version)
	}
	for _, kind := range sortedKeys(p.Quota) {
		if !slices.Contains(known.Quotas, kind) {
			v.add("quota."+kind, "has no quota; accepted are %s", strings.Join(known.Quotas, ", "))
		}
		if p.Quota[kind] < -1 {
			v.add("quota."+kind, "%d is no quota; write 0 or more, or -1 for none", p.Quota[kind])
		}
	}
	names := map[string]int{}
	for i, f := range p.Faults {
		at := fmt.Sprintf("faults[%d]", i)
		if first, taken := names[f.Name]; taken && f.Name != "" {
			v.add(at+".name", "%q is the name of faults[%d] too; one of them needs another", f.Name, first)
		}
		names[f.Name] = i
		v.fault(at, f)
	}
	return v.mistakes
}

type validator struct {
	known    Known
	mistakes []Mistake
}

func (v *validator) add(path, format string, args ...any) {
	v.mistakes = append(v.mistakes, Mistake{path, fmt.Sprintf(format, args...)})
}

func (v *validator) fault(at string, f Fault) {
	v.operation(at, f)
	v.selection(at, f)
	v.effects(at, f)
	v.targets(at, f)
}

func (v *validator) operation(at string, f Fault) {
	for pattern := range strings.FieldsSeq(f.Operation) {
		if _, err := path.Match(pattern, ""); err != nil {
			v.add(at+".operation", "%q is no pattern; write for example member.*", pattern)
			continue
		}
		if !slices.ContainsFunc(v.known.Operations, func(op string) bool { return matches(pattern, op) }) {
			v.add(at+".operation", "%q is no operation; there are %s", pattern, describe(pattern, v.known.Operations))
		}
	}
}

// describe lists operations: those of the kind that is meant, or else the kinds.
func describe(pattern string, all []string) string {
	kind, _, _ := strings.Cut(pattern, ".")
	var same, kinds []string
	for _, op := range all {
		k, _, _ := strings.Cut(op, ".")
		if k == kind {
			same = append(same, op)
		}
		if !slices.Contains(kinds, k+".*") {
			kinds = append(kinds, k+".*")
		}
	}
	if len(same) > 0 {
		return strings.Join(same, ", ")
	}
	return strings.Join(kinds, ", ")
}

func (v *validator) selection(at string, f Fault) {
	for field, given := range map[string]bool{"nth": f.Nth != 0, "every": f.Every != 0, "share": f.Share != 0} {
		if given && f.Operation == "" {
			v.add(at+"."+field, "selects requests: say of which operation")
		}
	}
	for field, n := range map[string]int{"nth": f.Nth, "every": f.Every, "count": f.Count} {
		if n < 0 {
			v.add(at+"."+field, "%d is below 1", n)
		}
	}
	if f.Share < 0 || f.Share > 1 {
		v.add(at+".share", "%v is no share; write 0.1 for a tenth", f.Share)
	}
	if f.Nth != 0 && (f.Every != 0 || f.Share != 0) {
		v.add(at+".nth", "is one request; every and share are of many: keep one of them")
	}
}

// effects insists on one sort of effect in a fault, so that its counters mean one thing.
func (v *validator) effects(at string, f Fault) {
	var sorts []string
	for _, s := range []struct {
		name string
		have bool
	}{
		{"latency, status or drop", f.onRequest()}, {"pending or error", f.onProvisioning()}, {"edit", f.Edit != nil}, {"delete", f.Delete != nil},
		{"flap", f.Flap != nil}, {"kill", f.Kill != ""},
	} {
		if s.have {
			sorts = append(sorts, s.name)
		}
	}
	switch {
	case len(sorts) == 0:
		v.add(at, "does nothing; say latency, status, drop, pending, error, edit, delete, flap or kill")
	case len(sorts) > 1:
		v.add(at, "does several things (%s); make it several faults", strings.Join(sorts, "; "))
	case (f.onRequest() || f.onProvisioning()) && f.Operation == "":
		v.add(at, "needs an operation that it strikes; * is all of them")
	}
	if f.Status != 0 && f.Drop {
		v.add(at+".drop", "leaves no answer that could have a status; keep one of them")
	}
	if f.Status != 0 && !slices.Contains(Statuses, f.Status) {
		v.add(at+".status", "%d is not one of %v", f.Status, Statuses)
	}
	if f.Jitter != 0 && f.Latency == 0 {
		v.add(at+".jitter", "comes on top of a latency; say which")
	}
	if f.AfterCommit && !f.onRequest() {
		v.add(at+".afterCommit", "says when a latency, an error or a drop comes; say which")
	}
	if f.Pending != nil && f.Error && f.Pending.Forever {
		v.add(at+".error", "is never reached by what is PENDING forever")
	}
	if f.After != 0 && !f.acts() {
		v.add(at+".after", "is of edit, delete, flap and kill; latency delays an answer")
	}
}

func (v *validator) targets(at string, f Fault) {
	check := func(path string, t Target) {
		if !slices.Contains(Kinds, t.Kind) {
			v.add(path+".kind", "%q is no kind; accepted are %s", t.Kind, strings.Join(Kinds, ", "))
		}
		v.pattern(path+".name", t.Name)
	}
	if f.Edit != nil {
		check(at+".edit", f.Edit.Target)
		if len(f.Edit.Set) == 0 {
			v.add(at+".edit.set", "is empty: say what is edited, as in {admin_state_up: false}")
		}
	}
	if f.Delete != nil {
		check(at+".delete", *f.Delete)
	}
	if f.Flap != nil {
		v.pattern(at+".flap.member", f.Flap.Member)
	}
	if f.Kill != "" && f.Kill != Active && !slices.Contains(v.known.Instances, f.Kill) {
		v.add(at+".kill", "%q is no instance; accepted are %s", f.Kill, strings.Join(append([]string{Active}, v.known.Instances...), ", "))
	}
}

func (v *validator) pattern(at, name string) {
	if _, err := path.Match(name, ""); err != nil || name == "" {
		v.add(at, "%q is no name, id or pattern such as kube_*", name)
	}
}

func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
