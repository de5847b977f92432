package load

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// httpConn is a connection that remembers how it broke: net/http reports a connection that broke while it was idle
// in words of its own, which hide the cause.
type httpConn struct {
	net.Conn

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

// attempt follows one request through net/http.
type attempt struct {
	mu   sync.Mutex
	used *httpConn
}

func (a *attempt) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.used, _ = i.Conn.(*httpConn)
	}}
}

// cause is why the request failed, given what net/http says.
func (a *attempt) cause(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ErrorKind(err) == Other && a.used != nil {
		if broken := a.used.err(); broken != nil {
			return broken
		}
	}
	return err
}

// once is an empty request body, of which net/http does not know that.
type once struct{}

func (once) Read([]byte) (int, error) { return 0, io.EOF }
func (once) Close() error             { return nil }

// sendOnce keeps net/http from silently repeating a request whose kept-alive connection broke under it, as it does
// when there is no body: to a measurement, that request has failed. On the wire it makes no difference; "identity"
// keeps net/http from finding out about the body by itself.
func sendOnce(r *http.Request) {
	r.Body, r.TransferEncoding = once{}, []string{"identity"}
}
