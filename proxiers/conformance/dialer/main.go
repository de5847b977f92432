package dialer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// DefaultTimeout is that of one attempt.
const DefaultTimeout = 2 * time.Second

func unmarshal(b []byte, into any) error { return json.Unmarshal(b, into) }

// server carries out requests, each in a goroutine of its own.
type server struct {
	ctx     context.Context
	running sync.WaitGroup

	write sync.Mutex
	out   *json.Encoder

	mu    sync.Mutex
	open  map[string]closer
	ended bool
}

// closer is what has a name and stays until it is closed. What close returns goes into the answer.
type closer interface {
	close(abort bool) Tally
}

// Main carries out the requests on stdin until that ends or ctx does; then it closes all that is open.
func Main(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{ctx: ctx, out: json.NewEncoder(stdout), open: map[string]closer{}}
	defer func() {
		cancel()
		s.closeAll()
		s.running.Wait()
	}()
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("dial: not a request: %.200q: %w", lines.Text(), err)
		}
		s.running.Go(func() { s.answer(r) })
	}
	return lines.Err()
}

func (s *server) answer(r Request) {
	a, err := s.do(defaults(r))
	a.ID = r.ID
	if err != nil {
		a.Error, a.Lacks = fmt.Sprintf("%s: %v", r.Do, err), lacking(err)
	}
	s.write.Lock()
	defer s.write.Unlock()
	_ = s.out.Encode(a) // whoever asked has gone
}

func defaults(r Request) Request {
	r.Count, r.Parallel = max(r.Count, 1), max(r.Parallel, 1)
	if r.Timeout <= 0 {
		r.Timeout = DefaultTimeout
	}
	if r.LastPort < r.FromPort {
		r.LastPort = r.FromPort
	}
	return r
}

func (s *server) do(r Request) (Answer, error) {
	switch r.Do {
	case Dial:
		return Answer{Tally: batch(s.ctx, r)}, nil
	case Until:
		return s.until(r)
	case Open:
		return s.openFlow(r)
	case Say:
		return s.say(r)
	case Steady:
		return Answer{}, s.steady(r)
	case Close:
		c := s.take(r.Flow)
		if c == nil {
			return Answer{}, fmt.Errorf("nothing is called %q", r.Flow)
		}
		return Answer{Tally: c.close(r.Abort)}, nil
	case Scan:
		return Answer{Open: scan(s.ctx, r)}, nil
	case Serve:
		return Answer{}, s.serve(r)
	case Disturb:
		return Answer{}, disturb(s.ctx, r)
	}
	return Answer{}, fmt.Errorf("unknown verb")
}

// keep stores what stays open, unless its name is taken.
func (s *server) keep(name string, c closer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return errors.New("ending")
	case name == "":
		return errors.New("what stays open needs a name")
	case s.open[name] != nil:
		return fmt.Errorf("%q is open already", name)
	}
	s.open[name] = c
	return nil
}

func (s *server) take(name string) closer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[name]
	delete(s.open, name)
	return c
}

func (s *server) closeAll() {
	s.mu.Lock()
	all := s.open
	s.open, s.ended = map[string]closer{}, true
	s.mu.Unlock()
	for _, c := range all {
		c.close(true)
	}
}
