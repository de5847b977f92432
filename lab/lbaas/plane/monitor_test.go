package plane_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane"
)

func monitor(kind string) *plane.Monitor {
	return &plane.Monitor{
		ID: "m", Type: kind, AdminUp: true, Delay: 100 * time.Millisecond, Timeout: 100 * time.Millisecond, MaxRetries: 2, MaxRetriesDown: 2,
	}
}

// Members that do not work get no connections, and come back.
func TestMonitorTakesMembersOut(t *testing.T) {
	r := newRig(t)
	a, b := newServer(t, "a"), newServer(t, "b")
	lb := r.balancer("TCP", members(a, b)...)
	lb.Pools[0].Monitor = monitor("TCP")
	r.apply(lb)
	r.await("both work", func(s plane.Status) bool { return s.Members["a"] == plane.Online && s.Members["b"] == plane.Online })
	a.listener.Close()
	r.await("a is down", func(s plane.Status) bool { return s.Members["a"] == plane.Error && s.Members["b"] == plane.Online })
	same(t, "answers", count(r.who(netip.Addr{}, 4)), map[string]int{"b": 4})
	b.listener.Close()
	r.await("b is down", func(s plane.Status) bool { return s.Members["b"] == plane.Error })
	if _, err := dialFrom(netip.Addr{}, r.at); err == nil {
		t.Error("served by nobody")
	}
	serverAt(t, "a", netip.AddrPortFrom(a.Address, a.Port), echoAs("a"))
	r.await("a is back", func(s plane.Status) bool { return s.Members["a"] == plane.Online })
	same(t, "answers", count(r.who(netip.Addr{}, 4)), map[string]int{"a": 4})
	lb.Pools[0].Members[0].Weight = 0
	lb.Pools[0].Members[1].AdminUp = false
	r.apply(lb)
	r.await("drained, off", func(s plane.Status) bool {
		return s.Members["a"] == plane.Draining && s.Members["b"] == plane.Offline
	})
	lb.Pools[0].Monitor.AdminUp = false
	lb.Pools[0].Members[0].Weight = 1
	r.apply(lb)
	r.await("no monitor", func(s plane.Status) bool { return s.Members["a"] == plane.NoMonitor })
	lb.AdminUp = false
	r.apply(lb)
	r.await("switched off", func(s plane.Status) bool { return s.Members["a"] == plane.Offline })
	if _, err := dialFrom(netip.Addr{}, r.at); err == nil {
		t.Error("a balancer that is switched off serves")
	}
}

// Every kind of monitor, with a member that works and one that does not, and the address and port to ask elsewhere.
func TestMonitors(t *testing.T) {
	for _, kind := range []string{"TCP", "HTTP", "UDP-CONNECT"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			good, bad := newServer(t, "good"), refusing("bad")
			watched := newServer(t, "watched elsewhere").Member
			switch kind {
			case "HTTP":
				good = serverAt(t, "good", netip.AddrPortFrom(newAddr(), 9000), func(c net.Conn) {
					fmt.Fprint(c, "HTTP/1.0 204 No Content\r\n\r\n")
				})
			case "UDP-CONNECT":
				good = &server{Member: newUDPServer(t, "good")}
			}
			watched.MonitorAddress, watched.MonitorPort = good.Address, good.Port
			lb := r.balancer("TCP", good.Member, bad, watched)
			lb.Pools[0].Monitor = monitor(kind)
			lb.Pools[0].Monitor.ExpectedCodes = "200-204"
			r.apply(lb)
			r.await("states", func(s plane.Status) bool {
				return s.Members["good"] == plane.Online && s.Members["bad"] == plane.Error && s.Members["watched elsewhere"] == plane.Online
			})
		})
	}
}

func TestPingMonitor(t *testing.T) {
	s := newSpace(t)
	set := plane.NewSet(plane.Options{Names: []string{"lb1"}, Start: s.instances})
	t.Cleanup(set.Close)
	lb := plane.Balancer{ID: "lb", AdminUp: true, Pools: []plane.Pool{{
		ID: "p", Protocol: "TCP", Algorithm: "ROUND_ROBIN", AdminUp: true, Monitor: monitor("PING"),
	}}}
	for _, a := range []string{"10.10.0.21", "10.10.0.99", "fd00:10:10::21", "fd00:10:10::99"} {
		lb.Pools[0].Members = append(lb.Pools[0].Members,
			plane.Member{ID: a, Address: netip.MustParseAddr(a), Port: 9000, Weight: 1, AdminUp: true})
	}
	if err := set.Apply(t.Context(), []plane.Balancer{lb}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"10.10.0.21": plane.Online, "10.10.0.99": plane.Error, "fd00:10:10::21": plane.Online, "fd00:10:10::99": plane.Error}
	limit := time.After(patience)
	var got plane.Status
	for !maps.Equal(got.Members, want) {
		select {
		case batch := <-set.Statuses():
			got = batch[0]
		case <-limit:
			t.Fatalf("%+v", got)
		}
	}
}

// One failure does not take a member out that worked, as many as asked for do.
func TestMonitorCounts(t *testing.T) {
	r := newRig(t)
	var asked, bad atomic.Int64
	l, err := net.Listen("tcp", netip.AddrPortFrom(newAddr(), 9000).String())
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if bad.Add(-1) >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "ok")
	})}
	go func() { _ = web.Serve(l) }()
	t.Cleanup(func() { web.Close() })
	at := l.Addr().(*net.TCPAddr).AddrPort()
	lb := r.balancer("TCP", plane.Member{ID: "a", Address: at.Addr(), Port: at.Port(), Weight: 1, AdminUp: true})
	lb.Pools[0].Monitor = monitor("HTTP")
	lb.Pools[0].Monitor.MaxRetriesDown = 3
	lb.Pools[0].Monitor.Delay, lb.Pools[0].Monitor.Timeout = 20*time.Millisecond, 20*time.Second
	r.apply(lb)
	r.await("works", func(s plane.Status) bool { return s.Members["a"] == plane.Online })
	bad.Store(2)
	eventually(t, "two failures and more", func() bool { return bad.Load() < -2 })
	r.mu.Lock()
	if r.status.Members["a"] != plane.Online {
		t.Error("two failures of three were enough")
	}
	r.mu.Unlock()
	bad.Store(3)
	r.await("down", func(s plane.Status) bool { return s.Members["a"] == plane.Error })
	r.await("up", func(s plane.Status) bool { return s.Members["a"] == plane.Online })
}
