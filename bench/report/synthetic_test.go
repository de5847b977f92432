package report

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"proxylab/bench/events"
)

// synthetic builds the log of a run that could have been: times and figures are computed, so that it is the same
// each time.
type synthetic struct {
	out     bytes.Buffer
	w       *events.Writer
	at      time.Time
	subject *events.Subject
	events  []events.Event
}

func newSynthetic() *synthetic {
	s := &synthetic{at: time.Date(2026, 11, 3, 19, 0, 0, 0, time.UTC)}
	s.w = events.NewWriter(&s.out)
	return s
}

func (s *synthetic) emit(e events.Event) {
	e.Time, e.Subject = s.at, s.subject
	if e.RunStarted != nil || e.RunEnded != nil {
		e.Subject = nil
	}
	s.events = append(s.events, e)
	s.w.Emit(e)
}

func (s *synthetic) pass(d time.Duration) { s.at = s.at.Add(d) }

func (s *synthetic) seq() iter.Seq[events.Event] {
	return func(yield func(events.Event) bool) {
		for _, e := range s.events {
			if !yield(e) {
				return
			}
		}
	}
}

func (s *synthetic) start(repeat int, proxiers ...string) {
	s.emit(events.Event{RunStarted: &events.RunStarted{
		ID: "20261103-190000-live-swap", Scenario: "live-swap", Lab: "netns", Version: "v0.1.0",
		Kernel: events.Kernel{Kind: "host", Release: "6.18.0"}, CPUs: 2, Proxiers: proxiers, Repeat: repeat,
		Steps: []string{"load web: http, 200/s", "scale web to 3", "swap to nftables"},
		Expect: []string{"load.web.error_rate < 1%", "load.web.latency.p99 < 5ms", "programming.p99 < 1s",
			"swap.broken == 0"},
		Environment: []string{"iptables 1.8.9 (legacy)", "min sync period 1s"},
	}})
}

// step plays one step around what happens in it.
func (s *synthetic) step(i int, kind, text, fails string, during func()) {
	s.emit(events.Event{StepStarted: &events.StepStarted{Index: i, Kind: kind, Text: text}})
	begin := s.at
	during()
	s.emit(events.Event{StepEnded: &events.StepEnded{Index: i, Seconds: s.at.Sub(begin).Seconds(), Error: fails}})
}

// latencies is a histogram of n values around a middle, with a tail.
func latencies(n int, middle time.Duration) *events.Histogram {
	h := events.NewHistogram()
	for i := range n {
		d := middle + time.Duration(i%50)*middle/100
		if i%100 == 99 {
			d = 4 * middle
		}
		events.Record(h, d)
	}
	return events.Encode(h)
}

type character struct {
	middle   time.Duration // latency
	slowness time.Duration // of syncs and of programming
	broken   int
}

// play is one subject.
func (s *synthetic) play(proxier, backend string, repetition, ticks int, as character) {
	s.subject = &events.Subject{Proxier: proxier, Repetition: repetition}
	s.emit(events.Event{SubjectStarted: &events.SubjectStarted{}})
	s.subject = &events.Subject{Proxier: proxier, Backend: backend, Repetition: repetition} // known from here on
	s.sync(true, as.slowness, 120)
	s.step(0, "load", "load web: http, 200/s", "", func() {
		s.emit(events.Event{LoadStarted: &events.LoadStarted{Name: "web", Kind: "http", Target: "10.96.0.10:80", RatePerSec: 200,
			Connections: "new", From: "pod client on node1"}})
		s.emit(events.Event{LoadStarted: &events.LoadStarted{Name: "web/direct", Kind: "http", Target: "10.244.1.5:8080", RatePerSec: 20,
			Connections: "new", From: "pod client on node1"}})
		s.emit(events.Event{LoadStarted: &events.LoadStarted{Name: "held", Kind: "hold", Target: "10.96.0.10:81", Count: 50, From: "pod client on node1"}})
	})
	s.step(1, "scale", "scale web to 3", "", func() {
		for range ticks {
			s.tick(as, nil)
		}
		for i := range 3 {
			d := as.slowness.Seconds() * float64(2+i)
			s.emit(events.Event{Programming: &events.Programming{Service: "default/web", Change: "added", Endpoint: fmt.Sprint("web-", i), Seconds: d, ResolutionSeconds: 0.005}})
			s.emit(events.Event{Programming: &events.Programming{Service: "default/web", Change: "removed", Endpoint: fmt.Sprint("web-", i), Seconds: d / 2, ResolutionSeconds: 0.005}})
		}
		s.sync(false, as.slowness/4, 132)
	})
	s.usage(proxier, 4242, 1.5, 61<<20)
	s.step(2, "swap", "swap to kube-proxy/nftables", "", func() { s.swap(proxier, as) })
	s.tick(as, map[string]int64{"reset": 2})
	s.usage("kube-proxy/nftables", 4301, 0.75, 92<<20)
	s.emit(events.Event{Softirq: &events.Softirq{Seconds: 0.61}})
	for _, l := range []string{"web", "web/direct", "held"} {
		s.emit(events.Event{LoadEnded: &events.LoadEnded{Name: l}})
	}
	s.emit(events.Event{SubjectEnded: &events.SubjectEnded{}})
}

func (s *synthetic) tick(as character, failed map[string]int64) {
	s.pass(500 * time.Millisecond)
	var errors int64
	for _, n := range failed {
		errors += n
	}
	s.emit(events.Event{LoadTick: &events.LoadTick{Name: "web", Seconds: 0.5, Requests: 100 + errors, Errors: errors,
		ErrorsByKind: failed, Late: 1, Bytes: 12000, Latency: latencies(100, as.middle), Connect: latencies(100, as.middle/2),
		Endpoints: map[string]int64{"web-a": 34, "web-b": 33, "web-c": 33}}})
	s.emit(events.Event{LoadTick: &events.LoadTick{Name: "web/direct", Seconds: 0.5, Requests: 10, Latency: latencies(10, 210*time.Microsecond),
		Endpoints: map[string]int64{"web-a": 10}}})
	s.emit(events.Event{LoadTick: &events.LoadTick{Name: "held", Seconds: 0.5, Requests: 50, Open: 50 - as.broken,
		Latency: latencies(50, as.middle)}})
}

func (s *synthetic) sync(full bool, took time.Duration, rules int) {
	for _, node := range []string{"node1", "node2"} {
		cpu := took.Seconds() * 0.8
		s.emit(events.Event{Sync: &events.Sync{Node: node, Full: full, Seconds: took.Seconds(), CPUSeconds: &cpu,
			Objects: map[string]int{"rules": rules}}})
	}
}

func (s *synthetic) usage(proxier string, pid int, cpu float64, rss int64) {
	for i, node := range []string{"node1", "node2"} {
		for _, part := range []float64{0.5, 1} {
			s.emit(events.Event{Usage: &events.Usage{Node: node, PID: pid + i, Proxier: proxier, CPUSeconds: cpu * part,
				RSSBytes: rss * 9 / 10, MaxRSSBytes: rss}})
		}
	}
}

func (s *synthetic) swap(from string, as character) {
	s.pass(1200 * time.Millisecond)
	w := &events.Swap{From: from, To: "kube-proxy/nftables", Seconds: 1.2, ConnectionsOpen: 50, ConnectionsBroken: as.broken, RequestsFailed: 2,
		FailedByKind: map[string]int64{"reset": 2}}
	if as.broken > 0 {
		w.BrokenByKind = map[string]int64{"reset": int64(as.broken)}
		w.Leftovers = []string{"chain KUBE-OLD", "set KUBE-A", "set KUBE-B", "set KUBE-C", "ipvs"}
	}
	s.emit(events.Event{Swap: w})
}

func (s *synthetic) end(outcome string) {
	s.subject = nil
	s.emit(events.Event{RunEnded: &events.RunEnded{Outcome: outcome}})
}

// fourProxiers is a run like the one of the demo. Userspace cannot say what its kernel holds, and the last could not
// be played to its end.
func fourProxiers(repeat, ticks int) *synthetic {
	s := newSynthetic()
	s.start(repeat, "userspace", "iptables", "kube-proxy/iptables", "kube-proxy/nftables")
	s.emit(events.Event{Note: &events.Note{Text: "kube-proxy/ipvs cannot run here: the kernel has no ip_vs."}})
	for r := 1; r <= repeat; r++ {
		slower := time.Duration(r-1) * 20 * time.Microsecond
		s.play("userspace", "", r, ticks, character{middle: 900*time.Microsecond + slower, slowness: 30 * time.Millisecond, broken: 12})
		s.play("iptables", "legacy", r, ticks, character{middle: 350*time.Microsecond + slower, slowness: 40*time.Millisecond + slower})
		s.play("kube-proxy/iptables", "legacy", r, ticks, character{middle: 360*time.Microsecond + slower, slowness: 90 * time.Millisecond})
		s.subject = &events.Subject{Proxier: "kube-proxy/nftables", Repetition: r}
		s.emit(events.Event{SubjectStarted: &events.SubjectStarted{}})
		s.emit(events.Event{Note: &events.Note{Text: "softirq time was not read: /proc/stat is not readable."}})
		s.step(0, "load", "load web: http, 200/s", "start load web: the client pod is gone", func() { s.pass(time.Second) })
		s.emit(events.Event{SubjectEnded: &events.SubjectEnded{Error: "step 1: start load web: the client pod is gone"}})
	}
	s.end("failed")
	return s
}
