package load

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// schedule says when each request of an open loop is due, whatever became of those before it.
type schedule struct {
	start  time.Time
	rate   float64       // per second
	length time.Duration // nothing is due from then on; 0: endless
}

func (s schedule) due(seq uint64) time.Time {
	return s.start.Add(time.Duration(float64(seq) / s.rate * float64(time.Second)))
}

// await returns true when a request is due, and false when ctx was done before, or when nothing is due any more.
func (s schedule) await(ctx context.Context, seq uint64) bool {
	due := s.due(seq)
	if s.length > 0 && due.Sub(s.start) >= s.length {
		return false
	}
	return sleepUntil(ctx, due)
}

const (
	// Go's timers wake up to a millisecond late, because its poller waits in whole milliseconds. So the last bit
	// before a deadline is slept in the kernel, which is exact to some microseconds.
	fine = 3 * time.Millisecond
	// The kernel's own tolerance, for the thread that asks: 50 µs unless told otherwise.
	timerSlack = 5 * time.Microsecond
)

// sleepUntil returns true at the deadline, within a few microseconds where the machine allows it, and false as soon
// as ctx is done or, in the last milliseconds, soon after.
func sleepUntil(ctx context.Context, deadline time.Time) bool {
	if left := time.Until(deadline); left > fine {
		timer := time.NewTimer(left - fine/2)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	for ctx.Err() == nil {
		left := time.Until(deadline)
		if left <= 0 {
			return true
		}
		nap(min(left, fine))
	}
	return false
}

// nap sleeps in the kernel. The slack belongs to a thread, and a goroutine moves between threads, hence each time;
// without it a nap is merely less exact.
func nap(d time.Duration) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack.Nanoseconds()), 0, 0, 0)
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // when a signal cuts it short, the caller looks at the clock and naps again
}
