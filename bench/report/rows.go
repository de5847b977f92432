package report

import (
	"fmt"
	"slices"
	"strings"
)

// allRows is the table's content, top to bottom.
func allRows(cols []*column, expectations []Verdict) []row {
	var rows []row
	add := func(title string, part []row) {
		if len(part) > 0 {
			rows = append(append(rows, row{label: title, title: true}), part...)
		}
	}
	for _, name := range loadNames(cols) {
		add(loadTitle(cols, name), loadRows(cols, name))
	}
	add("Programming latency: an API change, until the data path obeys", measuredRows(programmingRows(cols)))
	add("What it cost", measuredRows(costRows(cols)))
	for i := range mostSwaps(cols) {
		add(swapTitle(cols, i), swapRows(cols, i))
	}
	add("Load balancers", lbaasRows(cols))
	add("Expectations", verdicts(cols, expectations))
	return rows
}

// measuredRows leaves out what was measured for no proxier, unless that is all of them.
func measuredRows(rows []row) []row {
	measured := slices.DeleteFunc(slices.Clone(rows), row.empty)
	if len(measured) == 0 && len(rows) > 0 {
		return rows[:1]
	}
	return measured
}

// loadNames are the loads of any subject, without those that go straight to a pod.
func loadNames(cols []*column) []string {
	names := map[string]bool{}
	for _, c := range cols {
		for _, s := range c.subjects {
			for name := range s.Loads {
				if !isDirect(name) {
					names[name] = true
				}
			}
		}
	}
	return sortedKeys(names)
}

func isDirect(name string) bool { return strings.HasSuffix(name, "/direct") }

// loadTitle is "Load web: http, new connections, 200/s".
func loadTitle(cols []*column, name string) string {
	for _, c := range cols {
		for _, s := range c.subjects {
			if l := s.Loads[name]; l != nil && l.Kind != "" {
				return "Load " + name + ": " + strings.Join(traits(l), ", ")
			}
		}
	}
	return "Load " + name
}

func traits(l *Load) []string {
	t := []string{l.Kind}
	switch {
	case l.Kind == "hold" && l.Count > 0:
		t = append(t, fmt.Sprintf("%d connections", l.Count))
	case l.Kind == "stream" && l.Count > 1:
		t = append(t, fmt.Sprintf("%d streams", l.Count))
	case l.Connections == "new" && l.Kind == "http":
		t = append(t, "a new connection for each request")
	case l.Connections == "keepalive":
		t = append(t, "connections used again")
	}
	if l.Intended > 0 && l.Kind != "hold" {
		t = append(t, rate.format(l.Intended))
	}
	return t
}

func loadRows(cols []*column, name string) []row {
	of := func(s *Subject) *Load { return s.Loads[name] }
	direct := func(s *Subject) *Load { return s.Loads[name+"/direct"] }
	number := func(label, metric string) row { return loadFigure(cols, label, metric, of) }

	requests := number("requests", "requests")
	requests.why = "the load was not played"
	errors := troubles(cols, "errors", "", func(s *Subject) *float64 { return maybe(of(s), func(l *Load) *float64 { return converted(l.Errors) }) })
	rows := append([]row{requests, errors}, byKind(cols, func(s *Subject) (map[string]int64, bool) {
		l := of(s)
		if l == nil || l.Errors == nil {
			return nil, false
		}
		return l.ErrorsByKind, true
	})...)
	rest := []row{
		number("rate", "rate"),
		number("latency p50", "latency.p50"),
		loadFigure(cols, "  straight to a pod", "latency.p50", direct),
		number("latency p99", "latency.p99"),
		loadFigure(cols, "  straight to a pod", "latency.p99", direct),
		number("latency max", "latency.max"),
		number("open at once", "open"),
		spreadRow(cols, of),
		names(cols, "pods saw it come from", "nobody said where its connections came from", func(s *Subject) string { return sourcesText(of(s)) }),
	}
	if kindOf(cols, name) == "stream" {
		rest = append([]row{number("throughput", "throughput"), loadFigure(cols, "  straight to a pod", "throughput", direct)}, rest...)
	}
	return append(rows, slices.DeleteFunc(rest, row.empty)...)
}

func kindOf(cols []*column, name string) string {
	for _, c := range cols {
		for _, s := range c.subjects {
			if l := s.Loads[name]; l != nil && l.Kind != "" {
				return l.Kind
			}
		}
	}
	return ""
}

// loadFigure is a row of one of the figures that expectations know.
func loadFigure(cols []*column, label, name string, of func(*Subject) *Load) row {
	list := loadMetrics()
	m := list[slices.IndexFunc(list, func(m metric[*Load]) bool { return m.name == name })]
	_, why := m.get(&Load{})
	return figure(cols, label, m.dim, why, func(s *Subject) *float64 {
		l := of(s)
		if l == nil {
			return nil
		}
		v, _ := m.get(l)
		return v
	})
}

// spreadRow is how many pods answered, and the least and the largest share of one, over all repetitions.
func spreadRow(cols []*column, of func(*Subject) *Load) row {
	r := row{label: "pods that answered", why: "no pod that answered is known"}
	for _, c := range cols {
		pods, least, most := 0.0, 1.0, 0.0
		for _, s := range c.subjects {
			if l := of(s); l != nil {
				_, _ = spread(l, func(n, low, high, sum float64) float64 {
					pods, least, most = max(pods, n), min(least, low/sum), max(most, high/sum)
					return 0
				})
			}
		}
		switch {
		case pods == 0:
			r.cells = append(r.cells, cell{text: notMeasured, state: empty})
		case pods == 1:
			r.cells = append(r.cells, cell{text: "1"})
		default:
			r.cells = append(r.cells, cell{text: count.format(pods) + ": " + span(percent(least), percent(most))})
		}
	}
	return r
}

// percent is a share to the whole percent: how even a spread is needs no more, and a table has little room.
func percent(share float64) string {
	if share > 0 && share < 0.01 {
		return "<1%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

func subjectFigure(cols []*column, label, path string) row {
	list := subjectMetrics()
	m := list[slices.IndexFunc(list, func(m metric[*Subject]) bool { return m.name == path })]
	_, why := m.get(&Subject{})
	return figure(cols, label, m.dim, why, func(s *Subject) *float64 { v, _ := m.get(s); return v })
}

func programmingRows(cols []*column) []row {
	return []row{
		subjectFigure(cols, "changes followed", "programming.samples"),
		subjectFigure(cols, "endpoint added, p50", "programming.added.p50"),
		subjectFigure(cols, "endpoint added, p99", "programming.added.p99"),
		subjectFigure(cols, "endpoint removed, p50", "programming.removed.p50"),
		subjectFigure(cols, "endpoint removed, p99", "programming.removed.p99"),
	}
}

func costRows(cols []*column) []row {
	rows := []row{
		subjectFigure(cols, "full syncs", "sync.full"),
		subjectFigure(cols, "partial syncs", "sync.partial"),
	}
	failures := troubles(cols, "failed syncs", "", func(s *Subject) *float64 {
		return maybe(s.Sync, func(y *Sync) *float64 { return converted(&y.Failures) })
	})
	if slices.ContainsFunc(failures.cells, func(c cell) bool { return c.state == bad }) {
		rows = append(rows, failures)
	}
	rows = append(rows,
		subjectFigure(cols, "sync p50", "sync.seconds.p50"),
		subjectFigure(cols, "sync max", "sync.seconds.max"),
		subjectFigure(cols, "CPU per sync", "sync.cpu_per_sync"),
		subjectFigure(cols, "CPU, all nodes", "usage.cpu"),
		subjectFigure(cols, "peak memory, largest process", "usage.max_rss"),
		subjectFigure(cols, "softirq, whole machine", "usage.softirq"))
	return append(rows, objectRows(cols)...)
}

// objectRows are what a node's kernel holds.
func objectRows(cols []*column) []row {
	kinds := map[string]bool{}
	for _, c := range cols {
		for _, s := range c.subjects {
			if s.Sync != nil {
				for kind := range s.Sync.Objects {
					kinds[kind] = true
				}
			}
		}
	}
	var rows []row
	for _, kind := range sortedKeys(kinds) {
		rows = append(rows, figure(cols, kind+" in a node", count, "it has no such thing, or does not say", func(s *Subject) *float64 {
			if s.Sync == nil {
				return nil
			}
			if n, ok := s.Sync.Objects[kind]; ok {
				return number(float64(n))
			}
			return nil
		}))
	}
	return rows
}

func mostSwaps(cols []*column) int {
	most := 0
	for _, c := range cols {
		for _, s := range c.subjects {
			most = max(most, len(s.Swap))
		}
	}
	return most
}

// swapTitle names the change where it is the same for all.
func swapTitle(cols []*column, i int) string {
	names := swapNames(cols, i)
	if len(names) == 1 {
		return fmt.Sprintf("Swap %d: %s", i+1, names[0])
	}
	return fmt.Sprintf("Swap %d", i+1)
}

func swapNames(cols []*column, i int) []string {
	var names []string
	for _, c := range cols {
		for _, s := range c.subjects {
			if i < len(s.Swap) && !slices.Contains(names, swapName(s.Swap[i])) {
				names = append(names, swapName(s.Swap[i]))
			}
		}
	}
	return names
}

func swapName(w Swap) string {
	if w.Node != "" {
		return w.From + " → " + w.To + " on " + w.Node
	}
	return w.From + " → " + w.To
}

func swapRows(cols []*column, i int) []row {
	of := func(s *Subject) *Swap {
		if i < len(s.Swap) {
			return &s.Swap[i]
		}
		return nil
	}
	const why = "this swap did not happen"
	get := func(f func(*Swap) *float64) func(*Subject) *float64 {
		return func(s *Subject) *float64 { return maybe(of(s), f) }
	}
	kinds := func(f func(*Swap) map[string]int64) []row {
		return byKind(cols, func(s *Subject) (map[string]int64, bool) {
			if w := of(s); w != nil {
				return f(w), true
			}
			return nil, false
		})
	}
	var rows []row
	if len(swapNames(cols, i)) > 1 {
		rows = append(rows, names(cols, "from → to", why, func(s *Subject) string {
			if w := of(s); w != nil {
				return strings.ReplaceAll(swapName(*w), " → ", " →\n")
			}
			return ""
		}))
	}
	rows = append(rows,
		figure(cols, "took", duration, why, get(func(w *Swap) *float64 { return &w.Seconds })),
		figure(cols, "connections open", count, why, get(func(w *Swap) *float64 { return converted(&w.ConnectionsOpen) })),
		troubles(cols, "connections broken", why, get(func(w *Swap) *float64 { return converted(&w.ConnectionsBroken) })))
	rows = append(rows, kinds(func(w *Swap) map[string]int64 { return w.BrokenByKind })...)
	rows = append(rows, troubles(cols, "new requests failed", why, get(func(w *Swap) *float64 { return converted(&w.RequestsFailed) })))
	return append(rows, kinds(func(w *Swap) map[string]int64 { return w.FailedByKind })...)
}

// sourcesText is the addresses that pods saw a load come from; of many, how many there are.
func sourcesText(l *Load) string {
	switch {
	case l == nil || len(l.Sources) == 0:
		return ""
	case len(l.Sources) > 4:
		return fmt.Sprintf("%d addresses", len(l.Sources))
	}
	return strings.Join(sortedKeys(l.Sources), "\n")
}
