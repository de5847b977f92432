package plane

import "maps"

// totals carries counters over the end of an instance, whose successor counts from 0.
type totals struct {
	base map[string]map[string]Counters // balancer, listener: of instances that ended
	last map[string]map[string]Counters // the same, as published last
}

func newTotals() totals {
	return totals{base: map[string]map[string]Counters{}, last: map[string]map[string]Counters{}}
}

// add returns s with the counters of earlier instances added.
func (t totals) add(s Status) Status {
	s.Listeners = maps.Clone(s.Listeners)
	for id, c := range s.Listeners {
		b := t.base[s.ID][id]
		c.TotalConnections += b.TotalConnections
		c.BytesIn += b.BytesIn
		c.BytesOut += b.BytesOut
		c.RequestErrors += b.RequestErrors
		s.Listeners[id] = c
	}
	t.last[s.ID] = s.Listeners
	return s
}

func (t totals) instanceEnded() {
	for id, listeners := range t.last {
		t.base[id] = listeners
	}
}

func (t totals) forget(balancer string) {
	delete(t.base, balancer)
	delete(t.last, balancer)
}
