package report

import (
	"cmp"
	"fmt"

	"proxylab/bench/events"
	"proxylab/bench/units"
)

// LBaaSLine is what a person who waits is told of load balancers and nodes; "": nothing.
func LBaaSLine(e events.Event) string {
	switch {
	case e.LBPublished != nil:
		return publishedLine(e.LBPublished)
	case e.LBFailover != nil:
		return failoverLine(e.LBFailover)
	case e.LBFault != nil && e.LBFault.What != "struck":
		return "fault " + e.LBFault.Name + " " + e.LBFault.What + ": " + oneLine(e.LBFault.Text)
	case e.NodeChange != nil:
		return e.NodeChange.Node + " " + e.NodeChange.What
	}
	return ""
}

func publishedLine(p *events.LBPublished) string {
	since := "changed"
	if p.Created {
		since = "created"
	}
	if p.Error != "" {
		return fmt.Sprintf("%s does not answer %s after it was %s: %s", p.Service, units.Seconds(p.Seconds), since, oneLine(p.Error))
	}
	return fmt.Sprintf("%s answers at %s, %s after it was %s", p.Service, p.Address, units.Seconds(p.Seconds), since)
}

func failoverLine(f *events.LBFailover) string {
	text := f.From + " " + cmp.Or(f.Reason, "ended") + ", "
	if f.To == "" {
		return text + "and none is left to take over"
	}
	text += fmt.Sprintf("%s took over in %s", f.To, units.Seconds(f.Seconds))
	if f.FlowsLost != nil && f.FlowsKept != nil {
		text += fmt.Sprintf(": %d flows lost, %d kept", *f.FlowsLost, *f.FlowsKept)
	}
	return text
}
