package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"proxylab/bench/events"
	"proxylab/bench/events/eventstest"
)

// write makes a log of events, shifted in time, once or several times over.
func write(t testing.TB, times int) string {
	t.Helper()
	list := recording(t)
	file := filepath.Join(t.TempDir(), events.FileName)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out bytes.Buffer
	w := events.NewWriter(&out)
	last := len(list) - 1
	length := list[last].Time.Sub(list[0].Time)
	for i := range times {
		for j, e := range list {
			e.Time = e.Time.Add(time.Duration(i) * length)
			if (e.RunStarted == nil || i == 0) && (e.RunEnded == nil || i == times-1 && j == last) {
				w.Emit(e)
			}
		}
		if _, err := out.WriteTo(f); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// whole opens a log and waits until it is read.
func whole(t testing.TB, file string) *Player {
	t.Helper()
	p, err := Open(t.Context(), file, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	<-p.done
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	return p
}

// settled brings a player to where it wants to be, while the wall clock stands still.
func settled(p *Player, wall time.Time) (at time.Time, s *State) {
	for {
		p.Frame(wall, func(state *State, now time.Time) { at, s = now, state })
		if !p.seeking(p.events) {
			return at, s
		}
	}
}

func TestReplayKeepsTheSpeed(t *testing.T) {
	p := whole(t, write(t, 1))
	begin := recording(t)[0].Time
	wall := time.Now()
	settled(p, wall)
	for i, step := range []struct {
		speed func()
		want  time.Duration // after one second more
	}{
		{func() {}, 10 * time.Second}, {p.Faster, 30 * time.Second}, {p.Slower, 40 * time.Second},
		{func() { p.Slower(); p.Slower() }, 42 * time.Second}, {func() { p.Freeze(true) }, 42 * time.Second},
		{func() { p.Freeze(false) }, 44 * time.Second},
	} {
		step.speed()
		wall = wall.Add(time.Second)
		if at, _ := settled(p, wall); at.Sub(begin) != step.want {
			t.Fatalf("step %d: at %s, want %s", i, at.Sub(begin), step.want)
		}
	}
	for range 20 {
		p.Faster()
	}
	if p.speed != MaxSpeed {
		t.Errorf("fastest is %g", p.speed)
	}
	for range 20 {
		p.Slower()
	}
	if p.speed != MinSpeed {
		t.Errorf("slowest is %g", p.speed)
	}
}

// TestSeekingEndsWhereWatchingDoes: however one gets to a moment, it looks the same.
func TestSeekingEndsWhereWatchingDoes(t *testing.T) {
	read := whole(t, write(t, 1)).events
	rapid.Check(t, func(r *rapid.T) {
		p := &Player{events: read, read: true, state: NewState(), speed: 10}
		wall := time.Now()
		settled(p, wall)
		for range rapid.IntRange(1, 5).Draw(r, "seeks") {
			rapid.SampledFrom([]func(){
				p.SeekStart, p.SeekEnd, func() { p.Seek(10 * time.Second) }, func() { p.Seek(-10 * time.Second) },
				func() { p.Seek(-time.Minute) }, func() { p.Seek(time.Minute) },
			}).Draw(r, "to")()
			settled(p, wall)
		}
		at, state := settled(p, wall)
		straight := &still{state: NewState(), now: at}
		for _, e := range recording(t) {
			if e.Time.After(at) {
				break
			}
			straight.state.Add(e)
		}
		page := rapid.IntRange(0, 5).Draw(r, "page")
		show := func(s *State) string {
			m := sized(&still{s, at}, Options{}, themeFor(termenv.Ascii), 120, 40)
			m.page = page
			return frameOf(m)
		}
		if diff := cmp.Diff(show(straight.state), show(state)); diff != "" {
			r.Fatalf("at %s (-watched +sought):\n%s", at, diff)
		}
	})
}

// TestTheEndIsWhatTheRunShowed: whoever watches the log of a run ends with the frame that the run itself ended with, on each tab,
// but for the keys, which do other things there.
func TestTheEndIsWhatTheRunShowed(t *testing.T) {
	dir := t.TempDir()
	log, err := events.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	live := NewLive()
	listener := log.Listen(live.Add)
	run := sized(live, Options{Stop: func() {}, Stay: true}, themeFor(termenv.ANSI), 160, 50)
	for i, e := range recording(t) {
		log.Emit(e)
		if i%100 == 0 { // it is looked at meanwhile
			run.frame(time.Now())
		}
	}
	if err := errors.Join(listener.Close(t.Context()), log.Close()); err != nil {
		t.Fatal(err)
	}
	live.Finish()

	p := whole(t, dir)
	watch := sized(p, Options{Stay: true}, themeFor(termenv.ANSI), 160, 50)
	watch.frame(time.Now())
	p.SeekEnd()
	for !p.Ended() || watch.behind() {
		watch.frame(time.Now())
	}
	for page := range run.pages {
		var frames [2][]string
		for i, m := range []*model{run, watch} {
			m.concluded, m.page = true, page
			frames[i] = strings.Split(frameOf(m), "\n")
		}
		keys := len(frames[0]) - 1
		if diff := cmp.Diff(frames[0][:keys], frames[1][:keys]); diff != "" {
			t.Errorf("%s (-the run +its log):\n%s", run.pages[page].title(), diff)
		}
	}
}

// TestTheEndIsTheSummary: a replay that is over shows the table.
func TestTheEndIsTheSummary(t *testing.T) {
	p := whole(t, write(t, 1))
	m := sized(p, Options{Stay: true}, themeFor(termenv.Ascii), 100, 40)
	p.SeekStart()
	frameOf(m)
	typed(m, "end")
	for !p.Ended() {
		m.frame(time.Now())
	}
	for m.frame(time.Now()); m.view.again; { // by itself: nobody presses a key
		m.frame(time.Now())
	}
	frame := m.drawn
	if !strings.Contains(frame, "Outcome: done") || !strings.Contains(frame, "Load web") && !strings.Contains(frame, "Load open") {
		t.Errorf("no summary:\n%s", frame)
	}
	typed(m, "1", "home")
	if frame := frameOf(m); strings.Contains(frame, "Outcome") {
		t.Errorf("cannot go back:\n%s", frame)
	}
}

func TestAGrowingLogIsFollowed(t *testing.T) {
	list := recording(t)
	file := filepath.Join(t.TempDir(), events.FileName)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := events.NewWriter(f)
	half := len(list) / 2
	for _, e := range list[:half] {
		w.Emit(e)
	}
	p, err := Open(t.Context(), filepath.Dir(file), 10)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	await(t, "the end of what there is", func() bool {
		p.Frame(time.Now(), func(*State, time.Time) {})
		return p.folded == half
	})
	if p.Ended() || !p.tail {
		t.Errorf("ended %v, follows %v", p.Ended(), p.tail)
	}
	for _, e := range list[half:] {
		w.Emit(e)
	}
	await(t, "what was written since", func() bool {
		p.Frame(time.Now(), func(*State, time.Time) {})
		return p.Ended()
	})
	if p.folded != len(list) {
		t.Errorf("%d events of %d", p.folded, len(list))
	}
}

func TestALogThatWasCutOff(t *testing.T) {
	file := write(t, 1)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data[:len(data)*2/3], 0o644); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, long, long); err != nil {
		t.Fatal(err)
	}
	p := whole(t, file)
	settled(p, time.Now())
	p.SeekEnd()
	settled(p, time.Now())
	m := sized(p, Options{Stay: true}, themeFor(termenv.Ascii), 80, 24)
	if frame := frameOf(m); !strings.Contains(frame, "cut off") {
		t.Errorf("it does not say so:\n%s", frame)
	}
}

func TestWhatIsNoLog(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), dir, 1); err == nil {
		t.Error("an empty directory was opened")
	}
	file := filepath.Join(dir, events.FileName)
	if err := os.WriteFile(file, []byte("hello\nworld\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), file, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	<-p.done
	if p.Err() == nil {
		t.Error("no error")
	}
	frameOf(sized(p, Options{Stay: true}, themeFor(termenv.Ascii), 80, 24))
}

// TestAStuckTerminalHoldsNothingUp: events are taken as fast as ever while the terminal takes nothing.
func TestAStuckTerminalHoldsNothingUp(t *testing.T) {
	live := NewLive()
	stuck := make(chan struct{})
	keys, hands := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- Run(ctx, live, Options{In: keys, Out: stuckWriter(stuck)}) }()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for _, e := range recording(t) {
				live.Add(e)
			}
			fmt.Fprintf(live, "INFO a line\nWARN another\n")
		})
	}
	group.Wait() // this is what would hang
	close(stuck)
	live.Finish()
	if err := <-over; err != nil {
		t.Error(err)
	}
	cancel()
	_ = hands.Close()
	if n := len(live.Warnings()); n != 4 {
		t.Errorf("%d warnings were kept", n)
	}
}

// TestALiveRunIsDrawn: what other sources stand for in other tests is drawn for real, with all keys that there are.
func TestALiveRunIsDrawn(t *testing.T) {
	live := NewLive()
	for _, e := range recording(t)[:500] {
		live.Add(e)
	}
	m := sized(live, Options{Stop: func() {}, Control: &spy{}}, themeFor(termenv.ANSI), 100, 40)
	for page := range m.pages {
		m.page = page
		if frame := frameOf(m); !strings.Contains(frame, "live") {
			t.Errorf("page %d:\n%s", page, frame)
		}
	}
	typed(m, " ", " ", "q", "n", "?", "x", "s", "esc")
	frameOf(m)
	live.Finish()
	m.Update(frameMsg(time.Now()))
	if !m.quit {
		t.Error("the view stays when the run is over")
	}
}

type stuckWriter chan struct{}

func (s stuckWriter) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

func TestFreezing(t *testing.T) {
	live := NewLive()
	list := recording(t)
	for _, e := range list[:100] {
		live.Add(e)
	}
	count := func() (n int) {
		live.Frame(time.Now(), func(s *State, _ time.Time) { n = s.version })
		return n
	}
	before := count()
	live.Freeze(true)
	for _, e := range list[100:200] {
		live.Add(e)
	}
	if count() != before {
		t.Error("it goes on")
	}
	live.Freeze(false)
	if got := count(); got < before+100 {
		t.Errorf("%d events, what came meanwhile is lost", got)
	}
}

// TestRunLeavesByKey runs the whole program, without a terminal.
func TestRunLeavesByKey(t *testing.T) {
	p := whole(t, write(t, 1))
	keys, hands := io.Pipe()
	defer hands.Close()
	over := make(chan error, 1)
	go func() { over <- Run(t.Context(), p, Options{In: keys, Out: io.Discard, Stay: true}) }()
	if _, err := io.WriteString(hands, "2q"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("q does not leave")
	}
}

func TestSeriesLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, g := newSeries(), newGauge()
		var requests int64
		var ticks int
		h := events.NewHistogram()
		for range 7 {
			events.Record(h, 3*time.Millisecond)
		}
		encoded := events.Encode(h)
		for range rapid.IntRange(0, 300).Draw(t, "ticks") {
			at := rapid.Float64Range(-1, 5000).Draw(t, "at")
			s.add(at, &events.LoadTick{Seconds: 0.5, Requests: 7, Latency: encoded})
			if rapid.Bool().Draw(t, "read meanwhile") {
				s.at(at).quantiles()
			}
			g.add(at, 1)
			requests, ticks = requests+7, ticks+1
		}
		var sum, read int64
		for i := range s.buckets {
			sum += s.buckets[i].requests
			s.buckets[i].quantiles()
			if l := s.buckets[i].latency; l != nil {
				read += l.TotalCount()
			}
		}
		n := 0
		for _, k := range g.n {
			n += k
		}
		if sum != requests || read != requests || n != ticks || len(s.buckets) > maxBuckets || len(g.sums) > maxBuckets {
			t.Fatalf("%d of %d requests, %d latencies, %d of %d values, %d and %d buckets", sum, requests, read, n, ticks, len(s.buckets), len(g.sums))
		}
	})
}

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	limit := time.After(time.Minute) // a bound for a hang
	for !cond() {
		select {
		case <-limit:
			t.Fatalf("%s did not come", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// BenchmarkOpenTwoHours is the time from opening a log of two hours, of four proxiers, to its first frame, and to the frame at its
// end, with the summary of all of it.
func BenchmarkOpenTwoHours(b *testing.B) {
	file := eventstest.Write(b, b.TempDir(), "run", eventstest.TwoHours(b))
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	defer eventstest.ReportCPU(b)()
	var first, read, last time.Duration
	for b.Loop() {
		began := time.Now()
		p, err := Open(context.Background(), file, 1)
		if err != nil {
			b.Fatal(err)
		}
		m := sized(p, Options{Stay: true}, themeFor(termenv.ANSI), 160, 50)
		for m.frame(time.Now()); p.state.Started == nil; m.frame(time.Now()) {
			time.Sleep(time.Millisecond)
		}
		first += time.Since(began)
		p.SeekEnd()
		<-p.done
		read += time.Since(began)
		for !p.Ended() || m.view.again || !m.concluded {
			m.frame(time.Now())
		}
		last += time.Since(began)
		p.Close()
	}
	for what, d := range map[string]time.Duration{"first-frame": first, "read": read, "last-frame": last} {
		b.ReportMetric(d.Seconds()/float64(b.N), "s/"+what)
	}
}

// BenchmarkFrame is one frame of a run with four loads and two subjects.
func BenchmarkFrame(b *testing.B) {
	for _, size := range [][2]int{{80, 24}, {160, 50}, {200, 60}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			m := sized(stillAt(b, 75*time.Second), Options{}, themeFor(termenv.ANSI), size[0], size[1])
			frameOf(m)
			for b.Loop() {
				frameOf(m)
			}
		})
	}
}
