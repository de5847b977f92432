package html

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"proxylab/bench/chart"
	"proxylab/bench/report"
	"proxylab/bench/stats"
	"proxylab/bench/timeline"
)

// Group is charts under a heading.
type Group struct {
	ID, Title, Text string
	Figures         []*chart.Figure
}

// drawing is any of the charts.
type drawing interface{ Draw() (*chart.Figure, error) }

// groups are the charts of a run: one group per load, and one each for what the proxier did and cost.
func groups(v *View) ([]Group, error) {
	var out []Group
	for _, name := range loadNames(v.Timeline) {
		g := Group{ID: "load-" + identifier(name), Title: "Load " + name}
		for _, s := range v.Sections {
			if title, traits, _ := strings.Cut(s.Title, ": "); title == g.Title {
				g.Text = traits
			}
		}
		if err := g.draw(loadCharts(v, name)); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	for _, g := range []struct {
		Group
		list []drawing
	}{
		{Group{ID: "programming", Title: "From an API change to the data path", Text: "How long after a change was committed the data path obeyed, as probes saw it."}, programmingCharts(v)},
		{Group{ID: "cost", Title: "What the proxier did", Text: "Its syncs, and what they cost."}, costCharts(v)},
		{Group{ID: "swaps", Title: "Live changes of the proxier", Text: "Connections that were open when another proxier took over, and new requests in the same time."}, swapCharts(v)},
		{Group{ID: "lbaas", Title: "Load balancers", Text: "From a Service of type LoadBalancer to an answer through its VIP, and what that asked of the API."}, balancerCharts(v)},
	} {
		if len(g.list) == 0 {
			continue
		}
		if err := g.draw(g.list); err != nil {
			return nil, err
		}
		out = append(out, g.Group)
	}
	return out, nil
}

func (g *Group) draw(list []drawing) error {
	for _, d := range list {
		f, err := d.Draw()
		if err != nil {
			return err
		}
		g.Figures = append(g.Figures, f)
	}
	return nil
}

var notInIdentifiers = regexp.MustCompile(`[^a-zA-Z0-9]+`)

func identifier(s string) string { return strings.Trim(notInIdentifiers.ReplaceAllString(s, "-"), "-") }

func loadNames(t *timeline.Timeline) []string {
	var names []string
	for _, g := range t.Groups {
		for _, l := range g.Loads {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// measure is what is drawn of a load over time.
type measure struct {
	id, title, note string
	unit            chart.Unit
	log             bool
	of              func(timeline.Point) float64
}

// measures are those of a kind of load: how much got through, and how long it took.
func measures(kind string) (through measure, took []measure) {
	latency := func(q string, of func(timeline.Point) *float64) measure {
		return measure{q, "Latency, " + q, "Of requests that succeeded, counted from when they were due.", chart.Seconds, true,
			func(p timeline.Point) float64 { return value(of(p)) }}
	}
	took = []measure{
		latency("p50", func(p timeline.Point) *float64 { return p.P50 }),
		latency("p99", func(p timeline.Point) *float64 { return p.P99 }),
	}
	switch kind {
	case "stream":
		return measure{"throughput", "Throughput", "Payload bytes per second.", chart.Flow, false,
			func(p timeline.Point) float64 { return per(float64(p.Bytes), p.Seconds) }}, nil
	case "hold":
		return measure{"open", "Connections open", "Connections that are held open through the Service.", chart.Count, false,
			func(p timeline.Point) float64 { return p.Open }}, took
	}
	return measure{"rate", "Requests answered", "Per second, without those that failed: dips are errors.", chart.PerSecond, false,
		func(p timeline.Point) float64 { return per(float64(p.Requests-p.Errors), p.Seconds) }}, took
}

func kindOf(t *timeline.Timeline, load string) string {
	for _, g := range t.Groups {
		if l := g.Load(load); l != nil && l.Kind != "" {
			return l.Kind
		}
	}
	return ""
}

func loadCharts(v *View, name string) []drawing {
	id := "load-" + identifier(name)
	lines := func(m measure) drawing {
		return chart.Lines{ID: id + "-" + m.id, Title: m.title, Note: m.note, Unit: m.unit, Log: m.log,
			Series: series(v.Timeline, name, m.of), Marks: marks(v.Timeline.Steps)}
	}
	through, took := measures(kindOf(v.Timeline, name))
	list := append([]drawing{lines(through)}, shares(v.Result, id, name)...)
	for _, m := range took {
		list = append(list, lines(m))
	}
	return list
}

// per is n per second. Of the little that is left at the end of a load no rate can be told.
func per(n, seconds float64) float64 {
	if seconds < 0.4 {
		return math.NaN()
	}
	return n / seconds
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// series is a curve per proxier. Where nothing was measured for a while, it has a gap.
func series(t *timeline.Timeline, load string, of func(timeline.Point) float64) []chart.Series {
	var out []chart.Series
	for _, g := range t.Groups {
		l := g.Load(load)
		if l == nil {
			continue
		}
		s := chart.Series{Name: g.Name(), Hue: chart.HueOf(g.Proxier)}
		for i, p := range l.Points {
			if i > 0 && p.At-l.Points[i-1].At > 4*l.Width {
				s.X, s.Y = append(s.X, p.At-l.Width), append(s.Y, math.NaN())
			}
			s.X, s.Y = append(s.X, p.At), append(s.Y, of(p))
		}
		out = append(out, s)
	}
	return out
}

// marks are the steps that change something, by their number.
func marks(steps []timeline.Step) []chart.Mark {
	var out []chart.Mark
	for _, s := range steps {
		if s.Kind != "wait" && s.Kind != "load" {
			out = append(out, chart.Mark{At: s.At, Label: fmt.Sprint(s.Index + 1)})
		}
	}
	return out
}

// shares is how a load's requests were divided among the pods that answered.
func shares(r *report.Result, id, load string) []drawing {
	d := chart.Shares{ID: id + "-pods", Title: "Pods that answered", Part: "pod",
		Note: "Each block is the share of one pod, the largest first. Pods that came later or went earlier have less."}
	some := false
	for _, c := range byProxier(r) {
		sum := map[string]int64{}
		for _, s := range c.subjects {
			if l := s.Loads[load]; l != nil && len(c.subjects) == 1 {
				sum = l.Endpoints
			} else if l != nil { // pods of other repetitions have other names
				for pod, n := range l.Endpoints {
					sum[fmt.Sprint(s.Repetition, pod)] = n
				}
			}
		}
		some = some || len(sum) > 0
		division := chart.Division{Name: c.name, Hue: c.hue}
		for _, n := range sum {
			division.Parts = append(division.Parts, n)
		}
		d.Divisions = append(d.Divisions, division)
	}
	if !some {
		return nil
	}
	return []drawing{d}
}

// played is a proxier with its repetitions.
type played struct {
	name     string
	hue      chart.Hue
	subjects []*report.Subject
}

func byProxier(r *report.Result) []*played {
	var list []*played
	for _, s := range r.Subjects {
		name := report.Name(s)
		i := slices.IndexFunc(list, func(p *played) bool { return p.name == name })
		if i < 0 {
			i = len(list)
			list = append(list, &played{name: name, hue: chart.HueOf(s.Proxier)})
		}
		list[i].subjects = append(list[i].subjects, s)
	}
	return list
}

func programmingCharts(v *View) []drawing {
	strips := func(change string) ([]chart.Strip, bool) {
		var out []chart.Strip
		some := false
		for _, g := range v.Timeline.Groups {
			s := chart.Strip{Name: g.Name(), Hue: chart.HueOf(g.Proxier)}
			for _, p := range g.Programming {
				if p.Change == change {
					s.Values = append(s.Values, p.Seconds)
				}
			}
			some = some || len(s.Values) > 0
			out = append(out, s)
		}
		return out, some
	}
	var list []drawing
	if s, ok := strips("added"); ok {
		list = append(list, chart.Strips{ID: "programming-added", Title: "An endpoint was added", Unit: chart.Seconds, Strips: s,
			Note: "Time until it answered its first request. A change that was not seen in time counts with the time limit."})
	}
	if s, ok := strips("removed"); ok {
		list = append(list, chart.Strips{ID: "programming-removed", Title: "An endpoint was removed", Unit: chart.Seconds, Strips: s,
			Note: "Time until it answered its last request."})
	}
	return list
}

func costCharts(v *View) []drawing {
	var list []drawing
	d := chart.Strips{ID: "cost-syncs", Title: "How long a sync took", Unit: chart.Seconds, Note: "Full and partial passes on all nodes, without those that failed."}
	some := false
	for _, g := range v.Timeline.Groups {
		s := chart.Strip{Name: g.Name(), Hue: chart.HueOf(g.Proxier)}
		for _, y := range g.Syncs {
			if !y.Failed {
				s.Values = append(s.Values, y.Seconds)
			}
		}
		some = some || len(s.Values) > 0
		d.Strips = append(d.Strips, s)
	}
	if some {
		list = append(list, d)
	}
	for _, b := range []struct {
		id, title, note, column string
		unit                    chart.Unit
		of                      func(*report.Subject) *float64
	}{
		{"cost-sync-cpu", "Processor time per sync", "User and system time of the proxier's processes, on average.", "CPU per sync", chart.Seconds,
			func(s *report.Subject) *float64 {
				if s.Sync == nil {
					return nil
				}
				return s.Sync.CPUSecondsPerSync
			}},
		{"cost-cpu", "Processor time in all", "All the proxier's processes, on all nodes, for the whole scenario.", "CPU", chart.Seconds,
			func(s *report.Subject) *float64 {
				if s.ProxierUsage == nil {
					return nil
				}
				return &s.ProxierUsage.CPUSeconds
			}},
		{"cost-memory", "Peak memory", "Of the largest process.", "resident", chart.Bytes,
			func(s *report.Subject) *float64 {
				if s.ProxierUsage == nil {
					return nil
				}
				bytes := float64(s.ProxierUsage.MaxRSSBytes)
				return &bytes
			}},
	} {
		bars := medians(v.Result, b.of)
		if len(bars) > 0 {
			list = append(list, chart.Bars{ID: b.id, Title: b.title, Note: b.note, Column: b.column, Unit: b.unit, Bars: bars})
		}
	}
	return list
}

// medians are a bar per proxier: the median over its repetitions.
func medians(r *report.Result, of func(*report.Subject) *float64) []chart.Bar {
	var bars []chart.Bar
	for _, p := range byProxier(r) {
		var values []float64
		for _, s := range p.subjects {
			if v := of(s); v != nil {
				values = append(values, *v)
			}
		}
		if m, ok := stats.Median(values); ok {
			bars = append(bars, chart.Bar{Name: p.name, Hue: p.hue, Value: m.Median})
		}
	}
	return bars
}

// swapCharts are two charts per swap of the scenario, summed over repetitions.
func swapCharts(v *View) []drawing {
	var list []drawing
	for i := range 100 {
		broken := chart.Bars{ID: fmt.Sprintf("swap-%d-broken", i+1), Title: fmt.Sprintf("Swap %d: connections broken", i+1), Column: "broken", Unit: chart.Count,
			Note: "Of those that were open when it began."}
		failed := chart.Bars{ID: fmt.Sprintf("swap-%d-failed", i+1), Title: fmt.Sprintf("Swap %d: new requests failed", i+1), Column: "failed", Unit: chart.Count,
			Note: "While it went on, and until things had settled."}
		for _, p := range byProxier(v.Result) {
			var open, lost, refused, n int64
			name := ""
			for _, s := range p.subjects {
				if i < len(s.Swap) {
					w := s.Swap[i]
					n, name = n+1, w.From+" → "+w.To
					open, lost, refused = open+int64(w.ConnectionsOpen), lost+int64(w.ConnectionsBroken), refused+w.RequestsFailed
				}
			}
			if n > 0 {
				broken.Bars = append(broken.Bars, chart.Bar{Name: name, Hue: p.hue, Value: float64(lost), Text: fmt.Sprintf("%d of %d", lost, open)})
				failed.Bars = append(failed.Bars, chart.Bar{Name: name, Hue: p.hue, Value: float64(refused)})
			}
		}
		if len(broken.Bars) == 0 {
			break
		}
		list = append(list, broken, failed)
	}
	return list
}
