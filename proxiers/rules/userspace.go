package rules

import (
	"fmt"
	"strings"
)

func followUserspace(t *trail) {
	t.intoNAT()
	t.throughFilter()
	t.process()
}

// process tells what no rule shows: the choice is made in the proxier's own process.
func (t *trail) process() {
	var endpoints []string
	for _, slice := range t.Slices {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) &&
				strings.Contains(e.Addresses[0], ":") == t.way.to.Addr().Is6() {
				endpoints = append(endpoints, t.whose(e.Addresses[0]))
			}
		}
	}
	choice := "in turn"
	if t.Service.Spec.SessionAffinity == "ClientIP" {
		choice = "in turn for a client that is new, the same again for one that is known"
	}
	rule := strings.Join(endpoints, ", ")
	says := fmt.Sprintf("it accepts the connection and makes one of its own to an endpoint, %s; the endpoint sees the node as its client", choice)
	if len(endpoints) == 0 {
		rule, says = "no endpoint", "it refuses the connection"
	}
	t.hop(0, "process", rule, says)
}
