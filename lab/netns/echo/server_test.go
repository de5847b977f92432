package echo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves on every protocol, at kernel-chosen ports of host.
func start(t testing.TB, host string, change func(*Options)) *Server {
	t.Helper()
	o, err := Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Pod, o.Node, o.Namespace = "web-1", "node1", "default"
	if change != nil {
		change(&o)
	}
	s, err := Serve(context.Background(), o, Local{Host: host, AnyPort: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func hosts(t *testing.T) []string {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Log("no IPv6 here:", err)
		return []string{"127.0.0.1"}
	}
	_ = l.Close()
	return []string{"127.0.0.1", "::1"}
}

// get makes one request on a connection of its own.
func get(t testing.TB, s *Server, path string) (*http.Response, []byte) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := c.Get("http://" + s.Addrs().HTTP.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, body
}

func dial(t testing.TB, network string, to net.Addr) net.Conn {
	t.Helper()
	c, err := net.DialTimeout(network, to.String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func TestHTTP(t *testing.T) {
	for _, host := range hosts(t) {
		t.Run(host, func(t *testing.T) {
			s := start(t, host, nil)
			r, body := get(t, s, "/some/path")
			var got struct{ Pod, Node, Namespace, Client, Server, Proto string }
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			client, _, err := net.SplitHostPort(got.Client)
			if err != nil || client != host {
				t.Errorf("client %q, want %s", got.Client, host)
			}
			if got.Pod != "web-1" || got.Node != "node1" || got.Namespace != "default" || got.Proto != "HTTP/1.1" || got.Server != s.Addrs().HTTP.String() {
				t.Errorf("got %+v", got)
			}
			if r.StatusCode != 200 || r.Header.Get(PodHeader) != "web-1" || !strings.HasSuffix(string(body), "}\n") {
				t.Errorf("status %d, header %v, body %q", r.StatusCode, r.Header, body)
			}
		})
	}
}

func TestTCP(t *testing.T) {
	for _, host := range hosts(t) {
		t.Run(host, func(t *testing.T) {
			c := dial(t, "tcp", start(t, host, nil).Addrs().TCP)
			in := bufio.NewReader(c)
			want := fmt.Sprintf("web-1 node1 %s\n", c.LocalAddr())
			if line, err := in.ReadString('\n'); err != nil || line != want {
				t.Fatalf("greeting %q, %v; want %q", line, err, want)
			}
			payload := strings.Repeat("0123456789abcdef", 10000)
			go func() { _, _ = io.WriteString(c, payload) }()
			got := make([]byte, len(payload))
			if _, err := io.ReadFull(in, got); err != nil || string(got) != payload {
				t.Fatalf("echo differs, %v", err)
			}
		})
	}
}

func TestUDP(t *testing.T) {
	for _, host := range hosts(t) {
		t.Run(host, func(t *testing.T) {
			c := dial(t, "udp", start(t, host, nil).Addrs().UDP)
			checkUDP(t, c)
		})
	}
}

func checkUDP(t *testing.T, c net.Conn) {
	t.Helper()
	buf := make([]byte, 65536)
	for _, payload := range []string{"hello", "", strings.Repeat("x", 9000)} {
		if _, err := io.WriteString(c, payload); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buf)
		if want := fmt.Sprintf("web-1 node1 %s %s", c.LocalAddr(), payload); err != nil || string(buf[:n]) != want {
			t.Fatalf("answer %.60q, %v; want %.60q", buf[:n], err, want)
		}
	}
}

// A connected UDP socket drops what comes from another address than the one it asked.
func TestUDPAnswersFromTheAddressAsked(t *testing.T) {
	s := start(t, "", nil)
	_, port, _ := net.SplitHostPort(s.Addrs().UDP.String())
	targets := []string{"127.0.0.1", "127.0.0.2", "127.3.2.1"}
	if len(hosts(t)) > 1 {
		targets = append(targets, "::1")
	}
	for _, host := range targets {
		c, err := net.Dial("udp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		checkUDP(t, c)
		_ = c.Close()
	}
}

func TestStream(t *testing.T) {
	c := dial(t, "tcp", start(t, "127.0.0.1", nil).Addrs().Stream)
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("web-1 node1 %s\n", c.LocalAddr()) {
		t.Fatalf("greeting %q, %v", line, err)
	}
	if n, err := io.CopyN(io.Discard, in, 8<<20); err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
}

func TestBadBehaviour(t *testing.T) {
	t.Run("fail", func(t *testing.T) {
		s := start(t, "127.0.0.1", func(o *Options) { o.Fail = 1 })
		if r, _ := get(t, s, "/"); r.StatusCode != 500 {
			t.Errorf("HTTP status %d", r.StatusCode)
		}
		for _, addr := range []net.Addr{s.Addrs().TCP, s.Addrs().Stream} {
			c, err := net.Dial("tcp", addr.String())
			if err == nil { // the reset may come sooner
				_, err = c.Read(make([]byte, 1))
				_ = c.Close()
			}
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%v, want a reset", err)
			}
		}
	})
	t.Run("close", func(t *testing.T) {
		s := start(t, "127.0.0.1", func(o *Options) { o.Close = true })
		c := dial(t, "tcp", s.Addrs().HTTP)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		answer, err := io.ReadAll(c) // to the end that the server makes
		if err != nil || !strings.Contains(string(answer), "Connection: close") {
			t.Errorf("%q, %v", answer, err)
		}
	})
	t.Run("delay", func(t *testing.T) {
		const delay = 50 * time.Millisecond
		s := start(t, "127.0.0.1", func(o *Options) { o.Delay = delay })
		begin := time.Now()
		get(t, s, "/")
		checkUDP(t, dial(t, "udp", s.Addrs().UDP)) // three answers, one by one
		if took := time.Since(begin); took < 4*delay {
			t.Errorf("took %v", took)
		}
		begin = time.Now()
		_, _ = dial(t, "tcp", s.Addrs().TCP).Read(make([]byte, 1))
		if took := time.Since(begin); took < delay {
			t.Errorf("TCP took %v", took)
		}
	})
}

func TestReadiness(t *testing.T) {
	never := start(t, "127.0.0.1", func(o *Options) { o.NotReady = true })
	if r, _ := get(t, never, "/healthz"); r.StatusCode != 503 || never.Ready() {
		t.Errorf("not ready: healthz %d, Ready %v", r.StatusCode, never.Ready())
	}
	if r, _ := get(t, never, "/"); r.StatusCode != 200 {
		t.Errorf("not ready: / answers %d", r.StatusCode)
	}
	slow := start(t, "127.0.0.1", func(o *Options) { o.SlowStart = time.Hour })
	if slow.Ready() {
		t.Error("ready before its slow start is over")
	}
	slow.started = slow.started.Add(-2 * time.Hour)
	if r, _ := get(t, slow, "/healthz"); r.StatusCode != 200 || !slow.Ready() {
		t.Error("not ready after its slow start")
	}
}

func TestBodySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Server{opts: Options{Pod: rapid.String().Draw(t, "pod"), Size: rapid.IntRange(0, 2000).Draw(t, "size")}}
		r, _ := http.NewRequest("GET", "http://x/", nil)
		r.RemoteAddr = "10.0.0.1:1234"
		body := newHandler(s).body(r)
		if len(body) != s.opts.Size && (len(body) < s.opts.Size || strings.Contains(string(body), "padding")) {
			t.Fatalf("asked for %d bytes, got %d: %s", s.opts.Size, len(body), body)
		}
		if !json.Valid(body) {
			t.Fatalf("not JSON: %s", body)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o, _ := Parse([]string{"--delay=1ms"})
	s, err := Serve(ctx, o, Local{Host: "127.0.0.1", AnyPort: true})
	if err != nil {
		t.Fatal(err)
	}
	var held []net.Conn
	for _, a := range []net.Addr{s.Addrs().HTTP, s.Addrs().TCP, s.Addrs().Stream} {
		held = append(held, dial(t, "tcp", a))
	}
	_, _ = bufio.NewReader(held[1]).ReadString('\n')
	cancel()
	for _, c := range held {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: still open", c.RemoteAddr())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", s.Addrs().TCP.String()); err == nil {
		_ = c.Close()
		t.Error("still listening")
	}
}

func TestServeOpensAllOrNothing(t *testing.T) {
	taken := start(t, "127.0.0.1", nil)
	o := Options{HTTP: port(t, taken.Addrs().HTTP)}
	o.TCP = 1 // listened at first, were it not for the one that is taken
	if s, err := Serve(context.Background(), o, Local{Host: "127.0.0.1"}); err == nil {
		_ = s.Close()
		t.Fatal("served on a port that is taken")
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
}

func port(t *testing.T, a net.Addr) uint16 {
	t.Helper()
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		t.Fatalf("%T", a)
	}
	return uint16(tcp.Port)
}
