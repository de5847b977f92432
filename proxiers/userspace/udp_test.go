package userspace

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// udpBackend answers each datagram with a name in front of it.
func udpBackend(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(append([]byte(name+":"), buf[:n]...), from)
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func askUDP(c net.Conn, text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 64<<10)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

func dialUDP(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestUDPFlows(t *testing.T) {
	for _, family := range []services.Family{services.IPv4, services.IPv6} {
		f, address := newTestFront(t, corev1.ProtocolUDP, family)
		if got, err := askUDP(dialUDP(t, address), "x"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s without endpoints: %q, %v", family, got, err)
		}
		a, b := udpBackend(t, "a"), udpBackend(t, "b")
		use(t, f, 0, a, b)
		c1, c2 := dialUDP(t, address), dialUDP(t, address)
		first, err := askUDP(c1, "1")
		if err != nil {
			t.Fatal(err)
		}
		other, err := askUDP(c2, "1")
		if err != nil || other == first {
			t.Errorf("%s: flows went to %q and %q, %v", family, first, other, err)
		}
		for range 5 {
			if got, err := askUDP(c1, "1"); got != first || err != nil {
				t.Errorf("%s: a flow moved: %q, %v", family, got, err)
			}
		}
		// The endpoint of the first flow goes: it alone moves.
		stays := map[string]netip.AddrPort{"a:1": b, "b:1": a}[first]
		if dropped := use(t, f, 0, stays); dropped != 1 {
			t.Errorf("%s: %d flows dropped", family, dropped)
		}
		for _, c := range []net.Conn{c1, c2} {
			if got, err := askUDP(c, "1"); got != other || err != nil {
				t.Errorf("%s: after the endpoint went: %q, %v", family, got, err)
			}
		}
		if dropped := use(t, f, 0); dropped != 2 {
			t.Errorf("%s: %d flows dropped at the end", family, dropped)
		}
		if got, err := askUDP(c1, "1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s after the last endpoint went: %q, %v", family, got, err)
		}
	}
}

func TestUDPIdleFlowsEnd(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolUDP, services.IPv4)
	f.udp.idle = 50 * time.Millisecond
	use(t, f, 0, udpBackend(t, "a"))
	for range 20 {
		if _, err := askUDP(dialUDP(t, address), "x"); err != nil {
			t.Fatal(err)
		}
	}
	until(t, func() bool {
		f.udp.mu.Lock()
		defer f.udp.mu.Unlock()
		return len(f.udp.flows) == 0
	})
}

func TestUDPRefusedEndpointIsLeft(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolUDP, services.IPv4)
	use(t, f, 0, udpBackend(t, "a"), closedPort(t)) // held for TCP only, but nobody else will have it for UDP
	c := dialUDP(t, address)
	until(t, func() bool {
		_, _ = io.WriteString(c, "x")
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := c.Read(make([]byte, 10))
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		return n > 0
	})
}

func TestUDPSizes(t *testing.T) {
	f, address := newTestFront(t, corev1.ProtocolUDP, services.IPv4)
	use(t, f, 0, udpBackend(t, "a"))
	for _, size := range []int{0, 1, 1500, 60_000} {
		text := string(bytes.Repeat([]byte("x"), size))
		if got, err := askUDP(dialUDP(t, address), text); got != "a:"+text || err != nil {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
}
