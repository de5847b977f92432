package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/load"
	"proxylab/bench/load/echotest"
)

// service is a balancer on loopback: each connection is answered in the name of one of its pods.
type service struct {
	http, tcp, udp string

	mu    sync.Mutex
	pods  []string
	asked int
}

func newService(t *testing.T, pods ...string) *service {
	s := &service{pods: pods}
	s.tcp = echotest.Script(t, func(c *net.TCPConn) {
		if pod := s.pick(); pod != "" {
			_, _ = fmt.Fprintf(c, "%s node1 %s\n", pod, c.RemoteAddr())
			echotest.Drain(c)
			return
		}
		_ = c.SetLinger(0)
	})
	s.http = echotest.Script(t, func(c *net.TCPConn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		if pod := s.pick(); pod != "" {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Proxylab-Pod: %s\r\nContent-Length: 0\r\n\r\n", pod)
		}
	})
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = u.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			if pod := s.pick(); pod != "" {
				_, _ = u.WriteTo(fmt.Appendf(nil, "%s node1 %s %s", pod, from, buf[:n]), from)
			}
		}
	}()
	s.udp = u.LocalAddr().String()
	return s
}

func (s *service) pick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if len(s.pods) == 0 {
		return ""
	}
	return s.pods[rand.IntN(len(s.pods))]
}

func (s *service) set(pods ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = pods
}

func (s *service) target(kind string) string {
	return map[string]string{load.HTTP: s.http, load.Connect: s.tcp, load.UDP: s.udp}[kind]
}

// process is Main, running, with the ends of its pipes.
type process struct {
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	events chan events.Event
	err    chan error
}

func startMain(t *testing.T, ctx context.Context, s Spec) *process {
	t.Helper()
	in, toIn := io.Pipe()
	fromOut, out := io.Pipe()
	p := &process{stdin: toIn, stdout: fromOut, events: make(chan events.Event, 100), err: make(chan error, 1)}
	go func() {
		err := Main(ctx, in, out)
		_ = out.Close()
		p.err <- err
	}()
	go func() {
		defer close(p.events)
		for d := json.NewDecoder(fromOut); ; {
			var e events.Event
			if d.Decode(&e) != nil {
				return
			}
			p.events <- e
		}
	}()
	t.Cleanup(func() { _ = toIn.Close(); _ = fromOut.Close() })
	p.tell(t, s)
	return p
}

func (p *process) tell(t *testing.T, v any) {
	t.Helper()
	line, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}

func (p *process) next(t *testing.T) events.Event {
	t.Helper()
	select {
	case e, ok := <-p.events:
		if !ok {
			t.Fatal("no more events")
		}
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event in a minute")
	}
	return events.Event{}
}

func TestMainMeasuresARealService(t *testing.T) {
	for _, kind := range []string{load.HTTP, load.Connect, load.UDP} {
		t.Run(kind, func(t *testing.T) {
			s := newService(t)
			p := startMain(t, context.Background(), Spec{Service: "default/web", Target: s.target(kind), Kind: kind, Limit: time.Minute})
			p.tell(t, Command{Await: AwaitAny, ID: "up"})
			s.set("a", "b")
			if e := p.next(t); e.Awaited == nil || e.Awaited.ID != "up" || e.Awaited.Error != "" || e.Time.IsZero() {
				t.Fatalf("%+v", e)
			}
			// Both must have answered, or there is no last answer to tell.
			p.tell(t, Command{At: time.Now().Add(-time.Minute), Added: []string{"c"}, Alert: "1s"})
			s.set("a", "b", "c")
			if e := p.next(t); e.Programming == nil || e.Programming.Endpoint != "c" || e.Programming.Error == "" {
				t.Fatalf("an addition a minute ago, with a limit of a minute: %+v", e)
			}
			before := s.count()
			echotest.Await(t, "200 probes", func() bool { return s.count() > before+200 })
			at := time.Now()
			s.set("a", "d")
			changed := time.Since(at)
			p.tell(t, Command{At: at, Added: []string{"d"}, Removed: []string{"b"}})
			_ = p.stdin.Close()
			added, removed := p.next(t).Programming, p.next(t).Programming
			if added == nil || added.Change != "added" || added.Endpoint != "d" || added.Error != "" || added.ResolutionSeconds <= 0 {
				t.Errorf("%+v", added)
			}
			// The last probe that b answered began before the change was done.
			if removed == nil || removed.Change != "removed" || removed.Endpoint != "b" || removed.Error != "" ||
				removed.Seconds > changed.Seconds() {
				t.Errorf("%+v, changed within %v", removed, changed)
			}
			if err := <-p.err; err != nil {
				t.Error(err)
			}
			if e, more := <-p.events; more {
				t.Errorf("one event too many: %+v", e)
			}
		})
	}
}

func (s *service) count() int { s.mu.Lock(); defer s.mu.Unlock(); return s.asked }

func TestRefused(t *testing.T) {
	for _, kind := range []string{load.HTTP, load.Connect, load.UDP} {
		target := echotest.DeadPort(t, map[bool]string{true: "udp", false: "tcp"}[kind == load.UDP])
		p := startMain(t, context.Background(), Spec{Service: "default/web", Target: target, Kind: kind})
		p.tell(t, Command{Await: AwaitRefused})
		if e := p.next(t); e.Awaited == nil || e.Awaited.Error != "" {
			t.Errorf("%s: %+v", kind, e)
		}
		_ = p.stdin.Close()
		if err := <-p.err; err != nil {
			t.Error(err)
		}
	}
}

func TestItDoesNotBecomeALoad(t *testing.T) {
	s := newService(t, "a")
	p := startMain(t, context.Background(), Spec{
		Service: "default/web", Target: s.tcp, Kind: load.Connect, IdleInterval: time.Nanosecond, BusyInterval: time.Nanosecond,
	})
	begin := time.Now()
	p.tell(t, Command{Alert: "1h"})
	echotest.Await(t, "100 probes", func() bool { return s.count() >= 100 })
	n := s.count()
	if most := MaxRate*time.Since(begin).Seconds() + 5; float64(n) > most {
		t.Errorf("%d probes in %v, at most %v", n, time.Since(begin), most)
	}
	_ = p.stdin.Close()
	if err := <-p.err; err != nil {
		t.Error(err)
	}
}

func TestCancelledMainEndsAtOnce(t *testing.T) {
	s := newService(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	p := startMain(t, ctx, Spec{Service: "default/web", Target: s.tcp, Kind: load.Connect, Limit: time.Hour})
	p.tell(t, Command{At: time.Now(), Added: []string{"never"}})
	echotest.Await(t, "probes", func() bool { return s.count() >= 3 })
	cancel()
	if err := <-p.err; err != nil {
		t.Error(err)
	}
	if e, more := <-p.events; more {
		t.Errorf("%+v", e)
	}
}

func TestMainEndsWhenNobodyListens(t *testing.T) {
	s := newService(t, "a")
	p := startMain(t, context.Background(), Spec{Service: "default/web", Target: s.tcp, Kind: load.Connect})
	_ = p.stdout.Close()
	p.tell(t, Command{Await: AwaitAny})
	if err := <-p.err; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it returned %v", err)
	}
}

func TestMainRefusesWhatItDoesNotUnderstand(t *testing.T) {
	good := `{"service":"default/web","target":"127.0.0.1:9","kind":"http"}` + "\n"
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", []string{"unexpected EOF"}},
		{"nonsense\n", []string{"invalid character"}},
		{"{}\n", []string{"service is missing", "target", "kind"}},
		{`{"service":"a/b","speed":1}` + "\n", []string{"speed"}},
		{`{"service":"a/b","limit":"x","timeout":"1"}` + "\n", []string{"limit", "timeout"}},
		{good + "nonsense\n", []string{"command nonsense"}},
		{good + "{}\n", []string{"none of added"}},
		{good + `{"added":["a"],"await":"bliss","alert":"often"}` + "\n", []string{"at is missing", "bliss", "often"}},
		{good + `{"at":"2999-01-01T00:00:00Z","added":["a"]}` + "\n", []string{"future"}},
		{good + `{"at":"yesterday"}` + "\n", []string{"yesterday"}},
		{good + `{"await":"any","when":"now"}` + "\n", []string{"when"}},
	} {
		var out bytes.Buffer
		err := Main(context.Background(), strings.NewReader(c.in), &out)
		if err == nil || out.Len() > 0 {
			t.Errorf("%q: %v, output %q", c.in, err, out.String())
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v: %q is missing", c.in, err, want)
			}
		}
	}
}

func TestSpecInJSON(t *testing.T) {
	s := Spec{
		Service: "default/web", Target: "[fd00::1]:80", Kind: "udp", IdleInterval: 50 * time.Millisecond,
		BusyInterval: 2 * time.Millisecond, Limit: 15 * time.Second, Timeout: time.Second,
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Spec
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%s becomes %+v, %v", b, back, err)
	}
}

func TestAtPace(t *testing.T) {
	usual := Spec{BusyInterval: 10 * time.Millisecond}
	paced := usual.AtPace(0.1)
	if paced.BusyInterval != 100*time.Millisecond || paced.IdleInterval != 10*DefaultIdleInterval || paced.Limit != DefaultLimit {
		t.Errorf("%+v", paced)
	}
	if usual.BusyInterval != 10*time.Millisecond {
		t.Errorf("the Spec itself has changed: %+v", usual)
	}
}
