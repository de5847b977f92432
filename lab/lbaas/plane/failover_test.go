package plane_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab/lbaas/plane"
)

// pids notes the process of each instance.
type pids struct {
	mu  sync.Mutex
	pid map[string]int
}

func (p *pids) noting(start func(context.Context, string) (plane.Process, error)) func(context.Context, string) (plane.Process, error) {
	p.pid = map[string]int{}
	return func(ctx context.Context, name string) (plane.Process, error) {
		proc, err := start(ctx, name)
		if err == nil {
			p.mu.Lock()
			p.pid[name] = proc.PID()
			p.mu.Unlock()
		}
		return proc, err
	}
}

func (p *pids) of(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid[name]
}

// nextFailover waits for one.
func nextFailover(t *testing.T, set *plane.Set) plane.Failover {
	t.Helper()
	select {
	case events := <-set.Events():
		if len(events) != 1 {
			t.Fatal(events)
		}
		t.Logf("%+v", events[0])
		return events[0]
	case <-time.After(patience):
		t.Fatal("no failover")
	}
	return plane.Failover{}
}

// vipsOf lists the addresses of one host on an instance's link.
func (s *space) vipsOf(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("ip", "-n", s.prefix+name, "-o", "addr", "show", "dev", "eth0").Output()
	if err != nil {
		t.Fatal(err)
	}
	var vips []string
	for _, f := range strings.Fields(string(out)) {
		if strings.HasSuffix(f, "/32") || strings.HasSuffix(f, "/128") {
			vips = append(vips, f)
		}
	}
	return strings.Join(vips, " ")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal(what, "does not become true")
		}
	}
}

// ask opens a connection from the fabric and returns who answered.
func (s *space) ask(network, to string, timeout time.Duration) (string, net.Conn, error) {
	c, err := s.dial(net.Dialer{Timeout: timeout}, network, to)
	if err != nil {
		return "", nil, err
	}
	_ = c.SetDeadline(time.Now().Add(timeout))
	if network == "udp" {
		if _, err := c.Write([]byte("?")); err != nil {
			return "", c, err
		}
	}
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	_ = c.SetDeadline(time.Time{})
	return strings.TrimSpace(string(buf[:n])), c, err
}

// answers says how long it takes until somebody answers at the VIP.
func (s *space) answers(t *testing.T, to string) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		_, c, err := s.ask("tcp", to, 100*time.Millisecond)
		if c != nil {
			c.Close()
		}
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}

const vip4, vip6 = "10.10.0.128", "fd00:10:10::128"

func (s *space) failoverBalancer(t *testing.T) plane.Balancer {
	lb := plane.Balancer{
		ID: "lb", AdminUp: true, VIPs: []netip.Addr{netip.MustParseAddr(vip4), netip.MustParseAddr(vip6)},
		Listeners: []plane.Listener{
			{ID: "tcp", Protocol: "TCP", Port: port, AdminUp: true, DefaultPool: "tcp"},
			{ID: "udp", Protocol: "UDP", Port: port, AdminUp: true, DefaultPool: "udp"},
		},
		Pools: []plane.Pool{
			{ID: "tcp", Protocol: "TCP", Algorithm: "ROUND_ROBIN", AdminUp: true, Persistence: &plane.Persistence{Type: plane.SourceIP}},
			{ID: "udp", Protocol: "UDP", Algorithm: "ROUND_ROBIN", AdminUp: true},
		},
	}
	for i := range 4 {
		name := fmt.Sprint("m", i)
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 10, 0, byte(21 + i)}), 9000)
		s.serve(t, name, at)
		for p := range lb.Pools {
			lb.Pools[p].Members = append(lb.Pools[p].Members, plane.Member{ID: name, Address: at.Addr(), Port: 9000, Weight: 1, AdminUp: true})
		}
	}
	return lb
}

// serve makes a member that says its name, by TCP and UDP, and gives back what it gets.
func (s *space) serve(t *testing.T, name string, at netip.AddrPort) {
	t.Helper()
	l := s.listen(t, at)
	var pc net.PacketConn
	if err := inSpace(s.path("srv"), func() (err error) {
		pc, err = net.ListenPacket("udp", at.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	accept(t, l, echoAs(name))
	go func() {
		buf := make([]byte, 2000)
		for {
			_, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo([]byte(name), from)
		}
	}()
}

// A killed instance's VIPs answer from the other one, from the same members for those who belong somewhere; and from the
// first again when that one is lost too.
func TestFailover(t *testing.T) {
	s := newSpace(t)
	var p pids
	set := s.planeOf(t, s.failoverBalancer(t), plane.Options{
		Names: []string{"lb1", "lb2"}, Start: p.noting(s.instances),
		Fence: func(name string) error {
			return inSpace(s.path(name), func() error { return plane.RemoveVIPs("eth0") })
		},
	})
	at := net.JoinHostPort(vip4, fmt.Sprint(port))
	who, established, err := s.ask("tcp", at, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer established.Close()
	flow, udp, err := s.ask("udp", at, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	if s.vipsOf(t, "lb1") != "10.10.0.128/32 fd00:10:10::128/128" || s.vipsOf(t, "lb2") != "" {
		t.Fatalf("VIPs: %q, %q", s.vipsOf(t, "lb1"), s.vipsOf(t, "lb2"))
	}
	eventually(t, "both are known of", func() bool {
		tcp, udp := set.Flows()
		return tcp == 1 && udp == 1
	})
	for i, c := range []struct {
		from, to, cause string
		end             func() error
	}{
		{"lb1", "lb2", plane.Killed, func() error { return set.Kill("lb1") }},
		{"lb2", "lb1", plane.Died, func() error { return unix.Kill(p.of("lb2"), unix.SIGKILL) }},
		{"lb1", "lb2", plane.Hung, func() error { return unix.Kill(p.of("lb1"), unix.SIGSTOP) }},
		{"lb2", "lb1", plane.Ordered, set.Failover},
	} {
		eventually(t, "a standby", func() bool { return set.StandbyName() == c.to })
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		t.Logf("VIP answers after %s", s.answers(t, at))
		e := nextFailover(t, set)
		if e.From != c.from || e.To != c.to || e.Cause != c.cause || e.Seconds <= 0 {
			t.Fatalf("%d: %+v", i, e)
		}
		if i == 0 && (e.FlowsLost != 1 || e.FlowsKept != 1) {
			t.Errorf("one TCP connection and one UDP flow: %+v", e)
		}
		if i > 0 {
			continue
		}
		if again, c, err := s.ask("tcp", at, patience); err != nil || again != who {
			t.Errorf("the client of %s is at %s, %v", who, again, err)
		} else {
			c.Close()
		}
		if _, err := udp.Write([]byte("?")); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 100)
		_ = udp.SetReadDeadline(time.Now().Add(patience))
		if n, err := udp.Read(buf); err != nil || string(buf[:n]) != flow {
			t.Errorf("the flow of %s is at %s, %v", flow, buf[:n], err)
		}
		if _, c, err := s.ask("tcp", net.JoinHostPort(vip6, fmt.Sprint(port)), patience); err != nil {
			t.Error(err)
		} else {
			c.Close()
		}
	}
	eventually(t, "VIPs are at one instance alone", func() bool { return s.vipsOf(t, "lb2") == "" && s.vipsOf(t, "lb1") != "" })
}

// A lone instance comes back by itself, with all it had to do.
func TestLoneInstanceComesBack(t *testing.T) {
	var p pids
	r := newRigOf(t, plane.Options{Names: []string{"lb1"}, Start: p.noting(startChild())})
	r.apply(r.balancer("TCP", newServer(t, "a").Member))
	r.who(netip.Addr{}, 5)
	r.await("connections", func(s plane.Status) bool { return s.Listeners["l"].TotalConnections == 5 })
	if err := unix.Kill(p.of("lb1"), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := nextFailover(t, r.set); e.From != "lb1" || e.To != "lb1" || e.Cause != plane.Died {
		t.Errorf("%+v", e)
	}
	r.who(netip.Addr{}, 5)
	r.await("counters go on", func(s plane.Status) bool { return s.Listeners["l"].TotalConnections == 10 })
}

// Two instances that share addresses: the standby binds them when the other is gone, be it hung.
func TestFailoverOnLoopback(t *testing.T) {
	var p pids
	r := newRigOf(t, plane.Options{Names: []string{"lb1", "lb2"}, Start: p.noting(startChild())})
	r.apply(r.balancer("TCP", newServer(t, "a").Member))
	eventually(t, "a standby", func() bool { return r.set.StandbyName() == "lb2" })
	r.dial()
	if err := unix.Kill(p.of("lb1"), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if e := nextFailover(t, r.set); e.Cause != plane.Hung || e.To != "lb2" {
		t.Errorf("%+v", e)
	}
	r.dial()
	r.await("who answers", func(s plane.Status) bool { return s.Instance == "lb2" && len(s.Problems) == 0 })
	if err := r.set.Kill("nobody"); err == nil {
		t.Error("killed nobody")
	}
}
