package probe

import (
	"fmt"
	"log/slog"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/load"
)

const (
	// A removed endpoint counts as gone when it has not answered for so long, and not one of so many probes. With
	// many endpoints each gets few of the probes, hence more are needed: with n endpoints, the chance that one
	// which is still in use gets none of settleShare*n probes is e^-settleShare, 1 in 22,000.
	settleTime   = time.Second
	settleProbes = 200
	settleShare  = 10

	// An endpoint that has not answered for so long is no longer taken to be one.
	forgetAfter = 30 * time.Second

	// refusedStreak is how many probes in a row must be refused: a single one may have met an endpoint that is gone.
	refusedStreak = 5
)

// result is what became of a probe.
type result struct {
	id         uint64
	start, end time.Time
	gap        time.Duration // since the probe before it was started
	pod        string        // who answered, be it with an error of its own; empty: nobody
	err        error         // why nobody answered
}

// tracker works out from commands and probes when the data path obeyed. It has no clock and no sockets: every
// moment comes in from outside, and all on one clock.
type tracker struct {
	spec Spec
	log  *slog.Logger

	pods        map[string]*history
	outstanding map[uint64]time.Time // probes under way -> when they were started
	changes     []*change
	waits       []*wait
	alert       time.Time // probe fast until then
	found       []events.Event
}

// history is what is known of a pod that answered.
type history struct {
	first, last result // by their start; first since it was last known to be no endpoint
}

// change is one pod's becoming or ceasing to be an endpoint, being looked out for.
type change struct {
	added bool
	pod   string
	at    time.Time

	// Removed: the start of the last probe that it answered, at first not known to be after at; and of the probes
	// started later, those that have ended.
	last   result
	later  int
	failed int64 // probes that nobody answered

	// Added: an answer counts only to a probe started since then.
	since time.Time
}

// wait is an await being looked out for.
type wait struct {
	what, id   string
	at, since  time.Time
	limit      time.Duration
	streak     int
	firstOfRow time.Time
}

func newTracker(s Spec, log *slog.Logger) *tracker {
	return &tracker{
		spec: s, log: log.With("service", s.Service),
		pods: map[string]*history{}, outstanding: map[uint64]time.Time{},
	}
}

// busy tells whether something is being looked out for.
func (t *tracker) busy(now time.Time) bool {
	return t.pending() || now.Before(t.alert)
}

func (t *tracker) pending() bool { return len(t.changes)+len(t.waits) > 0 }

// take returns what was found since it was last called.
func (t *tracker) take() []events.Event {
	found := t.found
	t.found = nil
	return found
}

// command takes one that was checked and read at now.
func (t *tracker) command(c Command, now time.Time) {
	at := now
	if !c.At.IsZero() {
		// From here on the monotonic clock counts, which no one sets.
		at = now.Add(-now.Round(0).Sub(c.At.Round(0)))
	}
	if c.Forget {
		t.changes = nil
	}
	for _, pod := range c.Removed {
		t.remove(pod, at)
	}
	for _, pod := range c.Added {
		t.add(pod, at)
	}
	if c.Await != "" {
		limit, _ := duration("limit", c.Limit)
		if limit == 0 {
			limit = t.spec.Limit
		}
		t.waits = append(t.waits, &wait{what: c.Await, id: c.ID, at: at, since: now, limit: limit})
	}
	if alert, _ := duration("alert", c.Alert); alert > 0 && now.Add(alert).After(t.alert) {
		t.alert = now.Add(alert)
	}
}

// add looks out for the first answer from a pod. The data path may have been faster than the command.
func (t *tracker) add(pod string, at time.Time) {
	c := &change{added: true, pod: pod, at: at}
	if removal := t.find(pod); removal != nil {
		if removal.added {
			return
		}
		// It is to be an endpoint again before it was seen to be none: whether it ever was none cannot be seen.
		t.log.Info("removal not measured: the pod was added again before it was gone", "pod", pod)
		t.drop(removal)
		c.since = at
		t.changes = append(t.changes, c)
		return
	}
	h := t.pods[pod]
	switch {
	case h == nil:
		t.changes = append(t.changes, c)
	case h.first.end.Before(at.Add(-clockSlack)):
		t.log.Info("addition not measured: the pod answered long before", "pod", pod, "before", at.Sub(h.first.end))
	default:
		t.appeared(c, h.first)
	}
}

// remove looks out for the last answer from a pod.
func (t *tracker) remove(pod string, at time.Time) {
	if addition := t.find(pod); addition != nil {
		if !addition.added {
			return
		}
		t.log.Info("addition not measured: the pod was removed again before it answered", "pod", pod)
		t.drop(addition)
	}
	h := t.pods[pod]
	if h == nil {
		t.log.Info("removal not measured: the pod never answered", "pod", pod)
		return
	}
	t.changes = append(t.changes, &change{pod: pod, at: at, last: h.last})
}

func (t *tracker) find(pod string) *change {
	for _, c := range t.changes {
		if c.pod == pod {
			return c
		}
	}
	return nil
}

func (t *tracker) drop(gone *change) {
	for i, c := range t.changes {
		if c == gone {
			t.changes = append(t.changes[:i:i], t.changes[i+1:]...)
			return
		}
	}
}

// started notes that a probe is under way.
func (t *tracker) started(id uint64, at time.Time) { t.outstanding[id] = at }

// ended takes the outcome of a probe.
func (t *tracker) ended(r result) {
	delete(t.outstanding, r.id)
	answered := r.pod != ""
	if answered {
		t.answered(r)
	}
	for _, c := range t.changes {
		if !answered && r.start.After(c.at) {
			c.failed++
		}
		if c.added || r.pod == c.pod {
			continue
		}
		if r.start.After(c.at) && r.start.After(c.last.start) {
			c.later++
		}
	}
	for _, w := range t.waits {
		w.ended(r, answered)
	}
}

// answered notes an answer in the history, and with the changes of its pod.
func (t *tracker) answered(r result) {
	h := t.pods[r.pod]
	if h == nil {
		h = &history{first: r, last: r}
		t.pods[r.pod] = h
	}
	if r.start.After(h.last.start) {
		h.last = r
	}
	c := t.find(r.pod)
	switch {
	case c == nil:
	case !c.added && r.start.After(c.last.start):
		c.last, c.later = r, 0
	case c.added && !r.start.Before(c.since):
		h.first = r
		t.drop(c)
		t.appeared(c, r)
	}
}

// advance looks at what time alone decides. It is called often.
func (t *tracker) advance(now time.Time) {
	for _, c := range append([]*change(nil), t.changes...) {
		switch {
		case c.added && now.Sub(c.at) >= t.spec.Limit:
			t.drop(c)
			t.sample(c, t.spec.Limit, t.spacing(now), "it did not answer within "+t.spec.Limit.String())
		case c.added:
		case c.last.start.Sub(c.at) >= t.spec.Limit:
			t.drop(c)
			t.sample(c, t.spec.Limit, c.last.gap, "it still answered after "+t.spec.Limit.String())
		case t.settled(c, now):
			t.drop(c)
			t.sample(c, c.last.start.Sub(c.at), c.last.gap, "")
			delete(t.pods, c.pod)
		}
	}
	waits := t.waits[:0]
	for _, w := range t.waits {
		if e, done := w.result(now); done {
			e.Service = t.spec.Service
			t.found = append(t.found, events.Event{Time: now.UTC(), Awaited: &e})
			continue
		}
		waits = append(waits, w)
	}
	t.waits = waits
	for pod, h := range t.pods {
		if now.Sub(h.last.start) > forgetAfter && t.find(pod) == nil {
			delete(t.pods, pod)
		}
	}
}

// settled tells whether a removed pod has not answered for long enough.
func (t *tracker) settled(c *change, now time.Time) bool {
	from := c.at
	if c.last.start.After(from) {
		from = c.last.start
	}
	if now.Sub(from) < settleTime || c.later < max(settleProbes, settleShare*t.endpoints()) {
		return false
	}
	for _, start := range t.outstanding {
		if start.After(from) && start.Before(from.Add(settleTime)) {
			return false // it may yet be the pod that answers this one
		}
	}
	return true
}

// appeared reports the first answer of an added pod.
func (t *tracker) appeared(c *change, first result) {
	t.sample(c, first.end.Sub(c.at), first.gap, "")
}

// sample reports one. What obeyed before the change was known to be committed took no time.
func (t *tracker) sample(c *change, took, gap time.Duration, failure string) {
	what := "removed"
	if c.added {
		what = "added"
	}
	if took < 0 {
		took = 0
	}
	t.found = append(t.found, events.Event{Time: c.at.Add(took).UTC(), Programming: &events.Programming{
		Service: t.spec.Service, Change: what, Endpoint: c.pod, Seconds: took.Seconds(),
		ResolutionSeconds: gap.Seconds() * float64(t.endpoints()),
		Error:             failure, FailedProbes: c.failed,
	}})
}

// endpoints is how many pods answer at present, at least 1.
func (t *tracker) endpoints() int { return max(1, len(t.pods)) }

// spacing is that of the probes at present.
func (t *tracker) spacing(now time.Time) time.Duration {
	if t.busy(now) {
		return t.spec.BusyInterval
	}
	return t.spec.IdleInterval
}

// ended takes the outcome of a probe that was started after the wait was asked for.
func (w *wait) ended(r result, answered bool) {
	if r.start.Before(w.since) {
		return
	}
	if w.what == AwaitAny {
		if answered && (w.streak == 0 || r.end.Before(w.firstOfRow)) {
			w.streak, w.firstOfRow = 1, r.end
		}
		return
	}
	if answered || load.ErrorKind(r.err) != load.Refused {
		w.streak = 0
		return
	}
	if w.streak == 0 {
		w.firstOfRow = r.end
	}
	w.streak++
}

// result tells whether the wait is over, and how it ended.
func (w *wait) result(now time.Time) (e events.Awaited, done bool) {
	need := 1
	if w.what == AwaitRefused {
		need = refusedStreak
	}
	e = events.Awaited{ID: w.id, What: w.what}
	switch {
	case w.streak >= need:
		e.Seconds = w.firstOfRow.Sub(w.at).Seconds()
	case now.Sub(w.since) >= w.limit:
		e.Seconds = w.limit.Seconds()
		e.Error = fmt.Sprintf("not seen within %v", w.limit)
	default:
		return e, false
	}
	return e, true
}
