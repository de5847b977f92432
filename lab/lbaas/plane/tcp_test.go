package plane_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane"
)

func TestTCPInTurn(t *testing.T) {
	r := newRig(t)
	a, b, c := newServer(t, "a"), newServer(t, "b"), newServer(t, "c")
	lb := r.balancer("TCP", members(a, b, c)...)
	r.apply(lb)
	if got := strings.Join(r.who(netip.Addr{}, 6), ""); got != "abcabc" {
		t.Error(got)
	}
	lb.Pools[0].Members[0].Weight = 0 // drained
	lb.Pools[0].Members[1].AdminUp = false
	r.apply(lb)
	same(t, "only c is left", count(r.who(netip.Addr{}, 4)), map[string]int{"c": 4})
	lb.Pools[0].Members[2].AdminUp = false
	r.apply(lb)
	if _, err := dialFrom(netip.Addr{}, r.at); !errors.Is(err, io.EOF) {
		t.Errorf("no member, but %v", err)
	}
	r.await("members' states", func(s plane.Status) bool {
		return s.Members["a"] == plane.Draining && s.Members["b"] == plane.Offline && s.Members["c"] == plane.Offline
	})
}

func TestBackupsServeWhenNobodyElseDoes(t *testing.T) {
	r := newRig(t)
	a, b, c := newServer(t, "a"), newServer(t, "b"), newServer(t, "c")
	b.Backup, c.Backup = true, true
	lb := r.balancer("TCP", members(a, b, c)...)
	r.apply(lb)
	same(t, "backups wait", count(r.who(netip.Addr{}, 4)), map[string]int{"a": 4})
	lb.Pools[0].Members[0].AdminUp = false
	r.apply(lb)
	same(t, "all backups serve", count(r.who(netip.Addr{}, 4)), map[string]int{"b": 2, "c": 2})
}

func TestLeastConnections(t *testing.T) {
	r := newRig(t)
	a, b := newServer(t, "a"), newServer(t, "b")
	lb := r.balancer("TCP", members(a, b)...)
	lb.Pools[0].Algorithm = "LEAST_CONNECTIONS"
	r.apply(lb)
	open := map[string][]*client{}
	for range 6 {
		c := r.dial()
		open[c.member] = append(open[c.member], c)
	}
	if len(open["a"]) != 3 || len(open["b"]) != 3 {
		t.Fatal(open)
	}
	for _, c := range open["b"] {
		c.Close()
	}
	r.await("b's connections have ended", func(s plane.Status) bool { return s.Listeners["l"].ActiveConnections == 3 })
	for range 3 {
		if c := r.dial(); c.member != "b" {
			t.Error("the one with more to do was chosen")
		}
	}
}

// A client comes back to its member: also when that is drained, but not when it is switched off.
func TestPersistenceBySource(t *testing.T) {
	r := newRig(t)
	a, b := newServer(t, "a"), newServer(t, "b")
	lb := r.balancer("TCP", members(a, b)...)
	lb.Pools[0].Persistence = &plane.Persistence{Type: plane.SourceIP}
	r.apply(lb)
	one, two := newAddr(), newAddr()
	first, second := r.who(one, 1)[0], r.who(two, 1)[0]
	if first == second {
		t.Fatal("both at", first)
	}
	same(t, "first client", count(r.who(one, 5)), map[string]int{first: 5})
	same(t, "second client", count(r.who(two, 5)), map[string]int{second: 5})
	lb.Pools[0].Members[0].Weight = 0
	r.apply(lb)
	same(t, "clients of a drained member", count(append(r.who(one, 3), r.who(two, 3)...)), map[string]int{"a": 3, "b": 3})
	same(t, "a new client", count(r.who(newAddr(), 3)), map[string]int{"b": 3})
	lb.Pools[0].Members[0].AdminUp = false
	r.apply(lb)
	same(t, "all clients", count(append(r.who(one, 3), r.who(two, 3)...)), map[string]int{"b": 6})
}

func TestHalfClose(t *testing.T) {
	r := newRig(t)
	answer := serverAt(t, "a", netip.AddrPortFrom(newAddr(), 9000), func(c net.Conn) {
		fmt.Fprintln(c, "a")
		b, _ := io.ReadAll(c) // until the client has said all
		fmt.Fprintf(c, "%d bytes", len(b))
	})
	r.apply(r.balancer("TCP", answer.Member))
	c := r.dial()
	const size = 5 << 20
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c.r); err != nil || string(got) != fmt.Sprint(size, " bytes") {
		t.Errorf("%q, %v", got, err)
	}
	r.await("counters", func(s plane.Status) bool {
		n := s.Listeners["l"]
		return n.ActiveConnections == 0 && n.TotalConnections == 1 && n.BytesIn == size && n.BytesOut == int64(len("a\n5242880 bytes"))
	})
}

// Bytes are counted while a connection lasts.
func TestCountersOfOpenConnections(t *testing.T) {
	r := newRig(t)
	r.apply(r.balancer("TCP", newServer(t, "a").Member))
	c := r.dial()
	c.echoes(t, "1234567")
	r.await("counters", func(s plane.Status) bool {
		n := s.Listeners["l"]
		return n.ActiveConnections == 1 && n.BytesIn == 8 && n.BytesOut == 10
	})
	c.Close()
	r.await("counters", func(s plane.Status) bool {
		n := s.Listeners["l"]
		return n.ActiveConnections == 0 && n.BytesIn == 8 && n.BytesOut == 10
	})
}

// Whatever changes around them, connections go on; with their balancer they end.
func TestConnectionsOutliveChanges(t *testing.T) {
	r := newRig(t)
	a, b := newServer(t, "a"), newServer(t, "b")
	lb := r.balancer("TCP", members(a, b)...)
	r.apply(lb)
	c := r.dial()
	if c.member != "a" {
		t.Fatal(c.member)
	}
	lb.Pools[0].Members = members(b)
	r.apply(lb)
	c.echoes(t, "member removed")
	lb.Listeners[0].AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	r.apply(lb)
	c.echoes(t, "allowed CIDRs")
	lb.Listeners[0].DefaultPool = ""
	r.apply(lb)
	c.echoes(t, "no pool")
	lb.Listeners, lb.Pools = nil, nil
	r.apply(lb)
	c.echoes(t, "listener removed")
	if _, err := dialFrom(netip.Addr{}, r.at); err == nil {
		t.Error("it still listens")
	}
	if err := r.set.Apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("the connection goes on without its balancer")
	}
}

func TestConnectionLimit(t *testing.T) {
	r := newRig(t)
	lb := r.balancer("TCP", newServer(t, "a").Member)
	lb.Listeners[0].ConnectionLimit = 2
	r.apply(lb)
	one := r.dial()
	r.dial()
	third := make(chan error)
	go func() {
		c, err := dialFrom(netip.Addr{}, r.at)
		if err == nil {
			c.Close()
		}
		third <- err
	}()
	r.await("two connections", func(s plane.Status) bool { return s.Listeners["l"].ActiveConnections == 2 })
	select {
	case err := <-third:
		t.Error("served above the limit:", err)
	case <-time.After(50 * time.Millisecond): // a wrong one would be served in a fraction of it
	}
	one.Close()
	if err := <-third; err != nil {
		t.Error(err)
	}
	waiting := make(chan error)
	r.dial()
	go func() {
		c, err := dialFrom(netip.Addr{}, r.at)
		if err == nil {
			c.Close()
		}
		waiting <- err
	}()
	lb.Listeners[0].ConnectionLimit = 0
	r.apply(lb)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	for _, c := range []struct {
		name     string
		timeouts plane.Timeouts
	}{
		{"client data", plane.Timeouts{ClientData: 200 * time.Millisecond}},
		{"member data", plane.Timeouts{MemberData: 200 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			lb := r.balancer("TCP", newServer(t, "a").Member)
			lb.Listeners[0].Timeouts = c.timeouts
			r.apply(lb)
			c := r.dial()
			for range 10 { // activity keeps it
				time.Sleep(40 * time.Millisecond)
				c.echoes(t, "still there")
			}
			if _, err := c.r.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
				t.Error(err)
			}
		})
	}
}

// A member that refuses costs nobody a connection.
func TestRedispatch(t *testing.T) {
	for _, algorithm := range []string{"ROUND_ROBIN", "LEAST_CONNECTIONS"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			lb := r.balancer("TCP", refusing("dead"), newServer(t, "a").Member)
			lb.Pools[0].Algorithm = algorithm
			r.apply(lb)
			same(t, "answers", count(r.who(netip.Addr{}, 3)), map[string]int{"a": 3})
		})
	}
	t.Run("persistent client", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		a, b := newServer(t, "a"), newServer(t, "b")
		lb := r.balancer("TCP", members(a, b)...)
		lb.Pools[0].Persistence = &plane.Persistence{Type: plane.SourceIP}
		r.apply(lb)
		from := newAddr()
		if got := r.who(from, 1)[0]; got != "a" {
			t.Fatal(got)
		}
		a.listener.Close()
		same(t, "client of a dead member", count(r.who(from, 2)), map[string]int{"b": 2})
	})
	t.Run("all dead", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.apply(r.balancer("TCP", refusing("x"), refusing("y")))
		if _, err := dialFrom(netip.Addr{}, r.at); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

func TestPROXYProtocol(t *testing.T) {
	for _, c := range []struct {
		protocol string
		want     func(client netip.AddrPort, vip netip.AddrPort) string
	}{
		{"PROXY", func(client, vip netip.AddrPort) string {
			return fmt.Sprintf("PROXY TCP4 %s %s %d %d\r\nhello", client.Addr(), vip.Addr(), client.Port(), vip.Port())
		}},
		{"PROXYV2", func(client, vip netip.AddrPort) string {
			b := []byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c")
			b = append(append(b, client.Addr().AsSlice()...), vip.Addr().AsSlice()...)
			b = append(b, byte(client.Port()>>8), byte(client.Port()), byte(vip.Port()>>8), byte(vip.Port()))
			return string(b) + "hello"
		}},
	} {
		t.Run(c.protocol, func(t *testing.T) {
			r := newRig(t)
			heard := make(chan string, 1)
			raw := serverAt(t, "a", netip.AddrPortFrom(newAddr(), 9000), func(c net.Conn) {
				fmt.Fprintln(c, "a")
				b, _ := io.ReadAll(c)
				heard <- string(b)
			})
			lb := r.balancer("TCP", raw.Member)
			lb.Pools[0].Protocol = c.protocol
			r.apply(lb)
			conn := r.dial()
			fmt.Fprint(conn, "hello")
			conn.CloseWrite()
			from := conn.LocalAddr().(*net.TCPAddr).AddrPort()
			if got, want := <-heard, c.want(from, netip.AddrPortFrom(r.vip, port)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A VIP that is taken is told, and tried again.
func TestBusyVIP(t *testing.T) {
	r := newRig(t)
	taken, err := net.Listen("tcp", r.at)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r.apply(r.balancer("TCP", newServer(t, "a").Member))
	r.await("problem", func(s plane.Status) bool { return strings.Contains(s.Problems["l"], "address already in use") })
	taken.Close()
	r.await("no problem", func(s plane.Status) bool { return len(s.Problems) == 0 })
	r.dial()
}

func TestProblems(t *testing.T) {
	r := newRig(t)
	lb := r.balancer("SCTP", newServer(t, "a").Member)
	r.apply(lb)
	r.await("problem", func(s plane.Status) bool { return strings.Contains(s.Problems["l"], "SCTP") })
	lb = r.balancer("TCP", newServer(t, "a").Member)
	lb.Pools[0].Algorithm = "GUESS"
	r.apply(lb)
	r.await("problem", func(s plane.Status) bool { return strings.Contains(s.Problems["l"], "GUESS") })
	lb = r.balancer("TCP", newServer(t, "a").Member)
	lb.VIPs = []netip.Addr{netip.MustParseAddr("192.0.2.1")} // nobody's
	r.apply(lb)
	r.await("problem", func(s plane.Status) bool { return strings.Contains(s.Problems["l"], "cannot assign requested address") })
	if err := r.set.Apply(t.Context(), []plane.Balancer{lb, lb}); err == nil {
		t.Error("one balancer twice")
	}
}

// Others than allowed get no answer at all, and who is allowed may change at any time.
func TestAllowedCIDRs(t *testing.T) {
	r := newRig(t)
	lb := r.balancer("TCP", newServer(t, "a").Member)
	friend, stranger := newAddr(), netip.MustParseAddr("127.0.0.9")
	lb.Listeners[0].AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.PrefixFrom(friend, 24).Masked()}
	r.apply(lb)
	shut := func(from netip.Addr) bool {
		d := net.Dialer{Timeout: 300 * time.Millisecond, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		c, err := d.Dial("tcp", r.at)
		if err == nil {
			c.Close()
			return false
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("from %s: not dropped but %v", from, err)
		}
		return true
	}
	c, err := dialFrom(friend, r.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !shut(stranger) {
		t.Error("a stranger came in")
	}
	lb.Listeners[0].AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
	r.apply(lb)
	if shut(stranger) || !shut(friend) {
		t.Error("the change did not count")
	}
	c.echoes(t, "established before")
	lb.Listeners[0].AllowedCIDRs = nil
	r.apply(lb)
	if shut(stranger) || shut(friend) {
		t.Error("everyone may come")
	}
}
