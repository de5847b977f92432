package plane_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"strings"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane"
)

// seen is what an HTTP member tells of a request.
type seen struct {
	Member, Host, URI, Proto, Body string
	Header                         http.Header
}

func newWeb(t *testing.T, name string) plane.Member {
	t.Helper()
	return webAt(t, name, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Query().Has("session") {
			http.SetCookie(w, &http.Cookie{Name: "JSESSIONID", Value: r.URL.Query().Get("session")})
		}
		_ = json.NewEncoder(w).Encode(seen{name, r.Host, r.RequestURI, r.Proto, string(body), r.Header})
	})
}

func webAt(t *testing.T, name string, serve http.HandlerFunc) plane.Member {
	t.Helper()
	at := netip.AddrPortFrom(newAddr(), 9000)
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: serve}
	go func() { _ = web.Serve(l) }()
	t.Cleanup(func() { web.Close() })
	return plane.Member{ID: name, Address: at.Addr(), Port: at.Port(), Weight: 1, AdminUp: true}
}

// browser asks the balancer; it does not follow redirects.
func browser(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (r *rig) get(c *http.Client, url string, header ...string) (*http.Response, seen) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var s seen
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if json.Unmarshal(b, &s) != nil {
		s.Body = string(b)
	}
	return resp, s
}

func TestHTTP(t *testing.T) {
	r := newRig(t)
	lb := r.balancer("HTTP", newWeb(t, "a"), newWeb(t, "b"))
	lb.Listeners[0].InsertHeaders = map[string]string{"X-Forwarded-For": "true", "X-Forwarded-Port": "true", "X-Forwarded-Proto": "True", "X-SSL-Issuer": "true"}
	r.apply(lb)
	c := browser(t)
	resp, s := r.get(c, "http://"+r.at+"/x%2Fy?q=a;b", "Host", "shop.example", "X-Forwarded-For", "192.0.2.7", "X-Forwarded-Proto", "gopher", "Accept-Encoding", "br")
	if resp.StatusCode != 200 || s.Member != "a" || s.Host != "shop.example" || s.URI != "/x%2Fy?q=a;b" || s.Proto != "HTTP/1.1" {
		t.Errorf("%d %+v", resp.StatusCode, s)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "192.0.2.7,127.0.0.1", "X-Forwarded-Port": "8080", "X-Forwarded-Proto": "http",
		"X-SSL-Issuer": "", "Accept-Encoding": "br",
	} {
		if got := strings.Join(s.Header.Values(name), ","); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, s = r.get(c, "http://"+r.at+"/"); s.Member != "b" { // the same connection
		t.Error("requests of one connection are not balanced:", s.Member)
	}
	post, err := c.Post("http://"+r.at+"/", "text/plain", strings.NewReader("a body"))
	if err != nil {
		t.Fatal(err)
	}
	defer post.Body.Close()
	if err := json.NewDecoder(post.Body).Decode(&s); err != nil || s.Body != "a body" {
		t.Errorf("%+v, %v", s, err)
	}
	lb.Listeners[0].InsertHeaders = nil
	r.apply(lb)
	if _, s = r.get(c, "http://"+r.at+"/", "X-Forwarded-For", "192.0.2.7"); strings.Join(s.Header["X-Forwarded-For"], "") != "192.0.2.7" {
		t.Error(s.Header)
	}
	r.await("counters", func(s plane.Status) bool {
		n := s.Listeners["l"]
		return n.TotalConnections == 1 && n.ActiveConnections == 1 && n.BytesIn > 0 && n.BytesOut > 0
	})
}

func TestTerminatedHTTPS(t *testing.T) {
	r := newRig(t)
	lb := r.balancer("TERMINATED_HTTPS", newWeb(t, "a"))
	lb.Listeners[0].InsertHeaders = map[string]string{"X-Forwarded-Proto": "true", "X-SSL-Client-Verify": "true", "X-SSL-Client-DN": "true"}
	r.apply(lb)
	resp, s := r.get(browser(t), "https://"+r.at+"/")
	if resp.StatusCode != 200 || s.Member != "a" || s.Header.Get("X-Forwarded-Proto") != "https" ||
		s.Header.Get("X-SSL-Client-Verify") != "0" || s.Header.Get("X-SSL-Client-DN") != `""` {
		t.Errorf("%d %+v", resp.StatusCode, s)
	}
	first := resp.TLS.PeerCertificates[0]
	lb.Listeners[0].ConnectionLimit = 100
	r.apply(lb)
	if resp, _ = r.get(browser(t), "https://"+r.at+"/"); !resp.TLS.PeerCertificates[0].Equal(first) {
		t.Error("the certificate changed")
	}
	lb.Listeners[0].Certificate = []byte("nonsense")
	r.apply(lb)
	r.await("problem", func(s plane.Status) bool { return strings.Contains(s.Problems["l"], "certificate") })
	r.get(browser(t), "https://"+r.at+"/") // goes on as before
}

func TestL7Policies(t *testing.T) {
	r := newRig(t)
	lb := r.balancer("HTTP", newWeb(t, "a"))
	lb.Pools = append(lb.Pools, plane.Pool{ID: "p2", Protocol: "HTTP", Algorithm: "ROUND_ROBIN", AdminUp: true, Members: []plane.Member{newWeb(t, "b")}})
	rule := func(kind, compare, key, value string, invert bool) plane.L7Rule {
		return plane.L7Rule{Type: kind, CompareType: compare, Key: key, Value: value, Invert: invert, AdminUp: true}
	}
	policy := func(action string, rules ...plane.L7Rule) plane.L7Policy {
		return plane.L7Policy{ID: action, Action: action, AdminUp: true, RedirectPool: "p2", RedirectURL: "https://elsewhere.example/", RedirectPrefix: "https://www.example", Rules: rules}
	}
	for _, c := range []struct {
		name     string
		policies []plane.L7Policy
		path     string
		header   []string
		want     string
	}{
		{"none", nil, "/", nil, "200 a"},
		{"pool by path", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("PATH", "STARTS_WITH", "", "/b", false))}, "/b/x", nil, "200 b"},
		{"not by path", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("PATH", "STARTS_WITH", "", "/b", false))}, "/a", nil, "200 a"},
		{"all rules", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("PATH", "EQUAL_TO", "", "/b", false), rule("HEADER", "EQUAL_TO", "X-Kind", "b", false))}, "/b", nil, "200 a"},
		{"inverted", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("PATH", "EQUAL_TO", "", "/b", true))}, "/a", nil, "200 b"},
		{"host", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("HOST_NAME", "ENDS_WITH", "", ".B.example", false))}, "/", []string{"Host", "x.b.Example"}, "200 b"},
		{"header", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("HEADER", "CONTAINS", "X-Kind", "b", false))}, "/", []string{"X-Kind", "abc"}, "200 b"},
		{"cookie", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("COOKIE", "REGEX", "kind", "^b+$", false))}, "/", []string{"Cookie", "x=y; kind=bbb"}, "200 b"},
		{"file type", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("FILE_TYPE", "EQUAL_TO", "", "jpg", false))}, "/x.y/z.jpg", nil, "200 b"},
		{"client certificate", []plane.L7Policy{policy("REJECT", rule("SSL_CONN_HAS_CERT", "EQUAL_TO", "", "True", true))}, "/", nil, "403 "},
		{"reject", []plane.L7Policy{policy("REJECT", rule("PATH", "EQUAL_TO", "", "/no", false))}, "/no", nil, "403 "},
		{"answers before pools", []plane.L7Policy{policy("REDIRECT_TO_POOL", rule("PATH", "EQUAL_TO", "", "/no", false)), policy("REJECT", rule("PATH", "EQUAL_TO", "", "/no", false))}, "/no", nil, "403 "},
		{"url", []plane.L7Policy{policy("REDIRECT_TO_URL", rule("PATH", "EQUAL_TO", "", "/u", false))}, "/u", nil, "302 https://elsewhere.example/"},
		{"prefix", []plane.L7Policy{policy("REDIRECT_PREFIX", rule("PATH", "STARTS_WITH", "", "/", false))}, "/u?q=1", nil, "302 https://www.example/u?q=1"},
		{"no rules", []plane.L7Policy{policy("REJECT")}, "/", nil, "200 a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lb.Listeners[0].Policies = c.policies
			r.apply(lb)
			resp, s := r.get(browser(t), "http://"+r.at+c.path, c.header...)
			got := fmt.Sprint(resp.StatusCode, " ", s.Member, resp.Header.Get("Location"))
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	lb.Listeners[0].Policies = []plane.L7Policy{policy("REJECT", rule("PATH", "REGEX", "", "(", false))}
	r.apply(lb)
	r.await("problem", func(s plane.Status) bool { return strings.Contains(s.Problems["l"], "regular expression") })
}

func TestCookies(t *testing.T) {
	for _, kind := range []string{plane.HTTPCookie, plane.AppCookie} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			lb := r.balancer("HTTP", newWeb(t, "a"), newWeb(t, "b"))
			lb.Pools[0].Persistence = &plane.Persistence{Type: kind, CookieName: "JSESSIONID"}
			r.apply(lb)
			var first [2]string
			var browsers [2]*http.Client
			for i := range browsers {
				browsers[i] = browser(t)
				browsers[i].Jar, _ = cookiejar.New(nil)
				resp, s := r.get(browsers[i], fmt.Sprintf("http://%s/?session=s%d", r.at, i))
				first[i] = s.Member
				if kind == plane.HTTPCookie && (!strings.Contains(resp.Header.Get("Set-Cookie")+strings.Join(resp.Header["Set-Cookie"], ";"), "SRV="+s.Member) || resp.Header.Get("Cache-Control") != "private") {
					t.Error(resp.Header)
				}
			}
			if first[0] == first[1] {
				t.Fatal(first)
			}
			for range 3 {
				for i := range browsers {
					resp, s := r.get(browsers[i], "http://"+r.at+"/")
					if s.Member != first[i] || len(resp.Header["Set-Cookie"]) != 0 || strings.Contains(s.Header.Get("Cookie"), "SRV") {
						t.Errorf("%s went to %s, %v, %v", first[i], s.Member, resp.Header, s.Header)
					}
				}
			}
			lb.Pools[0].Members[0].AdminUp = false
			r.apply(lb)
			for i := range browsers {
				if _, s := r.get(browsers[i], "http://"+r.at+"/"); s.Member != "b" {
					t.Error("client", i, "is at", s.Member)
				}
			}
		})
	}
}

func TestHTTPErrors(t *testing.T) {
	r := newRig(t)
	hangs := make(chan struct{})
	t.Cleanup(func() { close(hangs) })
	silent := webAt(t, "silent", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	})
	broken := serverAt(t, "broken", netip.AddrPortFrom(newAddr(), 9000), func(c net.Conn) { fmt.Fprint(c, "nonsense\r\n\r\n") })
	dead := refusing("dead")
	for _, c := range []struct {
		name    string
		members []plane.Member
		want    int
	}{
		{"no member", nil, 503},
		{"refused, then served", []plane.Member{dead, newWeb(t, "a")}, 200},
		{"refused by all", []plane.Member{dead, refusing("dead too")}, 503},
		{"silent", []plane.Member{silent}, 504},
		{"broken", []plane.Member{broken.Member}, 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			lb := r.balancer("HTTP", c.members...)
			lb.Listeners[0].Timeouts.MemberData = 200 * time.Millisecond
			r.apply(lb)
			if resp, s := r.get(browser(t), "http://"+r.at+"/"); resp.StatusCode != c.want || c.want >= 500 && !strings.Contains(s.Body, "<h1>") {
				t.Errorf("%d %+v", resp.StatusCode, s)
			}
		})
	}
	lb := r.balancer("HTTP")
	lb.Listeners[0].DefaultPool = ""
	r.apply(lb)
	if resp, _ := r.get(browser(t), "http://"+r.at+"/"); resp.StatusCode != 503 {
		t.Error(resp.StatusCode)
	}
}

// What a browser needs beyond requests: upgraded connections, and bodies as they come.
func TestHTTPStreams(t *testing.T) {
	r := newRig(t)
	next := make(chan struct{})
	m := webAt(t, "a", func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") == "" {
			fmt.Fprintln(w, "first")
			_ = http.NewResponseController(w).Flush()
			<-next
			fmt.Fprintln(w, "second")
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(c, rw)
	})
	r.apply(r.balancer("HTTP", m))
	resp, err := browser(t).Get("http://" + r.at + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "first\n" {
		t.Errorf("%q, %v", line, err)
	}
	close(next)
	if line, err := lines.ReadString('\n'); err != nil || line != "second\n" {
		t.Errorf("%q, %v", line, err)
	}
	c, err := net.Dial("tcp", r.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	b := bufio.NewReader(c)
	if up, err := http.ReadResponse(b, nil); err != nil || up.StatusCode != 101 {
		t.Fatal(up, err)
	}
	fmt.Fprint(c, "ping\n")
	if line, err := b.ReadString('\n'); err != nil || line != "ping\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// Members of a pool with the PROXY protocol hear of every client, and nothing of X-Forwarded-For.
func TestHTTPWithPROXY(t *testing.T) {
	r := newRig(t)
	heard := make(chan string, 10)
	m := serverAt(t, "a", netip.AddrPortFrom(newAddr(), 9000), func(c net.Conn) {
		b := bufio.NewReader(c)
		line, _ := b.ReadString('\n')
		req, err := http.ReadRequest(b)
		if err != nil {
			return
		}
		heard <- line + req.Header.Get("X-Forwarded-For")
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	lb := r.balancer("HTTP", m.Member)
	lb.Pools[0].Protocol = "PROXY"
	lb.Listeners[0].InsertHeaders = map[string]string{"X-Forwarded-For": "true"}
	r.apply(lb)
	for range 2 {
		r.get(browser(t), "http://"+r.at+"/")
		if got := <-heard; !strings.HasPrefix(got, "PROXY TCP4 127.0.0.1 "+r.vip.String()) || !strings.HasSuffix(got, " 8080\r\n") {
			t.Errorf("%q", got)
		}
	}
}

// HTTPS passes through: the member's own certificate is seen.
func TestHTTPSPassesThrough(t *testing.T) {
	r := newRig(t)
	s := newServer(t, "a") // any bytes will do
	lb := r.balancer("HTTPS", s.Member)
	r.apply(lb)
	same(t, "answers", count(r.who(netip.Addr{}, 2)), map[string]int{"a": 2})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.set.Apply(ctx, nil); err != nil {
		t.Fatal(err)
	}
}
