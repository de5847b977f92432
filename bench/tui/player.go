package tui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"proxylab/bench/events"
)

// Speeds of a replay.
const (
	MinSpeed = 1
	MaxSpeed = 100
)

// speeds are the steps by which the viewer changes it.
var speeds = []float64{1, 2, 5, 10, 20, 50, 100}

// frameBudget bounds the time that a frame may take to catch up, so that keys are answered meanwhile.
const frameBudget = 50 * time.Millisecond

// growing is how long ago a log without an end may have been written to be taken for one that goes on.
const growing = 15 * time.Second

// bytesPerEvent is about how long a line of a log is.
const bytesPerEvent = 350

// Player replays a log. It begins at once, and reads the rest beside.
type Player struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is read any more

	mu     sync.Mutex
	events []events.Event // read so far
	read   bool           // to the end
	err    error          // of reading

	// What follows belongs to the viewer's goroutine.
	state  *State
	folded int       // events in state
	at     time.Time // of the replay
	last   time.Time // of the wall clock, at the frame before
	begin  time.Time // of the log
	end    time.Time // of the log, as far as it is known
	speed  float64
	paused bool
	tail   bool // keep to the end, as it grows
	behind bool // the last frame had not the time for all that it was to show
}

// Open begins to read a log, which may still be growing; path is the run's directory or its log. A log that is being
// written is shown from where it is now. Close the Player to end it.
func Open(ctx context.Context, path string, speed float64) (*Player, error) {
	file, err := events.Locate(path)
	if err != nil {
		return nil, err
	}
	p := &Player{done: make(chan struct{}), state: NewState(), speed: min(max(speed, MinSpeed), MaxSpeed)}
	end, over, err := lastEvent(file)
	if err != nil {
		return nil, err
	}
	p.end = end
	p.tail = !over && Growing(file)
	ctx, p.cancel = context.WithCancel(ctx)
	log := read(ctx, file)
	if p.tail {
		log = events.Follow(ctx, file)
	} else if info, err := os.Stat(file); err == nil {
		p.events = make([]events.Event, 0, info.Size()/bytesPerEvent)
	}
	go p.load(log)
	return p, nil
}

// read is the events of a log that does not grow, until ctx is done.
func read(ctx context.Context, file string) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		f, err := os.Open(file)
		if err != nil {
			yield(events.Event{}, fmt.Errorf("open the event log: %w", err))
			return
		}
		defer f.Close()
		for e, err := range events.ReadAhead(f) {
			if err != nil {
				err = fmt.Errorf("%s: %w", file, err)
			}
			if ctx.Err() != nil || !yield(e, err) {
				return
			}
		}
	}
}

// Growing says whether a log was written to just now.
func Growing(file string) bool {
	info, err := os.Stat(file)
	return err == nil && time.Since(info.ModTime()) < growing
}

// Close ends the reading.
func (p *Player) Close() {
	p.cancel()
	<-p.done
}

// Err is what kept the log from being read to its end.
func (p *Player) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Player) load(log iter.Seq2[events.Event, error]) {
	defer close(p.done)
	var failed error
	for e, err := range log {
		if err != nil {
			failed = err
			break
		}
		p.mu.Lock()
		p.events = append(p.events, e)
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read, p.err = true, failed
}

// lastEvent reads the time of a log's last whole event from its end, and whether that ends the run. The time is zero where
// it cannot be told.
func lastEvent(file string) (at time.Time, over bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return at, false, fmt.Errorf("open the event log: %w", err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return at, false, fmt.Errorf("read the event log: %w", err)
	}
	const enough = 256 << 10
	from := max(size-enough, 0)
	data, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return at, false, fmt.Errorf("read the event log: %w", err)
	}
	for _, line := range slices.Backward(bytes.Split(data, []byte("\n"))) {
		var e events.Event
		if len(line) > 0 && events.Unmarshal(line, &e) == nil && !e.Time.IsZero() {
			return e.Time, e.RunEnded != nil, nil
		}
	}
	return at, false, nil
}

// Frame is Source's.
func (p *Player) Frame(wall time.Time, draw func(*State, time.Time)) {
	p.mu.Lock()
	have, read := p.events, p.read
	p.mu.Unlock()
	if len(have) > 0 {
		p.advance(wall, have, read)
	}
	p.last = wall
	draw(p.state, p.at)
}

func (p *Player) advance(wall time.Time, have []events.Event, read bool) {
	if p.at.IsZero() {
		p.begin, p.at = have[0].Time, have[0].Time
	}
	if newest := have[len(have)-1].Time; newest.After(p.end) {
		p.end = newest
	}
	if p.tail && !p.paused {
		p.at = p.end
	} else if !p.paused && !p.seeking(have) {
		p.at = p.at.Add(time.Duration(float64(wall.Sub(p.last)) * p.speed))
	}
	if p.at.After(p.end) {
		p.at = p.end
		p.tail = !read
	}
	const many = 64 // events, between two looks at the clock
	for until := time.Now().Add(frameBudget); p.seeking(have) && time.Now().Before(until); {
		from := p.folded
		for p.seeking(have) && p.folded < from+many {
			p.folded++
		}
		p.state.Add(have[from:p.folded:p.folded]...)
	}
	p.behind = p.seeking(have)
}

// seeking says that events before the present one have not been folded.
func (p *Player) seeking(have []events.Event) bool {
	return p.folded < len(have) && !have[p.folded].Time.After(p.at)
}

// Freeze is Source's.
func (p *Player) Freeze(on bool) { p.paused = on }

// Ended is Source's: the replay has come to the end of a log that is complete or will not grow.
func (p *Player) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read && p.folded == len(p.events)
}

// Seek goes forward, or back.
func (p *Player) Seek(by time.Duration) { p.seekTo(p.at.Add(by)) }

// SeekStart goes to the begin of the log.
func (p *Player) SeekStart() { p.seekTo(p.begin) }

// SeekEnd goes to the end of the log.
func (p *Player) SeekEnd() { p.seekTo(p.end) }

func (p *Player) seekTo(at time.Time) {
	if at.Before(p.begin) {
		at = p.begin
	}
	if p.tail = !at.Before(p.end); p.tail {
		at = p.end
	}
	if at.Before(p.at) {
		p.state, p.folded = NewState(), 0
		p.state.version = time.Now().Nanosecond() // of no state before it
	}
	p.at = at
}

// Faster and Slower change the speed by a step.
func (p *Player) Faster() { p.speed = stepOf(p.speed, 1) }

// Slower is the reverse of Faster.
func (p *Player) Slower() { p.speed = stepOf(p.speed, -1) }

func stepOf(speed float64, by int) float64 {
	i, found := slices.BinarySearch(speeds, speed)
	switch {
	case by < 0:
		i--
	case found:
		i++
	}
	return speeds[min(max(i, 0), len(speeds)-1)]
}

// progress is where the replay is: seconds from the begin, and seconds in all.
func (p *Player) progress() (at, of float64) {
	if p.begin.IsZero() {
		return 0, 0
	}
	return p.at.Sub(p.begin).Seconds(), p.end.Sub(p.begin).Seconds()
}
