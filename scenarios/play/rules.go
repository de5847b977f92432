package play

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"proxylab/bench/events"
	"proxylab/proxiers/rules"
	"proxylab/scenarios/inspect"
)

// rulesLimit bounds the reading of the rules behind a Service: of many thousand Services they are long.
const rulesLimit = 15 * time.Second

// probed are the Services that traffic went to.
func (s *subject) probed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.probes))
}

// readRules emits the rules behind Services on the first node. They are for looking at: where they cannot be read, the event
// says why, and nothing else is amiss.
func (s *subject) readRules(ctx context.Context, services ...string) {
	for _, service := range services {
		if ctx.Err() != nil {
			return
		}
		reading, cancel := context.WithTimeout(ctx, rulesLimit)
		e := events.Rules{Service: service, Node: s.nodes[0].Name, Proxier: s.proxiers[0].last.Name}
		found, err := inspect.ReadRules(reading, s.Lab, e.Node, service)
		cancel()
		if err != nil {
			e.Lines = []string{fmt.Sprintf("could not be read: %v", err)}
		} else {
			var text strings.Builder
			_ = rules.Print(&text, found.Stories) // a Builder takes everything
			e.Proxier, e.Lines = found.Proxier, strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
		}
		s.emit(events.Event{Rules: &e})
	}
}
