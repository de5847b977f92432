package tui

import (
	"strings"
	"sync"
	"time"

	"proxylab/bench/events"
)

// Source is where a view gets its run from. It is used from one goroutine, whatever feeds it.
type Source interface {
	// Frame brings the run to where it is to be seen at a moment of the wall clock, and calls draw with it and with the
	// time it is there. Draw must not keep the state.
	Frame(wall time.Time, draw func(s *State, now time.Time))
	// Freeze holds the run still for the viewer, or lets it go on.
	Freeze(bool)
	// Ended says that nothing more will come.
	Ended() bool
}

// maxHeld bounds what is kept for a viewer who holds the picture: a run of an hour.
const maxHeld = 50_000

// Live is a run that is going on. Add is quick whatever the terminal does, so that it can be given events as they come.
type Live struct {
	mu     sync.Mutex
	state  *State
	frozen bool
	held   []events.Event // while frozen
	ended  bool
	line   strings.Builder // of what is written, begun
	warned []string        // of what was written
}

// NewLive returns a run that has not begun.
func NewLive() *Live { return &Live{state: NewState()} }

// Add takes the next event of the run. It is safe for concurrent use.
func (l *Live) Add(e events.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen && len(l.held) < maxHeld {
		l.held = append(l.held, e)
		return
	}
	l.thaw()
	l.state.Add(e)
}

// thaw takes what was held. l.mu is held.
func (l *Live) thaw() {
	for _, e := range l.held {
		l.state.Add(e)
	}
	l.held, l.frozen = nil, false
}

// Write adds what the program logs, line by line. It is safe for concurrent use and never fails.
func (l *Live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.line.String() + string(p)
	l.line.Reset()
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			l.line.WriteString(text[max(len(text)-4096, 0):])
			return len(p), nil
		}
		if line = strings.TrimSpace(line); line != "" {
			isBad := strings.HasPrefix(line, "ERRO") || strings.HasPrefix(line, "WARN")
			l.state.Say(LogLine{At: time.Now(), Text: line, Bad: isBad})
			if isBad && len(l.warned) < maxLog {
				l.warned = append(l.warned, line)
			}
		}
		text = rest
	}
}

// Warnings are the lines written so far that somebody should read who did not see them.
func (l *Live) Warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.warned
}

// Finish says that the run is over.
func (l *Live) Finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// Frame is Source's.
func (l *Live) Frame(wall time.Time, draw func(*State, time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := wall
	if l.frozen || l.ended || l.state.Ended != nil {
		now = l.state.Now
	}
	draw(l.state, now)
}

// Freeze is Source's.
func (l *Live) Freeze(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on {
		l.frozen = true
		return
	}
	l.thaw()
}

// Ended is Source's.
func (l *Live) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}
