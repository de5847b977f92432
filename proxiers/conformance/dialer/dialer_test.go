package dialer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start runs a dialer in this process, as "proxylab dial" would run it.
func start(t *testing.T) *Client {
	t.Helper()
	in, toIn := io.Pipe()
	out, toOut := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Main(context.Background(), in, toOut)
		_ = toOut.Close()
		ended <- err
	}()
	c := NewClient(toIn, out)
	t.Cleanup(func() {
		_ = c.Close()
		if err := <-ended; err != nil {
			t.Errorf("the dialer ended with %v", err)
		}
		<-c.Done()
	})
	return c
}

func ask(t *testing.T, c *Client, r Request) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	a, err := c.Ask(ctx, r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return a
}

var loopback = netip.MustParseAddr("127.0.0.1")

// freePort is one that nothing listens on at the moment.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// serve has the dialer itself answer, as a pod called name.
func serve(t *testing.T, c *Client, network, name string) netip.AddrPort {
	t.Helper()
	at := freePort(t)
	ask(t, c, Request{Do: Serve, Network: network, To: at, Flow: "server " + name, Name: name})
	return at
}

func TestDial(t *testing.T) {
	c := start(t)
	for _, network := range []string{TCP, UDP} {
		at := serve(t, c, network, "pod-"+network)
		a := ask(t, c, Request{Do: Dial, Network: network, To: at, Count: 20, Parallel: 4})
		if a.Pods["pod-"+network] != 20 || a.Failed() != 0 || a.Seen["127.0.0.1"] != 20 || len(a.Seconds) != 20 {
			t.Errorf("%s: %+v", network, a)
		}
	}
}

// listenForOne is a TCP listener without a queue: the second connection that nobody accepts has its SYN dropped.
func listenForOne(t *testing.T) (fd int, at netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback.As4()}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, netip.AddrPortFrom(loopback, uint16(bound.(*unix.SockaddrInet4).Port))
}

func TestRefusedAfterSecondSYN(t *testing.T) {
	fd, at := listenForOne(t)
	first, err := connect(t.Context(), Request{Network: TCP, To: at}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	time.AfterFunc(100*time.Millisecond, func() { _ = unix.Shutdown(fd, unix.SHUT_RDWR) }) // the SYN has been dropped by then
	a := ask(t, start(t), Request{Do: Dial, Network: TCP, To: at, Timeout: 10 * time.Second})
	if a.Failures[Refused] != 1 || a.Resent < 1 {
		t.Errorf("refused once there was no listener: %+v", a)
	}
}

func TestAnswerToSecondDatagram(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		buf := make([]byte, 100)
		for i := 0; ; i++ {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			if i > 0 {
				_, _ = server.WriteTo(fmt.Appendf(nil, "pod node %s %s", from, buf[:n]), from)
			}
		}
	}()
	a := ask(t, start(t), Request{Do: Dial, Network: UDP, To: server.LocalAddr().(*net.UDPAddr).AddrPort()})
	if a.Pods["pod"] != 1 || a.Resent != 1 {
		t.Errorf("answered the second time: %+v", a)
	}
}

// A listener whose queue is full drops SYNs: the connection is made by a later one, once there is room.
func TestConnectionBySecondSYN(t *testing.T) {
	fd, at := listenForOne(t)
	for _, want := range []bool{false, true} {
		if want {
			time.AfterFunc(100*time.Millisecond, func() { _, _, _ = unix.Accept(fd) }) // the SYN has been dropped by then
		}
		conn, err := connect(t.Context(), Request{Network: TCP, To: at}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := resent(conn); got != want {
			t.Errorf("a SYN was sent again: %t, want %t", got, want)
		}
	}
}

func TestDialStopsWhenItHasMetEnough(t *testing.T) {
	c := start(t)
	at := serve(t, c, TCP, "pod")
	for _, test := range []struct {
		names []string
		want  int
	}{{nil, 50}, {[]string{"pod"}, 7}, {[]string{"pod", "nobody"}, 50}} {
		a := ask(t, c, Request{Do: Dial, Network: TCP, To: at, Count: 50, Names: test.names, Least: 7})
		if a.Pods["pod"] != test.want {
			t.Errorf("to meet %v: %d attempts, want %d", test.names, a.Pods["pod"], test.want)
		}
	}
}

func TestDialFrom(t *testing.T) {
	c := start(t)
	at := serve(t, c, UDP, "pod")
	ports := freePort(t).Port()
	a := ask(t, c, Request{Do: Dial, Network: UDP, To: at, From: netip.MustParseAddr("127.0.0.9"), FromPort: ports, LastPort: ports})
	if a.Seen["127.0.0.9"] != 1 {
		t.Errorf("%+v", a)
	}
}

func TestFailuresHaveKinds(t *testing.T) {
	c := start(t)
	closed := freePort(t)
	for _, network := range []string{TCP, UDP, HTTP} {
		if a := ask(t, c, Request{Do: Dial, Network: network, To: closed}); a.Failures[Refused] != 1 || network == UDP && a.Resent != 0 || a.Said == "" {
			t.Errorf("%s to a closed port: %+v", network, a)
		}
	}
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	to := silent.LocalAddr().(*net.UDPAddr).AddrPort()
	if a := ask(t, c, Request{Do: Dial, Network: UDP, To: to, Timeout: 50 * time.Millisecond}); a.Failures[TimedOut] != 1 {
		t.Errorf("to a server that says nothing: %+v", a)
	}
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hangsUp.Close()
	go func() {
		for {
			conn, err := hangsUp.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	to = hangsUp.Addr().(*net.TCPAddr).AddrPort()
	if a := ask(t, c, Request{Do: Dial, Network: TCP, To: to}); a.Failures[EOF] != 1 {
		t.Errorf("to a server that hangs up: %+v", a)
	}
}

func TestFlows(t *testing.T) {
	c := start(t)
	at := serve(t, c, TCP, "pod")
	if a := ask(t, c, Request{Do: Open, Network: TCP, To: at, Flow: "a"}); a.Pods["pod"] != 1 {
		t.Fatalf("open: %+v", a)
	}
	for range 3 {
		if a := ask(t, c, Request{Do: Say, Flow: "a"}); a.Pods["pod"] != 1 {
			t.Fatalf("say: %+v", a)
		}
	}
	ask(t, c, Request{Do: Close, Flow: "server pod"}) // ends its connections too
	if a := ask(t, c, Request{Do: Say, Flow: "a"}); a.Failures[EOF]+a.Failures[Reset] != 1 {
		t.Errorf("say to a server that is gone: %+v", a)
	}
	ask(t, c, Request{Do: Close, Flow: "a"})
	ctx := context.Background()
	for _, r := range []Request{
		{Do: Close, Flow: "a"}, {Do: Say, Flow: "a"}, {Do: "dance"}, {Do: Serve, Network: "smoke", Flow: "x"},
		{Do: Steady, Network: TCP, To: at, Flow: "y"},
	} {
		if _, err := c.Ask(ctx, r); err == nil {
			t.Errorf("%+v: no error", r)
		}
	}
}

func TestSteady(t *testing.T) {
	c := start(t)
	at := serve(t, c, TCP, "pod")
	ask(t, c, Request{Do: Steady, Network: TCP, To: at, Flow: "s", Every: time.Millisecond})
	if _, err := c.Ask(context.Background(), Request{Do: Steady, Network: TCP, To: at, Flow: "s", Every: time.Millisecond}); err == nil {
		t.Error("two streams of one name")
	}
	ask(t, c, Request{Do: Until, Network: TCP, To: at, Name: "pod", Within: time.Second})
	a := ask(t, c, Request{Do: Close, Flow: "s"})
	if a.Pods["pod"] == 0 || a.Failed() != 0 {
		t.Errorf("%+v", a)
	}
}

func TestUntil(t *testing.T) {
	c := start(t)
	at := freePort(t)
	if a := ask(t, c, Request{Do: Until, Network: TCP, To: at, Name: "pod", Within: 30 * time.Millisecond}); a.Failures[Refused] != 1 {
		t.Errorf("nobody there: %+v", a)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		_, _ = c.Ask(context.Background(), Request{Do: Serve, Network: TCP, To: at, Flow: "late", Name: "pod"})
	}()
	if a := ask(t, c, Request{Do: Until, Network: TCP, To: at, Name: "pod", Within: 10 * time.Second}); a.Pods["pod"] != 1 {
		t.Errorf("somebody came: %+v", a)
	}
}

func TestScan(t *testing.T) {
	c := start(t)
	at := serve(t, c, TCP, "pod")
	port := at.Port()
	a := ask(t, c, Request{Do: Scan, To: netip.AddrPortFrom(loopback, 0), FromPort: port - min(port-1, 20), LastPort: port, Timeout: time.Second})
	found := false
	for _, p := range a.Open {
		found = found || p == port
	}
	if !found {
		t.Errorf("port %d is open, found were %v", port, a.Open)
	}
}

func TestKind(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {syscall.ECONNREFUSED, Refused}, {syscall.EHOSTUNREACH, NoRoute}, {syscall.ECONNRESET, Reset},
		{io.EOF, EOF}, {context.DeadlineExceeded, TimedOut}, {syscall.ETIMEDOUT, TimedOut}, {syscall.EADDRNOTAVAIL, NoPort},
		{errGarbled, Garbled}, {errors.New("else"), Other},
	} {
		if got := Kind(tc.err); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestParse(t *testing.T) {
	pod, client, payload, err := parse("web-1 node1 [::ffff:10.0.0.1]:99 hello there")
	if pod != "web-1" || client != netip.MustParseAddrPort("10.0.0.1:99") || payload != "hello there" || err != nil {
		t.Errorf("%q %s %q %v", pod, client, payload, err)
	}
	for _, bad := range []string{"", "a b", "a b c", "SSH-2.0-x"} {
		if _, _, _, err := parse(bad); !errors.Is(err, errGarbled) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestDisturbing(t *testing.T) {
	// 10.0.0.1:8081 -> 10.0.0.2:1234, sequence number 1, ACK, two bytes of data.
	packet := []byte{
		0x45, 0, 0, 42, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
		0x1f, 0x91, 0x04, 0xd2, 0, 0, 0, 1, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0, 'h', 'i',
	}
	r := Request{To: netip.MustParseAddrPort("0.0.0.0:8081")}
	out, to, ok := disturbing(packet, r)
	if !ok || to != netip.MustParseAddr("10.0.0.2") || out[24] != 0x30 || out[27] != 1 || out[31] != 9 || packet[24] != 0 {
		t.Fatalf("%v %s %x", ok, to, out)
	}
	if sum := checksum(out[12:20], out[20:]); sum != 0 {
		t.Errorf("the checksum of the copy is off by %#x", sum)
	}
	for name, change := range map[string]func([]byte){
		"UDP": func(p []byte) { p[9] = 17 }, "SYN": func(p []byte) { p[33] = 0x12 }, "another port": func(p []byte) { p[21] = 0 },
		"IPv6": func(p []byte) { p[0] = 0x65 }, "longer than it is": func(p []byte) { p[3] = 99 },
	} {
		p := append([]byte(nil), packet...)
		change(p)
		if _, _, ok := disturbing(p, r); ok {
			t.Error(name)
		}
	}
	if _, _, ok := disturbing(packet[:10], r); ok {
		t.Error("a piece of a header")
	}
}

func TestMainRefusesWhatIsNoRequest(t *testing.T) {
	err := Main(context.Background(), strings.NewReader("hello\n"), io.Discard)
	if err == nil || !strings.Contains(err.Error(), `"hello"`) {
		t.Errorf("%v", err)
	}
}

func TestAskAfterTheEnd(t *testing.T) {
	in, toIn := io.Pipe()
	out, toOut := io.Pipe()
	c := NewClient(toIn, out)
	go func() { _, _ = io.Copy(io.Discard, in) }()
	_ = toOut.Close()
	<-c.Done()
	if _, err := c.Ask(context.Background(), Request{Do: Dial}); err == nil {
		t.Error("no error")
	}
}
