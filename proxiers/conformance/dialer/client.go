package dialer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Client talks to a dialer's process. Its methods may be called by several goroutines at once.
type Client struct {
	write sync.Mutex
	in    io.WriteCloser
	done  chan struct{}

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan Answer
	err     error // why no more answers come
}

// NewClient talks through the process's standard input and output.
func NewClient(in io.WriteCloser, out io.Reader) *Client {
	c := &Client{in: in, done: make(chan struct{}), waiting: map[int64]chan Answer{}}
	go c.read(out)
	return c
}

func (c *Client) read(out io.Reader) {
	defer close(c.done)
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 64<<10), 16<<20)
	err := errors.New("the dialer has ended")
	for lines.Scan() {
		var a Answer
		if bad := json.Unmarshal(lines.Bytes(), &a); bad != nil {
			err = fmt.Errorf("the dialer wrote what is no answer: %.200q: %w", lines.Text(), bad)
			break
		}
		c.mu.Lock()
		waits := c.waiting[a.ID]
		delete(c.waiting, a.ID)
		c.mu.Unlock()
		if waits != nil {
			waits <- a
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, w := range c.waiting {
		close(w)
	}
	c.waiting = nil
}

// LackError says that the kernel there lacks what a request needs.
type LackError struct{ What string }

func (e LackError) Error() string { return e.What }

// Ask sends a request and waits for its answer. A LackError says that it cannot be had there.
func (c *Client) Ask(ctx context.Context, r Request) (Answer, error) {
	waits := make(chan Answer, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return Answer{}, c.err
	}
	c.last++
	r.ID = c.last
	c.waiting[r.ID] = waits
	c.mu.Unlock()
	line, err := json.Marshal(r)
	if err == nil {
		c.write.Lock()
		_, err = c.in.Write(append(line, '\n'))
		c.write.Unlock()
	}
	if err != nil {
		return Answer{}, fmt.Errorf("ask the dialer: %w", err)
	}
	select {
	case a, ok := <-waits:
		switch {
		case !ok:
			c.mu.Lock()
			defer c.mu.Unlock()
			return Answer{}, c.err
		case a.Lacks:
			return a, LackError{a.Error}
		case a.Error != "":
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

// Close ends the dialer's input, and with it the dialer.
func (c *Client) Close() error { return c.in.Close() }

// Done is closed when the dialer has said its last.
func (c *Client) Done() <-chan struct{} { return c.done }
