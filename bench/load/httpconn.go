package load

import (
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
)

// httpConn is a connection that remembers how it broke: net/http reports a connection that broke while it was idle
// in words of its own, which hide the cause.
type httpConn struct {
	net.Conn
	discard bool // close by RST

	mu     sync.Mutex
	broken error
}

func (c *httpConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.note(err)
	return n, err
}

func (c *httpConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.note(err)
	return n, err
}

// Close closes it as its kind of load does.
func (c *httpConn) Close() error {
	if c.discard {
		discard(c.Conn)
		return nil
	}
	return c.Conn.Close()
}

// note keeps the first error that came from the network and not from this side's having closed it.
func (c *httpConn) note(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = err
	}
}

func (c *httpConn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// attempt follows one request through net/http, which silently repeats a request whose kept-alive connection broke
// under it. To a measurement that request has failed: it is given up when it asks for a second connection.
type attempt struct {
	giveUp func()

	mu     sync.Mutex
	used   *httpConn
	broken error // the first connection broke before it answered
}

func (a *attempt) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.used == nil {
				return
			}
			a.broken = a.used.err()
			if a.broken == nil {
				a.broken = io.ErrUnexpectedEOF
			}
			a.giveUp()
		},
		GotConn: func(i httptrace.GotConnInfo) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.used, _ = i.Conn.(*httpConn)
		},
	}
}

// cause is why the request failed, given what net/http says.
func (a *attempt) cause(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		return a.broken
	}
	if ErrorKind(err) == Other && a.used != nil {
		if broken := a.used.err(); broken != nil {
			return broken
		}
	}
	return err
}
