package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"proxylab/bench/events"
	"proxylab/bench/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t testing.TB, dir, token string) *Server {
	t.Helper()
	s, err := New(Options{Dir: dir, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// get asks without a network.
func get(s *Server, local bool, target string, with ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	for _, f := range with {
		f(r)
	}
	w := httptest.NewRecorder()
	s.Handler(local).ServeHTTP(w, r)
	return w
}

func TestPages(t *testing.T) {
	dir := t.TempDir()
	log := eventstest.Log(t)
	eventstest.Write(t, dir, "whole", log)
	eventstest.Write(t, dir, "cut", log[:len(log)/2])
	eventstest.Write(t, dir, "corrupt", append(append(append([]byte{}, log[:len(log)/2]...), "\noops\n"...), log[len(log)/2:]...))
	eventstest.Write(t, dir, "empty", nil)
	eventstest.Write(t, dir, "odd", []byte(`{"time":"2026-01-01T00:00:00Z","runStarted":{"id":"<script>alert(1)</script>","scenario":"<script>alert(1)</script>","proxiers":["<b>"]}}`+"\n"))
	if err := os.Mkdir(filepath.Join(dir, "no-run"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, dir, "")
	for target, want := range map[string]struct {
		status int
		has    string
	}{
		"/":                           {200, `href="/runs/whole"`},
		"/runs/whole":                 {200, "20 connections broken"},
		"/runs/cut":                   {200, "The log is cut off after"},
		"/runs/corrupt":               {200, "is not an event"},
		"/runs/empty":                 {200, "Nothing stands out"},
		"/runs/odd":                   {200, "&lt;script&gt;"},
		"/runs/whole/report.html":     {200, "<style>"},
		"/runs/whole/result.json":     {200, `"connectionsBroken": 20`},
		"/runs/whole/events.jsonl":    {200, `"runEnded"`},
		"/compare?base=cut&new=whole": {200, "cannot be judged"},
		"/compare?base=whole&new=cut": {200, `id="load-web-p99"`},
		"/compare?base=cut":           {400, "Choose two runs"},
		"/compare?base=cut&new=whole&threshold=x": {400, "per cent"},
		"/compare?base=cut&new=nothing":           {404, "no such run"},
		"/runs/nothing":                           {404, "no such run"},
		"/runs/no-run":                            {404, "no such run"},
		"/elsewhere":                              {404, "no such page"},
		"/assets/style.css":                       {200, "--hue-1"},
		"/assets/live.js":                         {200, "EventSource"},
	} {
		w := get(s, true, target)
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.has) {
			t.Errorf("%s: status %d, want %d with %q; it is %.300q", target, w.Code, want.status, want.has, w.Body.String())
		}
		if strings.Contains(w.Body.String(), "<script>alert") && w.Header().Get("Content-Type") == "text/html; charset=utf-8" {
			t.Errorf("%s: text of a log is markup", target)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "script-src 'unsafe") {
			t.Errorf("%s: policy %q", target, csp)
		}
	}
	if body := get(s, true, "/runs/whole").Body.String(); strings.Contains(body, " style=") || strings.Count(body, "<script") != 1 {
		t.Error("the page has a style or a script that its policy forbids")
	}
	if post := get(s, true, "/runs/whole", func(r *http.Request) { r.Method = http.MethodPost }); post.Code == http.StatusOK {
		t.Error("a page takes a POST")
	}
}

func TestNothingOutsideTheDirectoryIsRead(t *testing.T) {
	outside := t.TempDir()
	eventstest.Write(t, outside, "secret", []byte(`{"time":"2026-01-01T00:00:00Z","runStarted":{"id":"secret","scenario":"secret"}}`+"\n"))
	dir := filepath.Join(outside, "runs")
	eventstest.Write(t, dir, "ok", nil)
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret", events.FileName), filepath.Join(dir, "inner", events.FileName)); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, dir, "")
	for _, id := range []string{"link", "inner", "..", "../secret", "..%2fsecret", `..\secret`, "/etc", ".", "", "ok/../../secret", "\x00", "secret"} {
		for _, page := range []string{"", "/live", "/report.html", "/events.jsonl", "/result.json"} {
			if w := get(s, true, "/runs/"+id+page); w.Code == http.StatusOK {
				t.Errorf("/runs/%s%s: status %d: %.200s", id, page, w.Code, w.Body.String())
			}
		}
	}
	if strings.Contains(get(s, true, "/").Body.String(), "secret") {
		t.Error("the list shows a run outside the directory")
	}
}

func TestTheTokenIsAskedForOnce(t *testing.T) {
	dir := t.TempDir()
	eventstest.Write(t, dir, "ok", nil)
	s := newServer(t, dir, "correct")
	for _, target := range []string{"/", "/runs/ok", "/runs/ok/events.jsonl", "/assets/live.js", "/?token=wrong", "/?token=correctx", "/?token="} {
		if w := get(s, false, target); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without the token: %d", target, w.Code)
		}
	}
	w := get(s, false, "/runs/ok?token=correct&x=1")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/runs/ok?x=1" {
		t.Fatalf("with the token: %d to %q", w.Code, w.Header().Get("Location"))
	}
	c := w.Result().Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("cookies %v", c)
	}
	if w := get(s, false, "/runs/ok", func(r *http.Request) { r.AddCookie(c[0]) }); w.Code != http.StatusOK {
		t.Errorf("with the cookie: %d", w.Code)
	}
	for _, path := range []string{"//evil.example/", `/\evil.example`} {
		if to := get(s, false, path+"?token=correct").Header().Get("Location"); strings.Contains(to, "evil") {
			t.Errorf("%s leads to %q", path, to)
		}
	}
}

func TestOnLoopbackOnlyItsOwnNamesAreAnswered(t *testing.T) {
	s := newServer(t, t.TempDir(), "")
	for host, want := range map[string]int{"localhost:1": 200, "127.0.0.1:9870": 200, "[::1]:9870": 200, "localhost": 200,
		"evil.example": 403, "evil.example:9870": 403, "10.0.0.1": 403, "": 403} {
		if w := get(s, true, "/", func(r *http.Request) { r.Host = host }); w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}

// serve serves until the test ends.
func serve(t *testing.T, s *Server) (url string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

// message is one message of a live page.
type message struct {
	kind  string
	parts []part
}

// listen follows a live page.
func listen(t *testing.T, url string) (next func() (message, bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a bound for a hang, not an expectation
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close(); cancel(); client.CloseIdleConnections() })
	lines := bufio.NewReader(answer.Body)
	return func() (m message, ok bool) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return m, false
			}
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
			case "event":
				m.kind = value
			case "data":
				if err := json.Unmarshal([]byte(value), &m.parts); err != nil {
					t.Fatal(err)
				}
			case "":
				return m, true
			}
		}
	}
}

func appendTo(t *testing.T, path string, log []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(log); err != nil {
		t.Fatal(err)
	}
}

func TestALiveRunIsFollowedToItsEnd(t *testing.T) {
	dir := t.TempDir()
	log := eventstest.Log(t)
	half := len(log) / 2 // in the middle of a line
	path := eventstest.Write(t, dir, "now", log[:half])
	url, _ := serve(t, newServer(t, dir, ""))
	next := listen(t, url+"/runs/now/live")
	m, ok := next()
	if !ok || m.kind != "parts" || len(m.parts) < 5 {
		t.Fatalf("first: %q with %d parts", m.kind, len(m.parts))
	}
	appendTo(t, path, log[half:])
	var all strings.Builder
	for ok {
		if m, ok = next(); m.kind == "end" {
			break
		}
		for _, p := range m.parts {
			all.WriteString(string(p.HTML))
		}
	}
	if m.kind != "end" || !strings.Contains(all.String(), "Everything that the scenario expects held") {
		t.Errorf("the last is %q, and the end of the run was not shown", m.kind)
	}
}

func TestALivePageGetsALastUpdateWhenTheServerEnds(t *testing.T) {
	dir := t.TempDir()
	log := eventstest.Log(t)
	log = log[:len(log)/10] // drawing all of it takes longer than a server that ends waits, on a busy machine
	path := eventstest.Write(t, dir, "now", log[:len(log)/2])
	url, stop := serve(t, newServer(t, dir, ""))
	next := listen(t, url+"/runs/now/live")
	if m, _ := next(); m.kind != "parts" {
		t.Fatalf("first: %q", m.kind)
	}
	appendTo(t, path, log[len(log)/2:])
	go stop()
	var m message
	for ok := true; ok && m.kind != "end"; {
		m, ok = next()
	}
	if m.kind != "end" {
		t.Error("the page was not told of the end")
	}
	stop()
}

func TestALogThatWasReplacedIsReadAnew(t *testing.T) {
	dir := t.TempDir()
	log := eventstest.Log(t)
	path := eventstest.Write(t, dir, "r", log)
	s := newServer(t, dir, "")
	if !strings.Contains(get(s, true, "/runs/r").Body.String(), "quickstart") {
		t.Fatal("not shown")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventstest.Write(t, dir, "r", []byte(`{"time":"2026-01-01T00:00:00Z","runStarted":{"id":"r","scenario":"another"}}`+"\n"))
	if body := get(s, true, "/runs/r").Body.String(); !strings.Contains(body, "another") || strings.Contains(body, "quickstart") {
		t.Error("the old log is still shown")
	}
}
