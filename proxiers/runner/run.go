package runner

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Run keeps one node as the API wants it, until ctx is done; then it returns nil. Rules stay. It makes the first pass
// when it knows all Services, EndpointSlices and its Node, and that one has its addresses. Errors are mistakes in the
// Config: whatever fails later is told in the log and in the reports, and tried again.
//
// A proxier that is an io.Closer is closed at the end.
func Run(ctx context.Context, c Config) error {
	if err := c.complete(); err != nil {
		return fmt.Errorf("run a proxier: %w", err)
	}
	e := newEngine(c)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	for _, s := range []server{
		{what: "metrics", address: c.Metrics, handler: e.metrics.handler(), clock: c.Clock, log: c.Log},
		{what: "health", address: c.Healthz, handler: e.health.handler(e.metrics.answered), clock: c.Clock, log: c.Log},
	} {
		wg.Go(func() { s.run(ctx) })
	}
	arrived := &arrival{}
	w, err := startWatch(ctx, c.Client, c.Node, e.sink(arrived), c.Log)
	if err != nil {
		return err
	}
	defer w.wait()
	defer cancel()
	if e.awaitStart(ctx, w, arrived) {
		e.loop(ctx)
	}
	if closer, ok := c.Proxier.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			c.Log.Warn("cannot close the proxier", "error", err)
		}
	}
	return nil
}

// arrival is what is known of the Node.
type arrival struct {
	mu   sync.Mutex
	node *corev1.Node
}

func (a *arrival) set(n *corev1.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node = n
}

// missing says what the Node lacks for a first pass.
func (a *arrival) missing(name string, withoutCIDRs bool) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node == nil {
		return []string{"a Node named " + name}
	}
	var what []string
	hasAddress := false
	for _, x := range a.node.Status.Addresses {
		hasAddress = hasAddress || x.Type == corev1.NodeInternalIP || x.Type == corev1.NodeExternalIP
	}
	if !hasAddress {
		what = append(what, "an address of the Node "+name)
	}
	if !withoutCIDRs && len(a.node.Spec.PodCIDRs) == 0 && a.node.Spec.PodCIDR == "" {
		what = append(what, "the pod CIDRs of the Node "+name)
	}
	return what
}

// sink passes objects on to the tracker and asks for a pass where they need one.
func (e *engine) sink(arrived *arrival) sink {
	changed := func(needed bool) {
		if needed {
			e.queue()
		}
	}
	return sink{
		service: func(s *corev1.Service, gone bool) {
			if gone {
				changed(e.tracker.DeleteService(s.Namespace, s.Name))
			} else {
				changed(e.tracker.SetService(s))
			}
		},
		slice: func(s *discoveryv1.EndpointSlice, gone bool) {
			if gone {
				changed(e.tracker.DeleteSlice(s.Namespace, s.Name))
			} else {
				changed(e.tracker.SetSlice(s))
			}
		},
		node: func(n *corev1.Node, gone bool) {
			if n.Name != e.Node {
				return
			}
			if gone {
				e.health.node(nil)
				return
			}
			arrived.set(n)
			e.health.node(n)
			changed(e.tracker.SetNode(n))
		},
	}
}

// awaitStart returns when a first pass makes sense, or false when ctx is done before. It says what it waits for when that
// changes, and every few seconds.
func (e *engine) awaitStart(ctx context.Context, w *watch, arrived *arrival) bool {
	const interval, tell = 10 * time.Millisecond, 5 * time.Second
	began := e.Clock.Now()
	var told time.Time
	text := ""
	for {
		missing := w.missing()
		if len(missing) == 0 {
			missing = arrived.missing(e.Node, e.NoPodCIDRs)
		}
		now := e.Clock.Now()
		if len(missing) == 0 {
			e.Log.Info("everything is known, first sync", "waited", now.Sub(began))
			return true
		}
		if t := strings.Join(missing, ", "); t != text || now.Sub(told) >= tell {
			told, text = now, t
			e.Log.Info("waiting for "+t, "since", now.Sub(began))
		}
		select {
		case <-ctx.Done():
			return false
		case <-e.Clock.After(interval):
		}
	}
}
