package conformance

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Result is what was found of one behaviour with one proxier.
type Result struct {
	Area      string `json:"area"`
	Behaviour string `json:"behaviour"`
	Proxier   string `json:"proxier"`
	// Holds is absent where the behaviour does not apply; Detail then says why.
	Holds *bool `json:"holds,omitempty"`
	// Detail is how it differs.
	Detail string `json:"detail,omitempty"`
	// Reported is where the difference is known from.
	Reported string `json:"reported,omitempty"`
	// Seconds is how long the trial took; absent: there was none.
	Seconds float64 `json:"seconds,omitempty"`
}

// Environment is what a reader of the results must know.
type Environment struct {
	Lab      string            `json:"lab"`
	Nodes    int               `json:"nodes"`
	Kernel   Kernel            `json:"kernel"`
	CPUs     int               `json:"cpus"`
	Version  string            `json:"version"`
	Backends map[string]string `json:"iptablesBackends,omitempty"` // by proxier, where it tells
	Facts    []string          `json:"facts,omitempty"`            // versions of programs, terms
}

// Kernel is where the nodes live.
type Kernel struct {
	Kind    string `json:"kind"` // "host", "uml"
	Release string `json:"release"`
}

// Document is the outcome of a run.
type Document struct {
	Environment Environment `json:"environment"`
	Interrupted bool        `json:"interrupted,omitempty"`
	Rows        []Result    `json:"rows"`
}

// judge makes a result of what a trial found.
func judge(row Row, p Proxier, failures []string, why string) Result {
	r := Result{Area: row.Area, Behaviour: row.Name, Proxier: p.Name}
	known, isKnown := row.Known[p.Name]
	holds := len(failures) == 0
	switch {
	case holds && why != "":
		r.Detail = why
		return r
	case !holds:
		r.Detail = strings.Join(failures, "; ")
		if isKnown {
			r.Detail, r.Reported = known.How+" ("+r.Detail+")", known.Report
		}
	case isKnown:
		r.Detail = "known to differ in some cases: " + known.How
		r.Reported = known.Report
	}
	r.Holds = &holds
	return r
}

// Sort puts results in the order of rows, and of proxiers within a row.
func Sort(results []Result, rows []Row, proxiers []Proxier) {
	row, proxier := map[string]int{}, map[string]int{}
	for i, r := range rows {
		row[r.Name] = i
	}
	for i, p := range proxiers {
		proxier[p.Name] = i
	}
	slices.SortStableFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(row[a.Behaviour], row[b.Behaviour]), cmp.Compare(proxier[a.Proxier], proxier[b.Proxier]))
	})
}

// JSON is the document for machines.
func (d Document) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(d, "", "  ")
	return append(b, '\n'), err
}

// Differing counts, of the proxiers given, the behaviours that apply, and those that do not hold.
func (d Document) Differing(proxiers ...Proxier) (differ, applicable int) {
	for _, r := range d.Rows {
		of := slices.ContainsFunc(proxiers, func(p Proxier) bool { return p.Name == r.Proxier })
		if !of || r.Holds == nil {
			continue
		}
		applicable++
		if !*r.Holds {
			differ++
		}
	}
	return differ, applicable
}
