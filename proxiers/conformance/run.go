package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config says what to try.
type Config struct {
	Cluster  Cluster
	Proxiers []Proxier // in this order
	Rows     []Row
	// Parallel is how many rows that need not be alone are tried at the same time.
	Parallel int
	// Kills is how often the row that kills the proxier does so.
	Kills int
	// Patience is how long to wait on this kernel for what takes d at most on an ordinary one; nil: as long.
	Patience func(d time.Duration) time.Duration
	// Done is told each result as it comes; it is called by one goroutine at a time.
	Done func(Result)
	// Rules gets the nodes' rules when a row fails with a native proxier; nil: nobody wants them.
	Rules io.Writer
	Log   *slog.Logger
}

// startLimit bounds the start of a proxier, cleanLimit what must be done after the run was told to end.
const (
	startLimit = 2 * time.Minute
	cleanLimit = 30 * time.Second
)

// run is one run of the table.
type run struct {
	Config
	world    *world
	sentinel *sentinel

	mu      sync.Mutex
	results []Result
	serial  int
}

// Run tries each row with each proxier and returns what was found, also when ctx ends before: then with its error.
// Other errors are about the lab.
func Run(ctx context.Context, c Config) ([]Result, error) {
	if c.Patience == nil {
		c.Patience = func(d time.Duration) time.Duration { return d }
	}
	r := &run{Config: c}
	if err := Check(c.Rows); err != nil {
		return nil, err
	}
	setUp, cancel := context.WithTimeoutCause(ctx, c.Patience(startLimit), errors.New("not in time"))
	defer cancel()
	world := newWorld(c.Cluster)
	r.world = world
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Patience(cleanLimit))
		defer cancel()
		if err := world.close(ctx); err != nil {
			c.Log.Warn("cannot remove what was set up in the lab", "error", err)
		}
	}()
	if err := world.make(setUp); err != nil {
		return nil, fmt.Errorf("set the lab up for conformance: %w", err)
	}
	var err error
	if r.sentinel, err = newSentinel(setUp, world, c.Patience); err != nil {
		return nil, fmt.Errorf("set the lab up for conformance: %w", err)
	}
	r.sentinel.service.ctx = ctx
	for _, p := range c.Proxiers {
		if ctx.Err() != nil {
			break
		}
		r.try(ctx, p)
	}
	return r.results, ctx.Err()
}

// try tries all rows with one proxier.
func (r *run) try(ctx context.Context, p Proxier) {
	began := time.Now()
	defer r.leave(ctx, p)
	if err := r.start(ctx, p); err != nil {
		r.refuse(ctx, p, err)
		return
	}
	r.Log.Info("proxier is up on both nodes", "proxier", p.Name, "seconds", time.Since(began).Seconds())
	g := new(errgroup.Group)
	g.SetLimit(max(r.Parallel, 1))
	for _, row := range r.Rows {
		if !row.Alone && r.applies(row, p) {
			g.Go(func() error {
				r.one(ctx, row, p)
				return nil
			})
		}
	}
	_ = g.Wait() // none returns an error
	for _, row := range r.Rows {
		if !row.Alone || !r.applies(row, p) || ctx.Err() != nil {
			continue
		}
		if holds := r.one(ctx, row, p); holds {
			continue
		}
		// What a row that had the proxier to itself left behind is no fault of the next.
		if err := r.restart(ctx, p); err != nil && ctx.Err() == nil {
			r.Log.Warn("cannot start the proxier anew after a row that failed", "proxier", p.Name, "row", row.ID(), "error", err)
		}
	}
	r.Log.Info("proxier is done", "proxier", p.Name, "seconds", time.Since(began).Seconds())
}

// onNodes does the same on both nodes at once.
func (r *run) onNodes(ctx context.Context, limit time.Duration, f func(ctx context.Context, node string) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.Patience(limit))
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range r.world.nodes {
		g.Go(func() error { return f(ctx, n.Name) })
	}
	return g.Wait()
}

func (r *run) start(ctx context.Context, p Proxier) error {
	err := r.onNodes(ctx, startLimit, func(ctx context.Context, node string) error { return r.Cluster.Start(ctx, node, p) })
	if err != nil {
		return err
	}
	return r.sentinel.settle(ctx)
}

func (r *run) restart(ctx context.Context, p Proxier) error {
	if err := r.onNodes(ctx, cleanLimit, r.Cluster.Stop); err != nil {
		return err
	}
	return r.start(ctx, p)
}

// leave stops the proxier and removes its rules, also after an interruption.
func (r *run) leave(ctx context.Context, p Proxier) {
	err := r.onNodes(context.WithoutCancel(ctx), cleanLimit, func(ctx context.Context, node string) error {
		if err := r.Cluster.Stop(ctx, node); err != nil {
			return err
		}
		left, err := r.Cluster.Cleanup(ctx, node, p)
		if len(left) > 0 {
			r.Log.Warn("the proxier left something behind", "proxier", p.Name, "node", node, "what", strings.Join(left, ", "))
		}
		return err
	})
	if err != nil {
		r.Log.Warn("cannot clean up after the proxier", "proxier", p.Name, "error", err)
	}
}

// applies says whether a row is to be tried, and tells where not.
func (r *run) applies(row Row, p Proxier) bool {
	why, not := row.NotApplicable[p.Mode]
	if not {
		r.tell(Result{Area: row.Area, Behaviour: row.Name, Proxier: p.Name, Detail: why})
	}
	return !not
}

// refuse tells of every row that it does not hold because the proxier does not start.
func (r *run) refuse(ctx context.Context, p Proxier, err error) {
	if ctx.Err() != nil {
		return
	}
	for _, row := range r.Rows {
		if r.applies(row, p) {
			r.tell(Result{Area: row.Area, Behaviour: row.Name, Proxier: p.Name, Holds: new(bool),
				Detail: "the proxier does not start: " + err.Error()})
		}
	}
}

func (r *run) tell(result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, result)
	if r.Done != nil {
		r.Done(result)
	}
}

// one tries one row, and says whether it holds or does not apply. A trial that an interruption cut short tells nothing.
func (r *run) one(ctx context.Context, row Row, p Proxier) bool {
	if ctx.Err() != nil {
		return true
	}
	began := time.Now()
	limit := r.Patience(row.limit())
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the row took longer than %s", limit))
	defer cancel()
	t := r.trial(limited, row, p)
	if err := ensureNamespace(limited, r.Cluster, t.namespace); err != nil {
		t.Errorf("%v", err)
	} else {
		t.perform(row.Run)
	}
	if len(t.failures) > 0 && p.Native && r.Rules != nil && ctx.Err() == nil {
		r.dump(limited, row, p)
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Patience(cleanLimit))
	defer cancel()
	if err := errors.Join(t.undo.run(clean), r.removeNamespace(clean, t.namespace)); err != nil {
		r.Log.Warn("cannot undo all of a row", "row", row.ID(), "proxier", p.Name, "error", err)
	}
	if ctx.Err() != nil {
		return true
	}
	result := judge(row, p, t.failures, t.why)
	result.Seconds = time.Since(began).Seconds()
	r.tell(result)
	return result.Holds == nil || *result.Holds
}

func (r *run) trial(ctx context.Context, row Row, p Proxier) *T {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serial++
	return &T{
		ctx: ctx, proxier: p, world: r.world, sentinel: r.sentinel, kills: r.Kills, patience: r.Patience, routed: map[netip.Addr]bool{},
		namespace: fmt.Sprintf("conformance-%d", r.serial), log: r.Log.With("proxier", p.Name, "row", row.ID()),
	}
}

// perform runs the row in a goroutine that it may end at any point.
func (t *T) perform(f func(*T)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("the row panics: %v", p)
			}
		}()
		f(t)
	}()
	<-done
}

func (r *run) removeNamespace(ctx context.Context, name string) error {
	err := r.Cluster.Client().CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return nil
}

func (r *run) dump(ctx context.Context, row Row, p Proxier) {
	for _, node := range []string{Node1, Node2} {
		text := ruleset(ctx, r.world, node)
		r.mu.Lock()
		fmt.Fprintf(r.Rules, "# rules as %q fails with %s\n%s\n", row.ID(), p.Name, text)
		r.mu.Unlock()
	}
}
