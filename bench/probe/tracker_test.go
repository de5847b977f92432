package probe

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sort"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"proxylab/bench/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a simulated Service: a data path whose truth is known, and a clock that the test turns.
type world struct {
	now     time.Time
	rng     *rand.Rand
	backs   map[string]bool // who gets traffic, in truth
	refuses bool            // nobody there: refused (or else lost)
	t       *tracker
	id      uint64
	last    time.Time
	flying  []result // by end
	found   []events.Event
	latency func() time.Duration
	planned []plan
}

// plan is something that happens in the world later.
type plan struct {
	at time.Time
	do func()
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{now: time.Unix(1_000_000, 0), rng: rng, backs: map[string]bool{}, refuses: true}
	w.latency = func() time.Duration { return time.Duration(200+rng.IntN(800)) * time.Microsecond }
	spec := Spec{Service: "default/web", Target: "10.0.0.1:80", Kind: "http"}.withDefaults()
	w.t = newTracker(spec, slog.New(slog.NewTextHandler(io.Discard, nil)))
	w.last = w.now
	return w
}

func (w *world) after(d time.Duration, do func()) {
	w.planned = append(w.planned, plan{w.now.Add(d), do})
}

// run turns the clock from one thing that happens to the next.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.next(end) {
		for i := 0; i < len(w.planned); i++ {
			if p := w.planned[i]; !p.at.After(w.now) {
				w.planned = append(w.planned[:i], w.planned[i+1:]...)
				i--
				p.do()
			}
		}
		for len(w.flying) > 0 && !w.flying[0].end.After(w.now) {
			r := w.flying[0]
			w.flying = w.flying[1:]
			w.t.ended(r)
		}
		if gap := w.now.Sub(w.last); gap >= w.t.spacing(w.now) {
			w.start(gap)
		}
		w.t.advance(w.now)
		w.found = append(w.found, w.t.take()...)
	}
}

// next is when something happens next.
func (w *world) next(end time.Time) time.Time {
	next := end
	earlier := func(t time.Time) {
		if t.Before(next) && t.After(w.now) {
			next = t
		}
	}
	for _, p := range w.planned {
		earlier(p.at)
	}
	if len(w.flying) > 0 {
		earlier(w.flying[0].end)
	}
	earlier(w.last.Add(w.t.spacing(w.now)))
	return next
}

// start starts a probe; what becomes of it is decided now.
func (w *world) start(gap time.Duration) {
	w.id++
	w.last = w.now
	r := result{id: w.id, start: w.now, gap: gap, end: w.now.Add(w.latency())}
	var names []string
	for name, on := range w.backs {
		if on {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	switch {
	case len(names) > 0:
		r.pod = names[w.rng.IntN(len(names))]
	case w.refuses:
		r.err = syscall.ECONNREFUSED
	default:
		r.err, r.end = syscall.ETIMEDOUT, w.now.Add(time.Second)
	}
	w.t.started(r.id, r.start)
	i := sort.Search(len(w.flying), func(i int) bool { return w.flying[i].end.After(r.end) })
	w.flying = append(w.flying[:i:i], append([]result{r}, w.flying[i:]...)...)
}

func (w *world) command(c Command) { w.t.command(c, w.now) }

// samples returns what was found about a pod.
func (w *world) samples(pod, change string) (found []events.Programming) {
	for _, e := range w.found {
		if p := e.Programming; p != nil && p.Endpoint == pod && p.Change == change {
			found = append(found, *p)
		}
	}
	return found
}

// Whatever the number of endpoints, however long the data path takes, and whenever the command arrives: one sample
// per change, near the truth within what its resolution says.
func TestSamplesAreNearTheTruth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(rt, "seed"))
		ms := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(rt, name)) * time.Millisecond
		}
		stay := rapid.IntRange(0, 12).Draw(rt, "staying")
		for i := range stay {
			w.backs[fmt.Sprintf("stay-%d", i)] = true
		}
		type truth struct {
			pod, change string
			delay       time.Duration
		}
		var truths []truth
		leaving, coming := rapid.IntRange(0, 3).Draw(rt, "leaving"), rapid.IntRange(0, 3).Draw(rt, "coming")
		for i := range leaving {
			w.backs[fmt.Sprintf("leave-%d", i)] = true
		}
		w.run(4 * time.Second) // every pod answered at least once, at 50 ms
		at := w.now
		c := Command{At: at}
		for i := range leaving {
			x := truth{fmt.Sprintf("leave-%d", i), "removed", ms("delay", 2000)}
			truths, c.Removed = append(truths, x), append(c.Removed, x.pod)
			w.after(x.delay, func() { w.backs[x.pod] = false })
		}
		for i := range coming {
			x := truth{fmt.Sprintf("come-%d", i), "added", ms("delay", 2000)}
			truths, c.Added = append(truths, x), append(c.Added, x.pod)
			w.after(x.delay, func() { w.backs[x.pod] = true })
		}
		if len(truths) == 0 {
			return
		}
		w.after(ms("command after", 100), func() { w.command(c) })
		w.run(15 * time.Second)
		for _, x := range truths {
			got := w.samples(x.pod, x.change)
			if len(got) != 1 || got[0].Error != "" {
				rt.Fatalf("%+v: %+v", x, got)
			}
			// The chance to be missed by 14 times the resolution is e^-14.
			slack := 14*got[0].ResolutionSeconds + 0.002
			off := got[0].Seconds - x.delay.Seconds()
			if x.change == "removed" {
				off = -off
			}
			if off < -0.0011 || off > slack {
				rt.Fatalf("%+v: %+v: off by %v s, at most %v", x, got[0], off, slack)
			}
		}
		if n := len(w.found); n != len(truths) || w.t.pending() {
			rt.Fatalf("%d found, want %d; pending: %v", n, len(truths), w.t.pending())
		}
	})
}

func TestLimits(t *testing.T) {
	w := newWorld(1)
	w.backs["old"] = true
	w.run(time.Second)
	w.command(Command{At: w.now, Added: []string{"new"}, Removed: []string{"old"}})
	w.run(20 * time.Second)
	for pod, change := range map[string]string{"old": "removed", "new": "added"} {
		got := w.samples(pod, change)
		if len(got) != 1 || got[0].Error == "" || got[0].Seconds != 15 || got[0].ResolutionSeconds <= 0 {
			t.Errorf("%s: %+v", change, got)
		}
	}
	if w.t.pending() {
		t.Error("still looking out")
	}
}

func TestObeyedBeforeTheCommand(t *testing.T) {
	w := newWorld(1)
	w.backs["a"], w.backs["b"] = true, true
	w.run(3 * time.Second)
	at := w.now
	w.backs["b"], w.backs["c"] = false, true
	w.run(600 * time.Millisecond) // the command is slow
	w.command(Command{At: at, Added: []string{"c"}, Removed: []string{"b"}})
	w.run(5 * time.Second)
	added, removed := w.samples("c", "added"), w.samples("b", "removed")
	if len(added) != 1 || added[0].Seconds > 0.6 || added[0].Error != "" {
		t.Errorf("added: %+v", added)
	}
	if len(removed) != 1 || removed[0].Seconds != 0 || removed[0].Error != "" {
		t.Errorf("removed: %+v", removed)
	}
}

func TestWhatCannotBeMeasuredIsAbsent(t *testing.T) {
	w := newWorld(1)
	w.backs["a"] = true
	w.run(5 * time.Second)
	w.command(Command{At: w.now, Added: []string{"a"}})            // it has answered for long
	w.command(Command{At: w.now, Removed: []string{"never-seen"}}) //
	w.command(Command{At: w.now, Added: []string{"short-lived"}})
	w.run(100 * time.Millisecond)
	w.command(Command{At: w.now, Removed: []string{"short-lived"}})
	w.run(20 * time.Second)
	if len(w.found) != 0 || w.t.pending() {
		t.Errorf("found %+v", w.found)
	}
}

func TestForget(t *testing.T) {
	w := newWorld(1)
	w.backs["a"], w.backs["b"] = true, true
	w.run(3 * time.Second)
	w.command(Command{At: w.now, Added: []string{"c"}, Removed: []string{"b"}, Await: AwaitRefused})
	w.command(Command{Forget: true})
	w.run(20 * time.Second)
	if len(w.found) != 1 || w.found[0].Awaited == nil || w.t.pending() {
		t.Errorf("%+v", w.found)
	}
}

func TestSamePodAgain(t *testing.T) {
	w := newWorld(1)
	w.backs["a"], w.backs["b"] = true, true
	w.run(2 * time.Second)
	for round := range 3 {
		w.command(Command{At: w.now, Removed: []string{"b"}})
		w.command(Command{At: w.now, Removed: []string{"b"}}) // said twice
		w.after(200*time.Millisecond, func() { w.backs["b"] = false })
		w.run(4 * time.Second)
		w.command(Command{At: w.now, Added: []string{"b"}})
		w.after(300*time.Millisecond, func() { w.backs["b"] = true })
		w.run(4 * time.Second)
		removed, added := w.samples("b", "removed"), w.samples("b", "added")
		if len(removed) != round+1 || len(added) != round+1 {
			t.Fatalf("round %d: %+v, %+v", round, removed, added)
		}
		if s := removed[round].Seconds; s < 0.1 || s > 0.201 {
			t.Errorf("round %d: removed after %v", round, s)
		}
		if s := added[round].Seconds; s < 0.3 || s > 0.4 {
			t.Errorf("round %d: added after %v", round, s)
		}
	}
}

func TestAddedAgainBeforeItWasGone(t *testing.T) {
	w := newWorld(1)
	w.backs["a"], w.backs["b"] = true, true
	w.run(2 * time.Second)
	w.command(Command{At: w.now, Removed: []string{"b"}})
	w.after(100*time.Millisecond, func() { w.backs["b"] = false })
	w.run(500 * time.Millisecond)
	w.command(Command{At: w.now, Added: []string{"b"}})
	w.after(250*time.Millisecond, func() { w.backs["b"] = true })
	w.run(3 * time.Second)
	added := w.samples("b", "added")
	if len(w.found) != 1 || len(added) != 1 || added[0].Seconds < 0.25 || added[0].Seconds > 0.35 {
		t.Errorf("%+v", w.found)
	}
}

// A probe that takes long may still be answered by the removed pod: nothing is declared before it has ended.
func TestSlowProbesAreWaitedFor(t *testing.T) {
	w := newWorld(1)
	w.backs["a"], w.backs["b"] = true, true
	w.run(2 * time.Second)
	at := w.now
	w.command(Command{At: at, Removed: []string{"b"}})
	w.backs["b"] = false
	w.run(500 * time.Millisecond)
	// One that began 500 ms after the change reaches b, and its answer takes a second.
	w.id++
	w.t.started(w.id, w.now)
	slow := result{id: w.id, start: w.now, gap: 4 * time.Millisecond, pod: "b"}
	w.after(990*time.Millisecond, func() { slow.end = w.now; w.t.ended(slow) })
	w.run(5 * time.Second)
	removed := w.samples("b", "removed")
	if len(removed) != 1 || removed[0].Seconds != 0.5 {
		t.Errorf("%+v, want 0.5 s", removed)
	}
}

func TestFailedProbesAreTold(t *testing.T) {
	w := newWorld(1)
	w.backs["a"] = true
	w.run(time.Second)
	w.command(Command{At: w.now, Added: []string{"b"}, Removed: []string{"a"}})
	w.backs["a"] = false
	w.after(time.Second, func() { w.backs["b"] = true })
	w.run(5 * time.Second)
	added, removed := w.samples("b", "added"), w.samples("a", "removed")
	if len(added) != 1 || len(removed) != 1 || added[0].FailedProbes < 200 || removed[0].FailedProbes < 200 {
		t.Errorf("%+v, %+v", added, removed)
	}
}

func TestAwait(t *testing.T) {
	for _, c := range []struct {
		name   string
		what   string
		before bool // it answers when asked
		refuse bool
		change time.Duration // when that turns; 0: never
		want   float64
		fails  bool
	}{
		{"any at once", AwaitAny, true, true, 0, 0, false},
		{"any later", AwaitAny, false, true, 2 * time.Second, 2, false},
		{"any out of a black hole", AwaitAny, false, false, 2 * time.Second, 2, false},
		{"any never", AwaitAny, false, true, 0, 15, true},
		{"refused at once", AwaitRefused, false, true, 0, 0, false},
		{"refused later", AwaitRefused, true, true, time.Second, 1, false},
		{"refused never", AwaitRefused, true, true, 0, 15, true},
		{"a black hole is no refusal", AwaitRefused, true, false, time.Second, 15, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(1)
			w.backs["a"], w.refuses = c.before, c.refuse
			w.run(time.Second)
			w.command(Command{Await: c.what, ID: "1"})
			if c.change > 0 {
				w.after(c.change, func() { w.backs["a"] = !c.before })
			}
			w.run(20 * time.Second)
			if len(w.found) != 1 || w.found[0].Awaited == nil {
				t.Fatalf("%+v", w.found)
			}
			got := *w.found[0].Awaited
			if got.ID != "1" || got.What != c.what || got.Service != "default/web" || (got.Error != "") != c.fails ||
				got.Seconds < c.want || got.Seconds > c.want+0.1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAlert(t *testing.T) {
	w := newWorld(1)
	if w.run(time.Second); w.t.busy(w.now) || w.t.spacing(w.now) != DefaultIdleInterval {
		t.Error("busy with nothing")
	}
	w.command(Command{Alert: "2s"})
	before := w.id
	w.run(1900 * time.Millisecond)
	if n := w.id - before; n < 400 || n > 500 {
		t.Errorf("%d probes in 1.9 s", n)
	}
	w.run(time.Second)
	if w.t.busy(w.now) {
		t.Error("busy for ever")
	}
}
