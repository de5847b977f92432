package html

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"proxylab/bench/chart"
	"proxylab/bench/report"
	"proxylab/bench/units"
)

// mostOperations are shown in a chart; the rest is summed up.
const mostOperations = 14

// balancerCharts are those of load balancers; none where a run has none.
func balancerCharts(v *View) []drawing {
	list := publishCharts(v)
	if bars := failoverBars(v.Result); len(bars) > 0 {
		list = append(list, chart.Bars{ID: "lbaas-failovers", Title: "Failovers", Unit: chart.Seconds, Bars: bars, Column: "VIPs served again after",
			Note: "From the end of an instance until another served its VIPs."})
	}
	for i, p := range byProxier(v.Result) {
		if bars := operationBars(p); len(bars) > 0 {
			list = append(list, chart.Bars{ID: fmt.Sprintf("lbaas-api-%d", i+1), Title: "API calls with " + p.name, Unit: chart.Count, Bars: bars,
				Column: "calls, in all repetitions", Note: "By operation, of all clients."})
		}
	}
	return list
}

func publishCharts(v *View) []drawing {
	d := chart.Strips{ID: "lbaas-published", Title: "A Service was published", Unit: chart.Seconds,
		Note: "Time until the first byte through its VIP. One that did not answer in time counts with the time limit."}
	some := false
	for _, g := range v.Timeline.Groups {
		s := chart.Strip{Name: g.Name(), Hue: chart.HueOf(g.Proxier)}
		for _, p := range g.Published {
			s.Values = append(s.Values, p.Seconds)
		}
		some = some || len(s.Values) > 0
		d.Strips = append(d.Strips, s)
	}
	if !some {
		return nil
	}
	return []drawing{d}
}

// failoverBars are a bar for each failover after which a VIP was served again.
func failoverBars(r *report.Result) []chart.Bar {
	var bars []chart.Bar
	for _, p := range byProxier(r) {
		for _, s := range p.subjects {
			if s.LBaaS == nil {
				continue
			}
			for _, f := range s.LBaaS.Failovers {
				if f.To == "" {
					continue
				}
				bars = append(bars, chart.Bar{Name: fmt.Sprintf("%s: %s to %s", p.name, f.From, f.To), Hue: p.hue, Value: f.Seconds, Text: failoverText(f)})
			}
		}
	}
	return bars
}

func failoverText(f report.LBFailover) string {
	text := units.Seconds(f.Seconds)
	if f.FlowsLost != nil {
		text += fmt.Sprintf(", %d flows lost", *f.FlowsLost)
	}
	if f.FlowsKept != nil {
		text += fmt.Sprintf(", %d kept", *f.FlowsKept)
	}
	return text
}

// operationBars are the calls of the API by operation, over all repetitions, the most frequent first.
func operationBars(p *played) []chart.Bar {
	calls, failed := map[string]int{}, map[string]int{}
	for _, s := range p.subjects {
		if s.LBaaS == nil || s.LBaaS.API == nil {
			continue
		}
		for name, op := range s.LBaaS.API.Operations {
			calls[name] += op.Calls
			for code, n := range op.Codes {
				if code == 0 || code >= 400 {
					failed[name] += n
				}
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(calls), func(a, b string) int {
		return cmp.Or(cmp.Compare(calls[b], calls[a]), strings.Compare(a, b))
	})
	if len(names) > mostOperations {
		rest := fmt.Sprintf("%d others", len(names)-mostOperations)
		for _, name := range names[mostOperations:] {
			calls[rest] += calls[name]
			failed[rest] += failed[name]
		}
		names = append(names[:mostOperations:mostOperations], rest)
	}
	var bars []chart.Bar
	for _, name := range names {
		bars = append(bars, chart.Bar{Name: name, Hue: p.hue, Value: float64(calls[name]), Text: callsText(p, name, calls[name], failed[name])})
	}
	return bars
}

// callsText is "42, p50 3.1ms, 2 failed". The quantile is told of a single repetition: that of several cannot be.
func callsText(p *played, name string, calls, failed int) string {
	text := fmt.Sprint(calls)
	if len(p.subjects) == 1 {
		if op := p.subjects[0].LBaaS.API.Operations[name]; op != nil && op.Seconds != nil {
			text += ", p50 " + units.Seconds(op.Seconds.P50)
		}
	}
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	return text
}
