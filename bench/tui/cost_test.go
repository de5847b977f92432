package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/muesli/termenv"
	"golang.org/x/sys/unix"

	"proxylab/bench/events"
	"proxylab/bench/events/eventstest"
)

// cpuOfRun begins to measure, and returns what reports the processor time for a second of the run, in thousandths of a second: ten of
// them are one per cent of a core.
func cpuOfRun(b *testing.B) (done func(seconds float64)) {
	b.Helper()
	from := eventstest.CPUSeconds(b)
	return func(seconds float64) {
		b.ReportMetric((eventstest.CPUSeconds(b)-from)*1000/seconds, "cpu-ms/run-s")
		b.ReportMetric(0, "ns/op") // says nothing: an iteration is as long as its run
	}
}

// BenchmarkWatching is what it takes to fold and to draw a live run of two subjects with four loads each, at the rate of real frames,
// by a clock that does not wait.
func BenchmarkWatching(b *testing.B) {
	for _, size := range [][2]int{{80, 24}, {160, 50}} {
		for _, page := range []string{"Overview", "Loads", "Syncs", "Endpoints", "Summary"} {
			b.Run(fmt.Sprintf("%s/%dx%d", page, size[0], size[1]), func(b *testing.B) {
				list := recording(b)
				report := cpuOfRun(b)
				seconds := 0.0
				for b.Loop() {
					live := NewLive()
					m := sized(live, Options{Stop: func() {}}, themeFor(termenv.ANSI), size[0], size[1])
					for m.pages[m.page].title() != page {
						typed(m, "tab")
					}
					seconds += playVirtually(m, live, list)
				}
				report(seconds)
			})
		}
	}
}

// playVirtually plays a run for a program, and returns how many seconds of it.
func playVirtually(m *model, live *Live, list []events.Event) float64 {
	begin, end := list[0].Time, list[0].Time
	for _, e := range list {
		if e.Subject != nil { // the others played on, and are left out here
			end = e.Time
		}
	}
	for at := begin; at.Before(end); at = at.Add(m.interval()) {
		for len(list) > 0 && !list[0].Time.After(at) {
			live.Add(list[0])
			list = list[1:]
		}
		m.Update(frameMsg(at))
		_ = m.View()
	}
	return end.Sub(begin).Seconds()
}

// BenchmarkWatchingForReal is the whole program on a terminal of 160x50, with all that it does beside drawing, for twenty seconds of a
// run by the clock on the wall.
func BenchmarkWatchingForReal(b *testing.B) {
	const from, length = 20 * time.Second, 20 * time.Second // when all loads go
	recorded := recording(b)
	report := cpuOfRun(b)
	for b.Loop() {
		live, over, terminal := NewLive(), make(chan error, 1), openTerminal(b, 160, 50)
		go func() { over <- Run(context.Background(), live, Options{In: terminal, Out: terminal}) }()
		begin := time.Now().Add(-from) // of the run
		for _, e := range recorded {
			e.Time = begin.Add(e.Time.Sub(recorded[0].Time))
			if e.Time.After(begin.Add(from + length)) {
				break
			}
			time.Sleep(time.Until(e.Time))
			live.Add(e)
		}
		live.Finish()
		if err := <-over; err != nil {
			b.Fatal(err)
		}
	}
	report(length.Seconds() * float64(b.N))
}

// openTerminal is a terminal whose other end takes whatever is drawn.
func openTerminal(b *testing.B, w, h int) *os.File {
	b.Helper()
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = other.Close() })
	fd := int(other.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(h), Col: uint16(w)}))
	if err != nil {
		b.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = terminal.Close() })
	go func() { _, _ = io.Copy(io.Discard, other) }()
	return terminal
}
