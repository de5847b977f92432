package timeline

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxylab/bench/events"
)

// story writes events of one subject.
type story struct {
	at      time.Time
	subject events.Subject
	events  []events.Event
}

func (s *story) emit(e events.Event) {
	subject := s.subject
	e.Time, e.Subject = s.at, &subject
	s.events = append(s.events, e)
}

func (s *story) begin(steps int) {
	s.events = append(s.events, events.Event{Time: s.at, RunStarted: &events.RunStarted{Steps: make([]string, steps)}})
	s.emit(events.Event{SubjectStarted: &events.SubjectStarted{}})
	s.at = s.at.Add(3 * time.Second) // the first sync
	s.emit(events.Event{StepStarted: &events.StepStarted{Index: 0, Kind: "load", Text: "load web"}})
	s.emit(events.Event{LoadStarted: &events.LoadStarted{Name: "web", Kind: "http"}})
}

func (s *story) tick(name string, requests int64, latency time.Duration) {
	s.at = s.at.Add(500 * time.Millisecond)
	h := events.NewHistogram()
	for range requests {
		events.Record(h, latency)
	}
	s.emit(events.Event{LoadTick: &events.LoadTick{Name: name, Seconds: 0.5, Requests: requests, Latency: events.Encode(h)}})
}

func newStory(proxier, backend string, repetition int) *story {
	return &story{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), subject: events.Subject{Proxier: proxier, Backend: backend, Repetition: repetition}}
}

func TestTimeCountsFromTheFirstStepAndRepetitionsAreOne(t *testing.T) {
	var all []events.Event
	for r := 1; r <= 3; r++ {
		s := newStory("iptables", "nft", r)
		s.at = s.at.Add(time.Duration(r) * time.Hour)
		s.begin(1)
		for range 4 {
			s.tick("web", 50, time.Duration(r)*time.Millisecond)
			s.tick("web/direct", 5, time.Millisecond)
		}
		all = append(all, s.events...)
	}
	got := Fold(slices.Values(all))
	if len(got.Groups) != 1 || got.Groups[0].Name() != "iptables (nft)" || len(got.Groups[0].Loads) != 1 {
		t.Fatalf("%+v", got.Groups)
	}
	l := got.Groups[0].Load("web")
	if l.Kind != "http" || len(l.Points) != 4 || l.Points[0].At != 0.5 {
		t.Fatalf("%+v", l)
	}
	p := l.Points[1]
	if p.Requests != 150 || math.Abs(p.Seconds-1.5) > 1e-9 || p.P50 == nil || math.Abs(*p.P50-0.002) > 1e-5 || math.Abs(*p.P99-0.003) > 1e-5 {
		t.Errorf("a second of three repetitions: %+v", p)
	}
}

func TestTheBackEndMayBecomeKnownLater(t *testing.T) {
	s := newStory("iptables", "", 1)
	s.begin(1)
	s.subject.Backend = "legacy"
	s.tick("web", 1, time.Millisecond)
	if g := Fold(slices.Values(s.events)).Groups; len(g) != 1 || g[0].Backend != "legacy" {
		t.Errorf("%+v", g)
	}
}

func TestWhatComesAfterTheLastStepIsNoRate(t *testing.T) {
	s := newStory("iptables", "", 1)
	s.begin(1)
	s.tick("web", 50, time.Millisecond)
	s.emit(events.Event{StepEnded: &events.StepEnded{Index: 0, Seconds: 0.5}})
	for range 6 { // answers that are still due
		s.tick("web", 0, 0)
	}
	got := Fold(slices.Values(s.events))
	if n := len(got.Groups[0].Load("web").Points); n != 1 {
		t.Errorf("%d pieces, want 1", n)
	}
	if !got.Steps[0].Ended || got.Steps[0].Text != "load web" {
		t.Errorf("step %+v", got.Steps[0])
	}
}

func TestHoursTakeNoMoreThanMinutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "ticks")
		l := newLoad()
		for i := range n {
			l.add(&events.LoadTick{Seconds: 0.5, Requests: 10, Errors: 1, Open: 7}, 0.25+float64(i)/2)
		}
		r := l.result("x")
		var requests, errors int64
		last := -1.0
		for _, p := range r.Points {
			requests, errors = requests+p.Requests, errors+p.Errors
			if p.At <= last || p.Open != 7 {
				t.Fatalf("%+v after %v", p, last)
			}
			last = p.At
		}
		if len(r.Points) > maxPieces || requests != int64(10*n) || errors != int64(n) {
			t.Fatalf("%d pieces with %d requests of %d", len(r.Points), requests, 10*n)
		}
	})
}

func TestWhatAnotherProxierCostIsLeftOut(t *testing.T) {
	s := newStory("iptables", "", 1)
	s.begin(2)
	s.emit(events.Event{Sync: &events.Sync{Proxier: "iptables", Seconds: 1}})
	s.emit(events.Event{Sync: &events.Sync{Proxier: "nftables", Seconds: 2}})
	s.emit(events.Event{Programming: &events.Programming{Change: "added", Seconds: 3, Error: "not seen"}})
	g := Fold(slices.Values(s.events)).Groups[0]
	if len(g.Syncs) != 1 || len(g.Programming) != 1 || !g.Programming[0].Unobserved {
		t.Errorf("%+v", g)
	}
}
