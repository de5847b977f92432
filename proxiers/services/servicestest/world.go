// Package servicestest draws random Kubernetes objects for the property tests of proxiers: a small cluster to which things
// happen, seen through a services.Tracker by increments and from scratch.
package servicestest

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"

	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

// Node is the name of the node that the tracker works for.
const Node = "node1"

// Event is something that happens to one object.
type Event func(*World)

// World is what the API holds, and a tracker that was told of each event.
type World struct {
	*services.Tracker
	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
	node     *corev1.Node
}

// New returns a cluster with a node and nothing else.
func New() *World {
	w := &World{Tracker: services.NewTracker(Node, time.Unix(1e9, 0)),
		services: map[string]*corev1.Service{}, slices: map[string]*discoveryv1.EndpointSlice{}}
	w.setNode(node("", true))
	return w
}

// Pass syncs as the runner does: the changes are kept where sync fails.
func (w *World) Pass(full bool, sync func(context.Context, services.Snapshot) (runner.SyncReport, error)) error {
	want := w.Snapshot()
	want.Full = want.Full || full
	_, err := sync(context.Background(), want)
	if err == nil {
		w.Synced(want)
	}
	return err
}

// FromScratch is the snapshot of a tracker that is told only of what there is now.
func (w *World) FromScratch() services.Snapshot {
	t := services.NewTracker(Node, time.Unix(1e9, 0))
	t.SetNode(w.node)
	for _, s := range w.services {
		t.SetService(s)
	}
	for _, s := range w.slices {
		t.SetSlice(s)
	}
	return t.Snapshot()
}

func (w *World) setNode(n *corev1.Node) {
	w.node = n
	w.SetNode(n)
}

// Do has events happen.
func (w *World) Do(events []Event) {
	for _, e := range events {
		e(w)
	}
}

// Events draws what happens between two passes of a proxier.
func Events() *rapid.Generator[[]Event] { return rapid.SliceOfN(rapid.Custom(drawEvent), 0, 6) }

// Rounds draws what happens between a number of passes.
func Rounds(least, most int) *rapid.Generator[[][]Event] {
	return rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(drawEvent), 1, 6), least, most)
}

func drawEvent(t *rapid.T) Event {
	switch what := rapid.IntRange(0, 19).Draw(t, "what"); {
	case what == 0:
		n := node(rapid.SampledFrom([]string{"", "zone1", "zone2"}).Draw(t, "zone"), rapid.IntRange(0, 3).Draw(t, "cidr") > 0)
		return func(w *World) { w.setNode(n) }
	case what < 3:
		name := serviceName(rapid.IntRange(0, serviceCount-1).Draw(t, "gone"))
		return func(w *World) { delete(w.services, name); w.DeleteService(namespace, name) }
	case what < 5:
		name := sliceName(rapid.IntRange(0, sliceCount-1).Draw(t, "gone"))
		return func(w *World) { delete(w.slices, name); w.DeleteSlice(namespace, name) }
	case what < 11:
		s := drawService(t)
		return func(w *World) { w.services[s.Name] = s; w.SetService(s) }
	}
	s := drawSlice(t)
	return func(w *World) { w.slices[s.Name] = s; w.SetSlice(s) }
}
