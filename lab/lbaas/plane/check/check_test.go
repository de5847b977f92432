package check_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane/check"
)

func addrOf(t *testing.T, a net.Addr) netip.AddrPort {
	t.Helper()
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// closedPort is one where nothing listens.
func closedPort(t *testing.T, network string) netip.AddrPort {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return addrOf(t, c.LocalAddr())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return addrOf(t, l.Addr())
}

func probe(t *testing.T, s check.Spec) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return check.Probe(ctx, s)
}

func TestProbe(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/teapot" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	web, tlsWeb := addrOf(t, plain.Listener.Addr()), addrOf(t, secure.Listener.Addr())
	for _, c := range []struct {
		name string
		spec check.Spec
		fail string // part of the error; "": works
	}{
		{"tcp", check.Spec{Type: check.TCP, Target: web}, ""},
		{"tcp refused", check.Spec{Type: check.TCP, Target: closedPort(t, "tcp")}, "refused"},
		{"http", check.Spec{Type: check.HTTP, Target: web}, ""},
		{"http 1.1", check.Spec{Type: check.HTTP, Target: web, HTTPVersion: 1.1, DomainName: "x.example", Method: "HEAD"}, ""},
		{"http code", check.Spec{Type: check.HTTP, Target: web, Path: "/teapot"}, "answered 418, expected 200"},
		{"http list", check.Spec{Type: check.HTTP, Target: web, Path: "/teapot", ExpectedCodes: "200,418"}, ""},
		{"http range", check.Spec{Type: check.HTTP, Target: web, Path: "/teapot", ExpectedCodes: "400-420"}, ""},
		{"http bad codes", check.Spec{Type: check.HTTP, Target: web, ExpectedCodes: "2xx"}, "expected codes"},
		{"http refused", check.Spec{Type: check.HTTP, Target: closedPort(t, "tcp")}, "refused"},
		{"https", check.Spec{Type: check.HTTPS, Target: tlsWeb}, ""},
		{"https of plain", check.Spec{Type: check.HTTPS, Target: web}, "tls"},
		{"tls", check.Spec{Type: check.TLSHello, Target: tlsWeb}, ""},
		{"tls of plain", check.Spec{Type: check.TLSHello, Target: web}, "tls"},
		{"udp", check.Spec{Type: check.UDPConnect, Target: addrOf(t, udp.LocalAddr())}, ""},
		{"udp refused", check.Spec{Type: check.UDPConnect, Target: closedPort(t, "udp")}, "refused"},
		{"ping", check.Spec{Type: check.Ping, Target: web}, ""},
		{"ping v6", check.Spec{Type: check.Ping, Target: netip.MustParseAddrPort("[::1]:0")}, ""},
		{"sctp", check.Spec{Type: "SCTP", Target: web}, "not supported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := probe(t, c.spec)
			if c.fail == "" && err != nil || c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)) {
				t.Errorf("got %v, want %q", err, c.fail)
			}
		})
	}
}

// A server that accepts and says nothing is given up when the time is over, whatever is asked.
func TestProbeEndsWithItsTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, kind := range []string{check.HTTP, check.HTTPS, check.TLSHello} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := check.Probe(ctx, check.Spec{Type: kind, Target: addrOf(t, l.Addr())}); err == nil {
			t.Errorf("%s works", kind)
		}
		cancel()
	}
}

// What a server sees of an HTTP probe.
func TestRequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := make(chan string)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := bufio.NewReader(c)
			var text strings.Builder
			for {
				line, err := b.ReadString('\n')
				text.WriteString(line)
				if line == "\r\n" || err != nil {
					break
				}
			}
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n")
			c.Close()
			seen <- text.String()
		}
	}()
	for _, c := range []struct {
		spec check.Spec
		want string
	}{
		{check.Spec{}, "GET / HTTP/1.0\r\n\r\n"},
		{
			check.Spec{Preface: []byte("PROXY UNKNOWN\r\n"), Method: "HEAD", Path: "/up", HTTPVersion: 1.1, DomainName: "x.example"},
			"PROXY UNKNOWN\r\nHEAD /up HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\n\r\n",
		},
	} {
		c.spec.Type, c.spec.Target = check.HTTP, addrOf(t, l.Addr())
		if err := probe(t, c.spec); err != nil {
			t.Error(err)
		}
		if got := <-seen; got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
