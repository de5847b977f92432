package load

import (
	"context"
	"net"
	"sync"
	"time"
)

// retryAfter is the pause before a connection that broke is made anew.
const retryAfter = 200 * time.Millisecond

func (s Spec) retryAfter() time.Duration { return time.Duration(float64(retryAfter) / s.Pace) }

// runStream reads from Count connections as fast as bytes come, and makes anew those that break.
func runStream(j *job) error {
	var wg sync.WaitGroup
	next := j.spec.roundRobin()
	for range j.spec.Count {
		wg.Go(func() {
			for j.stop.Err() == nil {
				if err := j.stream(next()); err != nil && j.stop.Err() == nil {
					j.fail(err)
					pause(j.stop, j.spec.retryAfter())
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// stream reads one connection until it breaks or the load stops. Nothing is outstanding at that moment that would
// be worth waiting for.
func (j *job) stream(target string) error {
	ctx, cancel := context.WithTimeout(j.stop, j.spec.Timeout)
	defer cancel()
	c, err := j.open(ctx, target, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	j.rec.success(c.pod, -1, int64(c.in.Buffered())+c.greeting)
	defer context.AfterFunc(j.stop, func() { _ = c.Conn.Close() })()
	return j.consume(c.Conn)
}

// consume reads until that fails.
func (j *job) consume(c net.Conn) error {
	buf := make([]byte, 256<<10)
	for {
		if err := c.SetReadDeadline(time.Now().Add(j.spec.Timeout)); err != nil {
			return err
		}
		n, err := c.Read(buf)
		if n > 0 {
			j.rec.moved(int64(n))
		}
		if err != nil {
			return err
		}
	}
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
