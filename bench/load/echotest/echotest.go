// Package echotest is a pod for tests: servers on loopback that speak the echo protocol of proxylab/echo and
// misbehave on demand.
package echotest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Pod is a running one. Its addresses are "127.0.0.1:port".
type Pod struct {
	Name                   string
	HTTP, TCP, UDP, Stream string

	mu      sync.Mutex
	stalled chan struct{} // answers wait until it is closed
	status  int
	mute    bool
	conns   map[net.Conn]struct{}
	accepts int
	asked   int
}

// Start starts one that ends with the test. host is an address of this machine, usually "127.0.0.1".
func Start(t testing.TB, name, host string) *Pod {
	t.Helper()
	p := &Pod{Name: name, status: http.StatusOK, conns: map[net.Conn]struct{}{}, stalled: make(chan struct{})}
	close(p.stalled)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(p.Resume)
	t.Cleanup(func() { p.Break(0) })
	serve := func(handle func(net.Conn)) string {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				p.track(c)
				wg.Go(func() {
					defer p.untrack(c)
					handle(c)
				})
			}
		})
		return l.Addr().String()
	}
	p.HTTP = serve(p.serveHTTP)
	p.TCP = serve(p.echo)
	p.Stream = serve(p.stream)
	u, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	p.UDP = u.LocalAddr().String()
	wg.Go(func() { p.serveUDP(u) })
	return p
}

// Stall makes every answer wait for Resume.
func (p *Pod) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = make(chan struct{})
}

// Resume ends a stall.
func (p *Pod) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stalled:
	default:
		close(p.stalled)
	}
}

// Status sets the code of HTTP answers.
func (p *Pod) Status(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = code
}

// Mute makes UDP requests stay without an answer.
func (p *Pod) Mute(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = mute
}

// Break ends all connections that are open: by RST with linger 0, in good order with -1. It returns how many.
func (p *Pod) Break(linger int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.(*net.TCPConn).SetLinger(linger)
		_ = c.Close()
	}
	return len(p.conns)
}

// Open is how many connections are open now, Accepted how many there ever were.
func (p *Pod) Open() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.conns) }

// Accepted is how many connections there ever were.
func (p *Pod) Accepted() int { p.mu.Lock(); defer p.mu.Unlock(); return p.accepts }

// Datagrams is how many requests came by UDP, answered or not.
func (p *Pod) Datagrams() int { p.mu.Lock(); defer p.mu.Unlock(); return p.asked }

func (p *Pod) track(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepts++
	p.conns[c] = struct{}{}
}

func (p *Pod) untrack(c net.Conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	_ = c.Close()
}

// wait waits for the end of a stall and returns the status to answer with.
func (p *Pod) wait() (status int, mute bool) {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	<-stalled
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.mute
}

func (p *Pod) greet(client net.Addr) string { return fmt.Sprintf("%s node1 %s", p.Name, client) }

func (p *Pod) serveHTTP(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		status, _ := p.wait()
		body := fmt.Sprintf("{\"pod\":%q,\"client\":%q}\n", p.Name, c.RemoteAddr())
		_, err = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nX-Proxylab-Pod: %s\r\nContent-Length: %d\r\n\r\n%s",
			status, http.StatusText(status), p.Name, len(body), body)
		if err != nil || r.Close {
			return
		}
	}
}

func (p *Pod) echo(c net.Conn) {
	p.wait()
	if _, err := fmt.Fprintf(c, "%s\n", p.greet(c.RemoteAddr())); err != nil {
		return
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		p.wait()
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *Pod) stream(c net.Conn) {
	_, _ = fmt.Fprintf(c, "%s\n", p.greet(c.RemoteAddr()))
	buf := make([]byte, 64<<10)
	for {
		p.wait()
		if _, err := c.Write(buf); err != nil {
			return
		}
	}
}

func (p *Pod) serveUDP(u net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := u.ReadFrom(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.asked++
		p.mu.Unlock()
		if _, mute := p.wait(); !mute {
			_, _ = u.WriteTo([]byte(p.greet(from)+" "+string(buf[:n])), from)
		}
	}
}

// DeadPort is an address on loopback where nobody listens, so that it refuses. It is not one of the ports that the
// kernel gives to clients: one of those might be connected to itself.
func DeadPort(t testing.TB, network string) string {
	t.Helper()
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000)))
		var c io.Closer
		var err error
		if network == "udp" {
			c, err = net.ListenPacket(network, addr)
		} else {
			c, err = net.Listen(network, addr)
		}
		if err != nil {
			continue
		}
		_ = c.Close()
		return addr
	}
	t.Fatal("no free port found")
	return ""
}

// Script is a server on loopback whose connections are handled by a function, for misbehaviour of any kind.
func Script(t testing.TB, handle func(*net.TCPConn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = l.Close() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				handle(c.(*net.TCPConn))
			})
		}
	})
	return l.Addr().String()
}

// Await waits until a condition holds, and fails the test when it does not within 30 s.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Drain reads until the other side closes.
func Drain(r io.Reader) { _, _ = io.Copy(io.Discard, r) }
