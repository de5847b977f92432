package load

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"proxylab/bench/load/echotest"
)

// target is the address at which a pod serves a kind of load.
func target(p *echotest.Pod, kind string) string {
	return map[string]string{HTTP: p.HTTP, Connect: p.TCP, UDP: p.UDP, Stream: p.Stream, Hold: p.TCP}[kind]
}

var paced = []Spec{
	{Name: "http new", Kind: HTTP},
	{Name: "http keepalive", Kind: HTTP, Connections: KeepAlive},
	{Name: "http keepalive 3 clients", Kind: HTTP, Connections: KeepAlive, Count: 3},
	{Name: "connect", Kind: Connect},
	{Name: "udp new", Kind: UDP},
	{Name: "udp flows", Kind: UDP, Connections: KeepAlive, Count: 4},
}

func TestPacedLoadsSendWhatTheRateSays(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		a, b := echotest.Start(t, "pod-a", host), echotest.Start(t, "pod-b", host)
		for _, s := range paced {
			t.Run(s.Name+" "+host, func(t *testing.T) {
				s.Targets = []string{target(a, s.Kind), target(b, s.Kind)}
				s.Rate, s.Duration, s.Tick = 400, 250*time.Millisecond, quick
				sum := complete(t, s)
				sum.check(t)
				if sum.requests != 100 || sum.errors != 0 {
					t.Errorf("%d requests, want 100; errors %v", sum.requests, sum.byKind)
				}
				if sum.endpoints["pod-a"] != 50 || sum.endpoints["pod-b"] != 50 {
					t.Errorf("in turns, each gets 50: %v", sum.endpoints)
				}
				switch n := sum.connect.TotalCount(); {
				case s.Kind == UDP && n != 0, s.Kind == HTTP && s.Connections == KeepAlive && (n < 2 || n > 100),
					s.Kind != UDP && s.Connections != KeepAlive && n != 100:
					t.Errorf("%d connections made", n)
				}
				if sum.bytes == 0 {
					t.Error("no bytes received")
				}
			})
		}
	}
}

func TestStallShowsInLatency(t *testing.T) {
	for _, s := range paced {
		if s.Kind == UDP {
			continue // the pod that stalls counts connections
		}
		t.Run(s.Name, func(t *testing.T) {
			p := echotest.Start(t, "pod-a", "127.0.0.1")
			s.Targets, s.Rate, s.Tick = []string{target(p, s.Kind)}, 100, quick
			l := play(t, s)
			echotest.Await(t, "answers", func() bool { return l.now().requests >= 5 })
			p.Stall()
			before := p.Open()
			// Each stalled request occupies a connection, so 30 more of them are 30 requests, 10 ms apart.
			echotest.Await(t, "30 stalled requests", func() bool { return p.Open() >= before+30 })
			p.Resume()
			echotest.Await(t, "answers", func() bool { return l.now().requests >= 60 })
			l.stop()
			sum := l.now()
			sum.check(t)
			// The first of them waited for 300 ms, the 20th for 100 ms.
			stalled := int64(0)
			for _, bar := range sum.latency.Distribution() {
				if bar.From >= (100 * time.Millisecond).Microseconds() {
					stalled += bar.Count
				}
			}
			if stalled < 15 {
				t.Errorf("%d latencies of 100 ms and more, want 15 and more", stalled)
			}
		})
	}
}

func TestStopAwaitsWhatIsOutstanding(t *testing.T) {
	for _, s := range paced {
		t.Run(s.Name, func(t *testing.T) {
			p := echotest.Start(t, "pod-a", "127.0.0.1")
			s.Targets, s.Rate, s.Tick = []string{target(p, s.Kind)}, 200, quick
			s.Timeout = time.Minute
			l := play(t, s)
			echotest.Await(t, "answers", func() bool { return l.now().requests >= 5 })
			p.Stall()
			seen := l.now().requests
			stopped := make(chan struct{})
			time.AfterFunc(50*time.Millisecond, func() { l.stop(); close(stopped) })
			time.AfterFunc(100*time.Millisecond, p.Resume)
			<-stopped
			sum := l.now()
			sum.check(t)
			if sum.errors != 0 || sum.requests <= seen {
				t.Errorf("%d requests (%d before the stall), errors %v", sum.requests, seen, sum.byKind)
			}
		})
	}
}

func TestTimeoutBoundsTheStop(t *testing.T) {
	for _, s := range paced {
		t.Run(s.Name, func(t *testing.T) {
			p := echotest.Start(t, "pod-a", "127.0.0.1")
			p.Stall()
			s.Targets, s.Rate, s.Tick, s.Duration = []string{target(p, s.Kind)}, 200, quick, 100*time.Millisecond
			s.Timeout = 100 * time.Millisecond
			sum := complete(t, s)
			sum.check(t)
			if sum.requests != 20 || sum.byKind[Timeout]+sum.byKind[Unsent] != 20 || sum.byKind[Timeout] == 0 {
				t.Errorf("%d requests, errors %v; want 20 timeouts", sum.requests, sum.byKind)
			}
		})
	}
}

func TestOneRequestAtATimeFromAFixedPort(t *testing.T) {
	_, port, err := net.SplitHostPort(echotest.DeadPort(t, "tcp"))
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Spec{
		{Name: "connect", Kind: Connect}, {Name: "udp", Kind: UDP}, {Name: "flow", Kind: UDP, Connections: KeepAlive},
	} {
		t.Run(s.Name, func(t *testing.T) {
			p := echotest.Start(t, "pod-a", "127.0.0.1")
			s.Targets, s.SourcePort, s.Rate, s.Tick = []string{target(p, s.Kind)}, fixed, 200, quick
			s.Duration = 200 * time.Millisecond
			sum := complete(t, s)
			sum.check(t)
			if sum.requests != 40 || sum.errors != 0 {
				t.Errorf("%d requests, want 40; errors %v", sum.requests, sum.byKind)
			}
			if s.Connections == KeepAlive {
				return
			}
			p.Stall()
			s.Timeout = 50 * time.Millisecond
			sum = complete(t, s)
			sum.check(t)
			// Each waits for the one before it, up to its own deadline.
			if sum.requests != 40 || sum.byKind[Timeout]+sum.byKind[Unsent] != 40 || sum.late < 30 {
				t.Errorf("%d requests, %d late, errors %v: want 40 that failed late", sum.requests, sum.late, sum.byKind)
			}
		})
	}
}

func TestBrokenKeepAliveConnectionsAreNotHidden(t *testing.T) {
	for _, linger := range []struct {
		seconds int
		kind    string
	}{{0, Reset}, {-1, EOF}} {
		t.Run(linger.kind, func(t *testing.T) {
			var seen atomic.Int64
			addr := echotest.Script(t, func(c *net.TCPConn) {
				in := bufio.NewReader(c)
				for first := true; ; first = false {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Header.Get(seqHeader) != "" {
						t.Errorf("not a plain GET: %+v", r)
					}
					seen.Add(1)
					if !first {
						_ = c.SetLinger(linger.seconds)
						return // the second request gets no answer
					}
					if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nX-Proxylab-Pod: a\r\nContent-Length: 2\r\n\r\nok")); err != nil {
						return
					}
				}
			})
			sum := complete(t, Spec{
				Kind: HTTP, Connections: KeepAlive, Targets: []string{addr}, Rate: 100, Duration: 300 * time.Millisecond,
			})
			sum.check(t)
			if sum.requests != 30 || seen.Load() != 30 {
				t.Errorf("%d requests, the server saw %d, want 30", sum.requests, seen.Load())
			}
			if sum.errors == 0 || sum.byKind[linger.kind] != sum.errors {
				t.Errorf("errors %v of %d requests, want %s for one in two", sum.byKind, sum.requests, linger.kind)
			}
		})
	}
}

func TestHold(t *testing.T) {
	for _, how := range []struct {
		linger int
		kind   string
	}{{0, Reset}, {-1, EOF}} {
		for _, reopen := range []bool{false, true} {
			t.Run(how.kind, func(t *testing.T) {
				p := echotest.Start(t, "pod-a", "127.0.0.1")
				l := play(t, Spec{Kind: Hold, Targets: []string{p.TCP}, Count: 10, Rate: 1000, Tick: quick, Reopen: reopen})
				echotest.Await(t, "10 open connections", func() bool { return l.now().open == 10 && p.Open() == 10 })
				echotest.Await(t, "messages", func() bool { return l.now().requests >= 15 })
				if n := p.Break(how.linger); n != 10 {
					t.Errorf("%d connections were open", n)
				}
				// A close with a message unread is a reset, whatever was meant.
				echotest.Await(t, "10 broken connections", func() bool {
					now := l.now()
					return now.errors == 10 && (now.byKind[how.kind] == 10 || now.byKind[how.kind]+now.byKind[Reset] == 10)
				})
				want := 0
				if reopen {
					want = 10
					echotest.Await(t, "10 connections again", func() bool { return l.now().open == 10 && p.Open() == 10 })
				}
				l.stop()
				sum := l.now()
				sum.check(t)
				if sum.errors != 10 || sum.open != want || p.Accepted() != 10+want {
					t.Errorf("errors %v, %d open at the end, %d ever", sum.byKind, sum.open, p.Accepted())
				}
			})
		}
	}
}

func TestHoldAtPace(t *testing.T) {
	p := echotest.Start(t, "pod-a", "127.0.0.1")
	hold := func(pace float64) *playing {
		return play(t, Spec{Kind: Hold, Targets: []string{p.TCP}, Count: 5, Rate: 1000, Tick: quick, Pace: pace})
	}
	slow, usual := hold(0.2), hold(0)
	echotest.Await(t, "messages", func() bool { return slow.now().requests >= 2 && usual.now().requests >= 20 })
	slow.stop()
	usual.stop()
	if s, u := slow.now().requests, usual.now().requests; s > u/2 {
		t.Errorf("%d requests at a fifth of the pace, %d at the usual", s, u)
	}
}

func TestHoldTimesOut(t *testing.T) {
	p := echotest.Start(t, "pod-a", "127.0.0.1")
	l := play(t, Spec{Kind: Hold, Targets: []string{p.TCP}, Count: 5, Rate: 1000, Tick: quick, Timeout: 100 * time.Millisecond})
	echotest.Await(t, "messages", func() bool { return l.now().requests >= 5 })
	p.Stall()
	echotest.Await(t, "broken connections", func() bool { return l.errors(Timeout) == 5 })
	l.stop()
	sum := l.now()
	sum.check(t)
	if sum.errors != 5 || sum.open != 0 {
		t.Errorf("errors %v, %d open", sum.byKind, sum.open)
	}
}

func TestHoldCountsWhatCannotBeOpened(t *testing.T) {
	l := play(t, Spec{Kind: Hold, Targets: []string{echotest.DeadPort(t, "tcp")}, Count: 7, Rate: 1000, Tick: quick})
	echotest.Await(t, "refused connections", func() bool { return l.errors(Refused) == 7 })
	l.stop()
	sum := l.now()
	sum.check(t)
}

func TestHoldStopAwaitsEchoes(t *testing.T) {
	p := echotest.Start(t, "pod-a", "127.0.0.1")
	l := play(t, Spec{Kind: Hold, Targets: []string{p.TCP}, Count: 50, Rate: 5000, Tick: quick, Timeout: time.Minute})
	echotest.Await(t, "messages", func() bool { return l.now().requests >= 50 })
	p.Stall()
	stopped := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { l.stop(); close(stopped) })
	time.AfterFunc(150*time.Millisecond, p.Resume)
	<-stopped
	sum := l.now()
	sum.check(t)
	if sum.errors != 0 || sum.open != 50 {
		t.Errorf("errors %v, %d open", sum.byKind, sum.open)
	}
}

func TestStream(t *testing.T) {
	p := echotest.Start(t, "pod-a", "127.0.0.1")
	l := play(t, Spec{Kind: Stream, Targets: []string{p.Stream}, Count: 3, Tick: quick})
	echotest.Await(t, "bytes on 3 streams", func() bool { return l.now().bytes > 10<<20 && l.now().requests == 3 })
	p.Break(0)
	echotest.Await(t, "3 streams again", func() bool { return l.errors(Reset) == 3 && l.now().requests == 9 })
	l.stop()
	sum := l.now()
	if sum.requests != 9 || sum.errors != 3 || sum.endpoints["pod-a"] != 6 {
		t.Errorf("%d requests, errors %v, endpoints %v", sum.requests, sum.byKind, sum.endpoints)
	}
	if sum.latency.TotalCount() != 0 || sum.connect.TotalCount() != 6 {
		t.Errorf("%d latencies, %d connect times", sum.latency.TotalCount(), sum.connect.TotalCount())
	}
}

func TestFlowsGoOnWhileAnswersAreMissing(t *testing.T) {
	p := echotest.Start(t, "pod-a", "127.0.0.1")
	p.Mute(true)
	l := play(t, Spec{
		Kind: UDP, Connections: KeepAlive, Targets: []string{p.UDP}, Rate: 200, Tick: quick, Timeout: 2 * time.Second,
	})
	// If they waited for one another, these would take a minute.
	echotest.Await(t, "requests", func() bool { return p.Datagrams() >= 30 })
	p.Mute(false)
	echotest.Await(t, "answers", func() bool { return l.now().endpoints["pod-a"] >= 10 })
	l.stop()
	sum := l.now()
	sum.check(t)
	if sum.byKind[Timeout] < 30 {
		t.Errorf("errors %v, want 30 timeouts and more", sum.byKind)
	}
}

// What is sent while nobody listens is refused, each and every one, although a socket has room for one error.
func TestEveryRefusedDatagramCounts(t *testing.T) {
	for _, s := range paced[4:] {
		t.Run(s.Name, func(t *testing.T) {
			s.Targets, s.Rate, s.Duration = []string{echotest.DeadPort(t, "udp")}, 2000, 200*time.Millisecond
			sum := complete(t, s)
			sum.check(t)
			if sum.byKind[Refused] != 400 || sum.requests != 400 {
				t.Errorf("%d requests, errors %v; want 400 refused", sum.requests, sum.byKind)
			}
		})
	}
}

func TestRequestsAreNotSentTwice(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, _, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			mu.Lock()
			seen[string(buf[:n])]++
			mu.Unlock()
		}
	}()
	sum := complete(t, Spec{
		Kind: UDP, Connections: KeepAlive, Count: 3, Targets: []string{u.LocalAddr().String()}, Rate: 500,
		Duration: 200 * time.Millisecond, Timeout: 50 * time.Millisecond,
	})
	_ = u.Close()
	<-done
	if len(seen) != 100 || sum.byKind[Timeout] != 100 {
		t.Errorf("%d different requests seen, errors %v; want 100", len(seen), sum.byKind)
	}
	for payload, n := range seen {
		if n != 1 {
			t.Errorf("%s was sent %d times", payload, n)
		}
	}
}
