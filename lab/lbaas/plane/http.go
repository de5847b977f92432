package plane

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"proxylab/lab/lbaas/plane/vip"
)

// httpSocket serves a VIP of an HTTP or TERMINATED_HTTPS listener.
type httpSocket struct {
	l      *listener
	ln     *net.TCPListener
	at     netip.AddrPort
	server *http.Server
}

func (l *listener) openHTTP(at netip.AddrPort, o vip.Options) (socket, error) {
	ln, err := vip.ListenTCP(l.ctx, at, o)
	if err != nil {
		return nil, err
	}
	f := l.conf.Load()
	s := &httpSocket{l: l, ln: ln, at: at}
	s.server = &http.Server{
		Handler:           newForwarder(l, at),
		ReadHeaderTimeout: f.clientData,
		IdleTimeout:       f.clientData,
		ErrorLog:          log.New(io.Discard, "", 0), // what clients do wrong is no news
		BaseContext:       func(net.Listener) context.Context { return l.ctx },

		DisableGeneralOptionsHandler: true, // OPTIONS * is the member's to answer
	}
	counted := net.Listener(countedListener{ln, l})
	if f.isTLS() {
		counted = tls.NewListener(counted, &tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.conf.Load().tls, nil },
			NextProtos:         []string{"h2", "http/1.1"},
		})
	}
	go func() { _ = s.server.Serve(counted) }() // ends with the server
	return s, nil
}

// close lets requests that were begun end.
func (s *httpSocket) close() {
	_ = s.ln.Close()
	go func() {
		if s.server.Shutdown(s.l.ctx) != nil {
			s.drop()
		}
	}()
}

func (s *httpSocket) drop()         { _ = s.server.Close() }
func (s *httpSocket) active() int64 { return 0 }

func (s *httpSocket) setAllowed(allowed []netip.Prefix) error {
	return vip.SetAllowed(s.ln, allowed, s.at.Addr().Is6())
}

// countedListener keeps to the listener's connection limit and counts.
type countedListener struct {
	*net.TCPListener
	l *listener
}

func (c countedListener) Accept() (net.Conn, error) {
	conn, err := c.AcceptTCP()
	if err != nil {
		return nil, err
	}
	if !c.l.limit.acquire() {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c.l.counts.connections.Add(1)
	return &countedConn{TCPConn: conn, l: c.l}, nil
}

type countedConn struct {
	*net.TCPConn
	l    *listener
	once sync.Once
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.l.counts.in.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	c.l.counts.out.Add(int64(n))
	return n, err
}

// ReadFrom counts what a server sends without looking at it.
func (c *countedConn) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.TCPConn.ReadFrom(r)
	c.l.counts.out.Add(n)
	return n, err
}

func (c *countedConn) Close() error {
	c.once.Do(c.l.limit.release)
	return c.TCPConn.Close()
}

// clientBody gives a client that sends a body its time between two pieces of it.
type clientBody struct {
	io.ReadCloser
	control *http.ResponseController
	wait    time.Duration
}

func (b clientBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(b.wait))
	n, err := b.ReadCloser.Read(p)
	_ = b.control.SetReadDeadline(time.Time{})
	return n, err
}
