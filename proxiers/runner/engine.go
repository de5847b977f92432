package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/proxiers/services"
)

// passLimit bounds one pass. It is far beyond what any takes (the slowest seen, iptables-nft with 10,000 Services, needs
// minutes) and only keeps a hung tool from holding the node for ever.
const passLimit = 10 * time.Minute

// engine syncs the node whenever that is due.
type engine struct {
	Config
	tracker  *services.Tracker
	schedule schedule
	health   *health
	metrics  *metrics
	checks   *checkPorts
	changed  chan struct{} // capacity 1: something may have changed
	cpu      func() float64
	cpuSoFar float64
}

func newEngine(c Config) *engine {
	_, checker := c.Proxier.(Checker)
	e := &engine{
		Config:   c,
		tracker:  services.NewTracker(c.Node, c.Clock.Now()),
		schedule: schedule{min: c.MinSyncPeriod, period: c.SyncPeriod, full: c.FullSyncPeriod, checker: checker},
		health:   newHealth(c.Clock, 2*c.SyncPeriod),
		changed:  make(chan struct{}, 1),
		cpu:      cpuSeconds,
	}
	e.metrics = newMetrics(c.Mode, e.tracker)
	e.checks = newCheckPorts(e.health.ok, c.Clock, c.Log)
	return e
}

// queue asks for a pass; it never blocks.
func (e *engine) queue() {
	e.health.queued()
	e.metrics.lastQueued.SetToCurrentTime()
	select {
	case e.changed <- struct{}{}:
	default: // asked already
	}
}

// loop does what is due until ctx is done.
func (e *engine) loop(ctx context.Context) {
	defer e.checks.close()
	for ctx.Err() == nil {
		at, what := e.schedule.next()
		if wait := at.Sub(e.Clock.Now()); wait > 0 {
			e.rest(ctx, wait)
		} else {
			e.do(ctx, what)
		}
	}
}

// rest waits for the time to pass or for a change.
func (e *engine) rest(ctx context.Context, d time.Duration) {
	timer := e.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-e.changed:
		e.schedule.queued = true
	case <-timer.C():
	}
}

func (e *engine) do(ctx context.Context, what action) {
	switch what {
	case look:
		e.look(ctx)
	case syncAll:
		e.pass(ctx, true)
	default:
		e.pass(ctx, false)
	}
}

// look asks the proxier whether its rules are still there.
func (e *engine) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	intact, err := e.Proxier.(Checker).Intact(ctx)
	e.schedule.looked = e.Clock.Now()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		e.Log.Warn("cannot tell whether the rules are still there", "error", err)
	} else if !intact {
		e.Log.Warn("somebody else removed rules of this proxier; writing them again")
		e.schedule.lost = true
		e.metrics.lost.Inc()
		e.health.queued()
	}
}

// pass syncs once, and keeps the changes where that fails.
func (e *engine) pass(ctx context.Context, full bool) {
	e.schedule.queued = false
	e.health.began()
	want := e.tracker.Snapshot()
	want.Full = want.Full || full
	if !want.Full && len(want.Changed) == 0 {
		e.done(ctx, want) // the events came to nothing
		return
	}
	limited, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	began := e.Clock.Now()
	did, err := e.Proxier.Sync(limited, want)
	ended := e.Clock.Now()
	if err != nil && ctx.Err() != nil {
		return // told to stop in the middle: no measurement, and no failure
	}
	e.schedule.passed(ended, want.Full, err == nil)
	e.report(did, ended, ended.Sub(began), err)
	e.metrics.pass(did, ended.Sub(began), err)
	if err != nil {
		e.Log.Error("sync failed; its changes are kept", "error", err, "failures", e.schedule.failures, "retry", e.schedule.backoff())
		return
	}
	e.done(ctx, want)
	if want.Full && e.FirstSynced != nil {
		e.FirstSynced(limited)
		e.FirstSynced = nil
	}
	e.Log.Debug("synced", "full", did.Full, "changed", len(want.Changed), "seconds", ended.Sub(began).Seconds())
}

// done acknowledges what the node now matches.
func (e *engine) done(ctx context.Context, want services.Snapshot) {
	now := e.Clock.Now()
	e.checks.update(ctx, want)
	for _, t := range e.tracker.Synced(want) {
		e.metrics.programmed(t.Family, now.Sub(t.Time))
	}
	e.health.updated()
	e.metrics.lastSynced.Set(float64(now.UnixNano()) / 1e9)
}

// report writes the JSON line of a pass.
func (e *engine) report(did SyncReport, at time.Time, took time.Duration, err error) {
	total := e.cpu()
	r := Report{Time: at, Full: did.Full, Seconds: took.Seconds(), CPUSeconds: total - e.cpuSoFar, Objects: did.Objects,
		Proxier: e.Name}
	e.cpuSoFar = total
	if b, ok := e.Proxier.(Backender); ok {
		r.Backend = b.Backend()
	}
	if err != nil {
		r.Error = err.Error()
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = e.Reports.Write(append(line, '\n'))
	}
	if err != nil {
		e.Log.Warn("cannot report a sync", "error", fmt.Errorf("write the report: %w", err))
	}
}

// cpuSeconds is the user and system time of this process and of its children that were waited for.
func cpuSeconds() float64 {
	var total float64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			continue // only a wrong argument makes it fail
		}
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	return total
}
