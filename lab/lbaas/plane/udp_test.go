package plane_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane"
)

// newUDPServer is a member that answers a datagram with its name and what it got.
func newUDPServer(t *testing.T, name string) plane.Member {
	t.Helper()
	m := plane.Member{ID: name, Address: newAddr(), Port: 9000, Weight: 1, AdminUp: true}
	c, err := net.ListenPacket("udp", netip.AddrPortFrom(m.Address, m.Port).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 2000)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(fmt.Appendf(nil, "%s %s", name, buf[:n]), from)
		}
	}()
	return m
}

// flow is a client's socket.
type flow struct {
	*net.UDPConn
	t *testing.T
}

func (r *rig) flow(from netip.Addr) flow {
	r.t.Helper()
	d := net.Dialer{}
	if from.IsValid() {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	c, err := d.Dial("udp", r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return flow{c.(*net.UDPConn), r.t}
}

// ask sends a datagram and returns who answered.
func (f flow) ask() string {
	f.t.Helper()
	if _, err := f.Write([]byte("hello")); err != nil {
		f.t.Fatal(err)
	}
	buf := make([]byte, 100)
	_ = f.SetReadDeadline(time.Now().Add(patience))
	n, err := f.Read(buf)
	if err != nil {
		f.t.Fatal(err)
	}
	name, rest, _ := strings.Cut(string(buf[:n]), " ")
	if rest != "hello" {
		f.t.Errorf("answer %q", buf[:n])
	}
	return name
}

// silent says that nobody answers.
func (f flow) silent() bool {
	f.t.Helper()
	_, _ = f.Write([]byte("hello"))
	_ = f.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, err := f.Read(make([]byte, 100))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func TestUDP(t *testing.T) {
	r := newRig(t)
	a, b := newUDPServer(t, "a"), newUDPServer(t, "b")
	lb := r.balancer("UDP", a, b)
	r.apply(lb)
	one, two := r.flow(netip.Addr{}), r.flow(netip.Addr{})
	for range 3 { // a flow stays, the next one goes elsewhere
		if got := one.ask() + two.ask(); got != "ab" {
			t.Error(got)
		}
	}
	r.await("counters", func(s plane.Status) bool {
		n := s.Listeners["l"]
		return n.ActiveConnections == 2 && n.TotalConnections == 2 && n.BytesIn == 30 && n.BytesOut == 42
	})
	lb.Pools[0].Members[0].Weight = 0 // flows go on, no new ones
	r.apply(lb)
	if got := one.ask() + two.ask() + r.flow(netip.Addr{}).ask(); got != "abb" {
		t.Error("drained:", got)
	}
	lb.Pools[0].Members = lb.Pools[0].Members[1:]
	r.apply(lb)
	if got := one.ask() + two.ask(); got != "bb" {
		t.Error("removed:", got)
	}
	lb.Pools[0].Members = nil
	r.apply(lb)
	if !one.silent() {
		t.Error("somebody answers without a member")
	}
}

func TestUDPPersistence(t *testing.T) {
	r := newRig(t)
	lb := r.balancer("UDP", newUDPServer(t, "a"), newUDPServer(t, "b"))
	lb.Pools[0].Persistence = &plane.Persistence{Type: plane.SourceIP, Timeout: 300 * time.Millisecond}
	r.apply(lb)
	from := newAddr()
	first := r.flow(from).ask()
	for range 4 {
		if got := r.flow(from).ask(); got != first {
			t.Errorf("from %s to %s", first, got)
		}
	}
	eventually(t, "persistence has expired and another member answers", func() bool {
		time.Sleep(350 * time.Millisecond) // longer than the timeout without a flow
		return r.flow(from).ask() != first
	})
	lb.Pools[0].Persistence = &plane.Persistence{Type: plane.SourceIP, Granularity: "255.255.255.0"}
	r.apply(lb)
	one, two := netip.MustParseAddr("127.9.9.1"), netip.MustParseAddr("127.9.9.2")
	for range 3 {
		if a, b := r.flow(one).ask(), r.flow(two).ask(); a != b {
			t.Error("neighbours are at", a, b)
		}
	}
}

func TestUDPLimits(t *testing.T) {
	r := newRig(t)
	lb := r.balancer("UDP", newUDPServer(t, "a"))
	lb.Listeners[0].ConnectionLimit = 1
	friend := newAddr()
	lb.Listeners[0].AllowedCIDRs = []netip.Prefix{netip.PrefixFrom(friend, 32)}
	r.apply(lb)
	r.flow(friend).ask()
	if !r.flow(friend).silent() {
		t.Error("a second flow")
	}
	lb.Listeners[0].ConnectionLimit = 0
	r.apply(lb)
	if !r.flow(netip.MustParseAddr("127.0.0.9")).silent() {
		t.Error("a stranger is answered")
	}
	r.flow(friend).ask()
}
