package report

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Expectation is one line of a scenario's expectations: a figure, a comparison and a value.
type Expectation struct {
	Text  string // as it was written
	Path  string // "load.web.latency.p99"
	Op    string // "==", "!=", "<", "<=", ">", ">="
	Value float64
	value string // as it was written
	load  string
	dim   dimension
	get   func(*Subject) (*float64, string)
}

// Load is the load that the expectation is about, "" if it is about none.
func (e Expectation) Load() string { return e.load }

// Want is the comparison and the value as they were written: "< 50ms".
func (e Expectation) Want() string { return e.Op + " " + e.value }

func (e Expectation) String() string { return e.Text }

// operators are what two values may be compared by.
var operators = map[string]func(got, want float64) bool{
	"==": func(a, b float64) bool { return a == b },
	"!=": func(a, b float64) bool { return a != b },
	"<":  func(a, b float64) bool { return a < b },
	"<=": func(a, b float64) bool { return a <= b },
	">":  func(a, b float64) bool { return a > b },
	">=": func(a, b float64) bool { return a >= b },
}

// expression: a path has no blank in it and none of the characters that operators are made of.
var expression = regexp.MustCompile(`^\s*([^\s=!<>]+)\s*([=!<>~]+)\s*(.*?)\s*$`)

// ParseExpectation reads "<path> <op> <value>". The paths are
//
//	load.<name>.errors | errors.<kind> | error_rate | requests | rate | throughput | late | open
//	load.<name>.latency.p50 | p90 | p99 | p999 | max | mean, and the same of connect
//	load.<name>.sources
//	load.<name>.endpoints | endpoints.min_share | endpoints.max_share
//	programming.p50 | p99 | max | samples, the same of programming.added and programming.removed, programming.unobserved
//	sync.count | full | partial | failures | cpu | cpu_per_sync | seconds.p50 | seconds.p99 | seconds.max
//	swap.seconds (the longest) | broken | failed (of all swaps together)
//	usage.cpu | max_rss | softirq
//	lb.publish.p50 | p99 | max | samples, the same of lb.publish.address and lb.provisioning, lb.publish.unobserved
//	lb.api.calls | writes | member_writes | errors | seconds.p50 | seconds.p99 | seconds.max
//	lb.members.changes | down, lb.failover.count | max | flows_lost | flows_kept
//
// Values have the unit that fits: 50ms, 3%, 64MiB, 200/s, 100MB/s, or none for what is counted. An error names every
// mistake of the line and what is accepted instead.
func ParseExpectation(s string) (Expectation, error) {
	m := expression.FindStringSubmatch(s)
	if m == nil {
		return Expectation{}, fmt.Errorf("expectation %q: write <figure> <operator> <value>, for example load.web.errors == 0", s)
	}
	e := Expectation{Text: strings.TrimSpace(s), Path: m[1], Op: m[2], value: m[3]}
	var mistakes []error
	if operators[e.Op] == nil {
		mistakes = append(mistakes, fmt.Errorf("unknown operator %q: use ==, !=, <, <=, > or >=", e.Op))
	}
	if err := e.resolve(); err != nil {
		mistakes = append(mistakes, err)
	} else if e.Value, err = e.dim.parse(e.value); err != nil {
		mistakes = append(mistakes, e.unitMistake(err))
	}
	if len(mistakes) > 0 {
		return Expectation{}, fmt.Errorf("expectation %q: %w", e.Text, errors.Join(mistakes...))
	}
	return e, nil
}

func (e *Expectation) unitMistake(err error) error {
	if e.value == "" {
		return fmt.Errorf("the value is missing: %s takes %s", e.Path, e.dim.example())
	}
	hint := ""
	if e.load != "" && e.Path == "load."+e.load+".errors" && strings.Contains(e.value, "%") {
		hint = "; for a share of the requests use load." + e.load + ".error_rate"
	}
	return fmt.Errorf("%s: %w%s", e.Path, err, hint)
}

// resolve finds the figure that the path names.
func (e *Expectation) resolve() error {
	if rest, ok := strings.CutPrefix(e.Path, "load."); ok {
		return e.resolveLoad(rest)
	}
	metrics := subjectMetrics()
	for _, m := range metrics {
		if m.name == e.Path {
			e.dim, e.get = m.dim, m.get
			return nil
		}
	}
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.name
	}
	group, _, _ := strings.Cut(e.Path, ".")
	if same := withPrefix(names, group+"."); len(same) > 0 {
		return fmt.Errorf("unknown figure %q: of %s there are %s", e.Path, group, strings.Join(same, ", "))
	}
	return fmt.Errorf("unknown figure %q: there are load.<name>.<figure>, %s", e.Path, strings.Join(names, ", "))
}

func withPrefix(names []string, prefix string) []string {
	var same []string
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			same = append(same, n)
		}
	}
	return same
}

// resolveLoad takes the longest figure that "<name>.<figure>" ends with, so that the name may hold dots.
func (e *Expectation) resolveLoad(rest string) error {
	var best *metric[*Load]
	metrics := loadMetrics()
	for i, m := range metrics {
		if strings.HasSuffix(rest, "."+m.name) && (best == nil || len(m.name) > len(best.name)) {
			best = &metrics[i]
		}
	}
	if best == nil {
		at := strings.LastIndex(rest, ".errors.")
		if at < 0 {
			return unknownLoadFigure(e.Path, metrics)
		}
		kind := rest[at+len(".errors."):]
		if !knownErrorKind(kind) {
			return fmt.Errorf("unknown kind of errors %q: there are %s and status-<number>", kind, strings.Join(errorKinds, ", "))
		}
		m := errorsOfKind(kind)
		best = &m
	}
	e.load, e.dim = strings.TrimSuffix(rest, "."+best.name), best.dim
	if e.load == "" {
		return fmt.Errorf("the name of the load is missing in %q: write load.<name>.%s", e.Path, best.name)
	}
	name, get := e.load, best.get
	e.get = func(s *Subject) (*float64, string) {
		l := s.Loads[name]
		if l == nil {
			return nil, "load " + name + " was not played"
		}
		return get(l)
	}
	return nil
}

func unknownLoadFigure(path string, metrics []metric[*Load]) error {
	names := make([]string, 0, len(metrics)+1)
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return fmt.Errorf("unknown figure in %q: after load.<name> there are %s, errors.<kind>", path, strings.Join(names, ", "))
}

// Evaluate compares each expectation with each subject. What was not measured does not hold: "no samples".
func Evaluate(r *Result, expect []Expectation) []Verdict {
	verdicts := []Verdict{}
	for _, e := range expect {
		for _, s := range r.Subjects {
			verdicts = append(verdicts, e.evaluate(s))
		}
	}
	return verdicts
}

func (e Expectation) evaluate(s *Subject) Verdict {
	v := verdict(s, e.Text)
	v.Want = e.Want()
	got, why := e.get(s)
	if got == nil {
		v.Got = "no samples: " + why
		return v
	}
	v.Value, v.Got, v.Holds = got, e.dim.format(*got), operators[e.Op](*got, e.Value)
	return v
}

func verdict(s *Subject, name string) Verdict {
	return Verdict{Name: name, Proxier: s.Proxier, Backend: s.Backend, Repetition: s.Repetition}
}

// evaluateTexts evaluates expectations as a log holds them. One that this version cannot read does not hold.
func evaluateTexts(r *Result, texts []string) []Verdict {
	verdicts := []Verdict{}
	for _, text := range texts {
		e, err := ParseExpectation(text)
		if err == nil {
			verdicts = append(verdicts, Evaluate(r, []Expectation{e})...)
			continue
		}
		for _, s := range r.Subjects {
			v := verdict(s, text)
			v.Got = "unreadable: " + err.Error()
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}
