package services

import (
	"slices"
	"time"
)

// Stats counts events, as kube-proxy's metrics of the same names do.
type Stats struct {
	ServiceChangesTotal    int // events about Services
	ServiceChangesPending  int // Services changed and not yet synced
	EndpointChangesTotal   int // events about EndpointSlices
	EndpointChangesPending int // changes of EndpointSlices not yet synced
}

// Stats returns the counts so far.
func (t *Tracker) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats.Stats
	for n := range t.stats.servicesHanded {
		if _, again := t.stats.services[n]; !again {
			s.ServiceChangesPending++
		}
	}
	s.ServiceChangesPending += len(t.stats.services)
	s.EndpointChangesPending = t.stats.endpoints + t.stats.endpointsHanded
	return s
}

// counters keeps what came after the latest Snapshot apart from what is in it.
type counters struct {
	Stats
	services, servicesHanded   map[name]struct{}
	endpoints, endpointsHanded int
}

func newCounters() counters {
	return counters{services: map[name]struct{}{}, servicesHanded: map[name]struct{}{}}
}

func (c *counters) serviceEvent()         { c.ServiceChangesTotal++ }
func (c *counters) serviceChanged(n name) { c.services[n] = struct{}{} }
func (c *counters) endpointEvent()        { c.EndpointChangesTotal++ }
func (c *counters) endpointChanged()      { c.endpoints++ }

func (c *counters) handOut() {
	for n := range c.services {
		c.servicesHanded[n] = struct{}{}
	}
	c.services = map[name]struct{}{}
	c.endpointsHanded += c.endpoints
	c.endpoints = 0
}

func (c *counters) acknowledge() {
	c.servicesHanded = map[name]struct{}{}
	c.endpointsHanded = 0
}

// Trigger is when the cause of an endpoint change happened, as the EndpointSlice controller noted it.
type Trigger struct {
	Family Family
	Time   time.Time
}

type trigger struct {
	service name
	Trigger
}

type triggers struct{ fresh, handed []trigger }

func (t *triggers) add(service name, f Family, at time.Time) {
	t.fresh = append(t.fresh, trigger{service, Trigger{f, at}})
}

// forget drops what is not handed out yet of a Service.
func (t *triggers) forget(service name, f Family) {
	t.fresh = slices.DeleteFunc(t.fresh, func(x trigger) bool { return x.service == service && x.Family == f })
}

func (t *triggers) handOut() {
	t.handed = append(t.handed, t.fresh...)
	t.fresh = nil
}

func (t *triggers) acknowledge() []Trigger {
	var out []Trigger
	for _, x := range t.handed {
		out = append(out, x.Trigger)
	}
	t.handed = nil
	return out
}
