package html

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"proxylab/bench/events"
)

// balancing is a run of two proxiers, of which the second has one call that failed, a Service that nobody could reach, and a
// failover that left no instance.
func balancing() *Folder {
	f := NewFolder()
	at := time.Date(2026, 11, 3, 19, 0, 0, 0, time.UTC)
	for i, proxier := range []string{"iptables", "nftables"} {
		of := func(e events.Event) {
			at = at.Add(100 * time.Millisecond)
			e.Time, e.Subject = at, &events.Subject{Proxier: proxier, Repetition: 1}
			f.Add(e)
		}
		of(events.Event{SubjectStarted: &events.SubjectStarted{}})
		of(events.Event{StepStarted: &events.StepStarted{Kind: "apply", Text: "apply"}})
		for n := range 20 {
			of(events.Event{LBCall: &events.LBCall{Operation: fmt.Sprintf("op%02d.list", n), Code: 200, Seconds: 0.002}})
		}
		of(events.Event{LBCall: &events.LBCall{Operation: "members.batch", Write: true, Code: 202, Seconds: 0.01}})
		of(events.Event{LBCall: &events.LBCall{Operation: "members.batch", Write: true, Code: 202 + 301*i, Seconds: 0.03}})
		of(events.Event{LBPublished: &events.LBPublished{Service: "default/web", Created: true, Address: "10.10.0.128:80", Seconds: 1.5}})
		lost := 3
		of(events.Event{LBFailover: &events.LBFailover{From: "lb1", To: "lb2", Reason: "killed", Seconds: 0.4, FlowsLost: &lost}})
		if i == 1 {
			of(events.Event{LBPublished: &events.LBPublished{Service: "default/shop", Created: true, Seconds: 30, Error: "no answer"}})
			of(events.Event{LBFailover: &events.LBFailover{From: "lb2", Reason: "killed"}})
		}
		of(events.Event{SubjectEnded: &events.SubjectEnded{}})
	}
	return f
}

func TestChartsOfLoadBalancers(t *testing.T) {
	v, err := balancing().View()
	assert.NilError(t, err)
	i := slices.IndexFunc(v.Groups, func(g Group) bool { return g.ID == "lbaas" })
	assert.Assert(t, i >= 0, "no group about load balancers")
	tables := map[string][][]string{}
	for _, f := range v.Groups[i].Figures {
		tables[f.Title] = f.Table.Rows
	}
	published := tables["A Service was published"]
	assert.Equal(t, len(published), 2)
	assert.Equal(t, published[1][1], "2") // samples
	assert.DeepEqual(t, tables["Failovers"], [][]string{
		{"iptables: lb1 to lb2", "400ms, 3 flows lost"}, {"nftables: lb1 to lb2", "400ms, 3 flows lost"}})
	calls := tables["API calls with nftables"]
	assert.DeepEqual(t, calls[0], []string{"members.batch", "2, p50 10ms, 1 failed"})
	assert.DeepEqual(t, calls[1], []string{"op00.list", "1, p50 2ms"})
	assert.DeepEqual(t, calls[len(calls)-1], []string{"7 others", "7"})
	assert.DeepEqual(t, tables["API calls with iptables"][0], []string{"members.batch", "2, p50 10ms"})

	_, err = v.Report()
	assert.NilError(t, err)
}

func TestNoChartsWithoutLoadBalancers(t *testing.T) {
	v, err := ReadFile(written(t, short()))
	assert.NilError(t, err)
	assert.Assert(t, !slices.ContainsFunc(v.Groups, func(g Group) bool { return g.ID == "lbaas" }))
}
