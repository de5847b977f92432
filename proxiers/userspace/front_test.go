package userspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// newTestFront is a front without rules in front of it, on loopback.
func newTestFront(t *testing.T, proto corev1.Protocol, family services.Family) (*front, string) {
	t.Helper()
	conns := newConnections()
	f, err := newFront(services.Key{Namespace: "test", Service: "web", Protocol: proto, Family: family}, conns,
		slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.close()
		conns.close()
		goleak.VerifyNone(t, goleak.IgnoreCurrent())
	})
	address := fmt.Sprintf("127.0.0.1:%d", f.hold.port)
	if family == services.IPv6 {
		address = fmt.Sprintf("[::1]:%d", f.hold.port)
	}
	return f, address
}

func use(t *testing.T, f *front, affinity time.Duration, endpoints ...netip.AddrPort) int {
	t.Helper()
	sp := &services.ServicePort{AffinityTimeout: affinity}
	for _, e := range endpoints {
		sp.ClusterEndpoints = append(sp.ClusterEndpoints, services.Endpoint{Addr: e})
	}
	dropped, err := f.update(sp, sp.ClusterEndpoints)
	if err != nil {
		t.Fatal(err)
	}
	return dropped
}

// backend serves TCP on loopback; each connection is handled by serve and then closed.
func backend(t *testing.T, serve func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// closedPort is an address where nobody listens, and nobody will.
func closedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	h, err := hold(corev1.ProtocolTCP, services.IPv4, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), h.port)
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

func says(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { _, _ = io.WriteString(c, text) }
}

func TestTCPRefusesWithoutEndpointsAndKeepsItsPort(t *testing.T) {
	for _, family := range []services.Family{services.IPv4, services.IPv6} {
		f, address := newTestFront(t, corev1.ProtocolTCP, family)
		one := backend(t, says("one"))
		for range 3 {
			if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s without endpoints: %v", family, err)
			}
			use(t, f, 0, one)
			if got, err := io.ReadAll(dial(t, address)); string(got) != "one" || err != nil {
				t.Errorf("%s: %q, %v", family, got, err)
			}
			use(t, f, 0)
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			t.Errorf("%s: somebody else could take the port", family)
		}
	}
}

func TestTCPTakesTurnsAndSkipsWhatRefuses(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolTCP, services.IPv4)
	use(t, f, 0, backend(t, says("a")), backend(t, says("b")), closedPort(t), closedPort(t))
	count := map[string]int{}
	for range 40 {
		got, err := io.ReadAll(dial(t, address))
		if err != nil {
			t.Fatal(err)
		}
		count[string(got)]++
	}
	if count["a"]+count["b"] != 40 || count["a"] < 10 || count["b"] < 10 {
		t.Errorf("answers: %v", count)
	}
	use(t, f, 0, closedPort(t))
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err == nil { // the reset may be faster than connect(2)
		defer c.Close()
		_, err = io.ReadAll(c)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("nobody accepts: %v", err)
	}
}

func TestTCPHalfClose(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolTCP, services.IPv4)
	use(t, f, 0, backend(t, func(c *net.TCPConn) { // answers only after the end of the question
		question, err := io.ReadAll(c)
		if err == nil {
			fmt.Fprintf(c, "%d bytes", len(question))
		}
	}))
	c := dial(t, address)
	if _, err := c.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "100000 bytes" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	// And the other way round: the server ends first, and still reads.
	read := make(chan int, 1)
	use(t, f, 0, backend(t, func(c *net.TCPConn) {
		_ = c.CloseWrite()
		n, _ := io.Copy(io.Discard, c)
		read <- int(n)
	}))
	c = dial(t, address)
	if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.Write(make([]byte, 1234)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if n := <-read; n != 1234 {
		t.Errorf("the server read %d bytes", n)
	}
}

func TestTCPPassesOnAReset(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolTCP, services.IPv4)
	use(t, f, 0, backend(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_, _ = io.WriteString(c, "part of the ans")
		reset(c)
	}))
	c := dial(t, address)
	_, _ = c.Write([]byte("?"))
	if got, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v: a broken answer looks whole", got, err)
	}
	broken := make(chan error, 1)
	use(t, f, 0, backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "hello")
		_, err := io.ReadAll(c)
		broken <- err
	}))
	c = dial(t, address)
	_, _ = io.ReadFull(c, make([]byte, 5))
	reset(c)
	if err := <-broken; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server saw %v", err)
	}
}

func TestTCPOpenConnectionsSurviveUpdates(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolTCP, services.IPv4)
	use(t, f, 0, backend(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) }))
	c := dial(t, address)
	echo := func() {
		t.Helper()
		got := make([]byte, 4)
		if _, err := io.WriteString(c, "ping"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "ping" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	echo()
	use(t, f, 0, backend(t, says("other")))
	echo()
	use(t, f, 0)
	echo()
}

func TestTCPManyConnectionsKeepTheirBytes(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolTCP, services.IPv4)
	echo := func(c *net.TCPConn) { _, _ = io.Copy(c, c) }
	use(t, f, 0, backend(t, echo), backend(t, echo), backend(t, echo))
	var wg sync.WaitGroup
	for n := range 200 {
		wg.Go(func() {
			if err := echoed(address, uint64(n), 200_000); err != nil {
				t.Errorf("connection %d: %v", n, err)
			}
		})
	}
	wg.Wait()
}

// echoed sends random bytes and fails unless the same come back.
func echoed(address string, seed uint64, size int) error {
	c, err := net.DialTimeout("tcp", address, 30*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	data := make([]byte, size)
	random := rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, seed)))
	_, _ = random.Read(data)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		sent <- errors.Join(err, c.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(c)
	if !bytes.Equal(got, data) && err == nil {
		err = fmt.Errorf("sent %d bytes, got %d others", len(data), len(got))
	}
	return errors.Join(err, <-sent)
}

func TestCloseEndsConnections(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolTCP, services.IPv4)
	ended := make(chan struct{})
	use(t, f, 0, backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "x")
		_, _ = io.ReadAll(c)
		close(ended)
	}))
	c := dial(t, address)
	_, _ = io.ReadFull(c, make([]byte, 1))
	f.close()
	f.server.(*tcpServer).conns.close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("still open after Close")
	}
	<-ended
}

// Ports that are held are not given to anybody, and are given back.
func TestHoldersDoNotCollide(t *testing.T) {
	for _, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		var ports []uint16
		for range 500 {
			h, err := hold(proto, services.IPv4, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer h.close()
			if slices.Contains(ports, h.port) {
				t.Fatalf("%s port %d twice", proto, h.port)
			}
			ports = append(ports, h.port)
			if proto == corev1.ProtocolUDP {
				c, err := h.listenUDP(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
		}
	}
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never")
		}
	}
}

// A port that an earlier process's rules still lead to is nobody's.
func TestPortsToAvoidAreNotHeld(t *testing.T) {
	even := map[uint16]bool{}
	for n := 0; n < 1<<16; n += 2 {
		even[uint16(n)] = true
	}
	for range 20 {
		for _, proto := range protocols {
			h, err := hold(proto, services.IPv4, even)
			if err != nil {
				t.Fatal(err)
			}
			defer h.close()
			if h.port%2 == 0 {
				t.Errorf("%s port %d is held", proto, h.port)
			}
		}
	}
	all := map[uint16]bool{}
	for n := range 1 << 16 {
		all[uint16(n)] = true
	}
	if h, err := hold("TCP", services.IPv4, all); err == nil {
		h.close()
		t.Error("no port is allowed, one is held")
	}
}
