package services

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Tracker takes in API objects, in any order, and hands out Snapshots of what they ask of one node.
//
// An event costs what its object costs to read. A Snapshot costs what the Services cost that changed since the one
// before it, however many others there are.
//
// Its methods may be called from any goroutine.
type Tracker struct {
	mu    sync.Mutex
	node  Node
	start time.Time

	services map[name][]ServicePort // without endpoints
	slices   map[name]*slice
	of       map[name]map[string]*slice // the slices of a Service, by slice name
	dirty    map[name]struct{}          // Services to work out again

	keys    map[name][]Key // the ports of each Service
	ports   buffers
	changed map[Key]struct{} // since the acknowledged Snapshot
	full    bool             // the node itself changed, or nothing was synced yet

	generation uint64 // of the latest Snapshot
	stats      counters
	triggers   triggers
}

// NewTracker makes a Tracker for the node of that name. Trigger times of endpoint changes before start are ignored: those
// changes did not wait for this proxier.
func NewTracker(node string, start time.Time) *Tracker {
	return &Tracker{
		node: Node{Name: node}, start: start, full: true,
		services: map[name][]ServicePort{}, slices: map[name]*slice{}, of: map[name]map[string]*slice{},
		dirty: map[name]struct{}{}, keys: map[name][]Key{}, ports: newBuffers(), changed: map[Key]struct{}{},
		stats: newCounters(),
	}
}

// SetService takes in a new or updated Service. Like its siblings it returns whether there may be something to sync.
// The object is read, not kept.
func (t *Tracker) SetService(s *corev1.Service) bool {
	return t.setService(name{s.Namespace, s.Name}, portsOf(s))
}

// DeleteService takes in that a Service is gone.
func (t *Tracker) DeleteService(namespace, service string) bool {
	return t.setService(name{namespace, service}, nil)
}

func (t *Tracker) setService(n name, ports []ServicePort) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.serviceEvent()
	old := t.services[n]
	if slices.EqualFunc(old, ports, func(a, b ServicePort) bool { return a.Equal(&b) }) {
		return false
	}
	if len(ports) == 0 {
		delete(t.services, n)
	} else {
		t.services[n] = ports
	}
	t.dirty[n] = struct{}{}
	t.stats.serviceChanged(n)
	return true
}

// SetSlice takes in a new or updated EndpointSlice.
func (t *Tracker) SetSlice(s *discoveryv1.EndpointSlice) bool {
	return t.setSlice(name{s.Namespace, s.Name}, sliceOf(s), triggerTime(s))
}

// DeleteSlice takes in that an EndpointSlice is gone.
func (t *Tracker) DeleteSlice(namespace, slice string) bool {
	return t.setSlice(name{namespace, slice}, nil, time.Time{})
}

func (t *Tracker) setSlice(n name, s *slice, trigger time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.slices[n]
	if s == nil && old == nil {
		return false
	}
	t.stats.endpointEvent()
	if s.equal(old) {
		return false
	}
	needed := false
	if old != nil {
		delete(t.slices, n)
		delete(t.of[old.service], n.name)
		if len(t.of[old.service]) == 0 {
			delete(t.of, old.service)
		}
		needed = t.touch(old.service)
	}
	if s != nil {
		t.slices[n] = s
		if t.of[s.service] == nil {
			t.of[s.service] = map[string]*slice{}
		}
		t.of[s.service][n.name] = s
		needed = t.touch(s.service) || needed
	}
	if needed {
		t.stats.endpointChanged()
		t.trigger(old, s, trigger)
	}
	return needed
}

// touch marks a Service to be worked out again; a Service that is not there has nothing to work out.
func (t *Tracker) touch(service name) bool {
	_, there := t.services[service]
	if there {
		t.dirty[service] = struct{}{}
	}
	return there
}

// trigger notes when the change of a slice was caused. The annotation of a slice that is gone tells about an earlier
// change.
func (t *Tracker) trigger(old, s *slice, at time.Time) {
	switch {
	case s == nil:
		t.triggers.forget(old.service, old.family)
	case at.After(t.start):
		t.triggers.add(s.service, s.family, at)
	}
}

// SetNode takes in a new or updated Node; of other nodes than the Tracker's own it takes no notice. A change asks for a
// full pass. That a Node is gone is no event: the pods and the kernel of the node are still there.
func (t *Tracker) SetNode(n *corev1.Node) bool {
	node := nodeOf(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	if node.Name != t.node.Name || node.Equal(t.node) {
		return false
	}
	if node.Zone != t.node.Zone {
		for n := range t.services {
			t.dirty[n] = struct{}{}
		}
	}
	t.node, t.full = node, true
	return true
}

// Snapshot is the desired state now, and what of it changed since the Snapshot that was last acknowledged by Synced. A
// change that was handed out stays one until then, even if the API has meanwhile gone back: the sync that failed may
// have written it.
func (t *Tracker) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.ports.apply(t.settle()) {
		t.changed[k] = struct{}{}
	}
	t.generation++
	t.stats.handOut()
	t.triggers.handOut()
	return Snapshot{Node: t.node, Ports: t.ports.latest, Full: t.full, Changed: maps.Clone(t.changed), generation: t.generation}
}

// settle works out the dirty Services again and returns the ports that changed, nil for those that are gone.
func (t *Tracker) settle() map[Key]*ServicePort {
	changes := map[Key]*ServicePort{}
	for n := range t.dirty {
		for _, k := range t.keys[n] {
			changes[k] = nil
		}
		delete(t.keys, n)
		for _, port := range t.services[n] {
			p := port
			p.choose(candidates(p.Key, t.node.Name, t.of[n]), t.node)
			t.keys[n] = append(t.keys[n], p.Key)
			if p.Equal(t.ports.latest[p.Key]) {
				delete(changes, p.Key)
			} else {
				changes[p.Key] = &p
			}
		}
	}
	t.dirty = map[name]struct{}{} // not clear: a map that was once large stays slow to walk
	return changes
}

// Synced acknowledges that the node matches a Snapshot: what it said is no longer a change. It returns what caused the
// endpoint changes in it, to tell how long they took. Only the latest Snapshot can be acknowledged; others are ignored, so
// that their changes are kept.
func (t *Tracker) Synced(s Snapshot) []Trigger {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.generation != t.generation || s.generation == 0 {
		return nil
	}
	// What happened since waits in dirty and is compared with this Snapshot by the next.
	t.changed = map[Key]struct{}{}
	t.full = !t.node.Equal(s.Node)
	t.stats.acknowledge()
	return t.triggers.acknowledge()
}
