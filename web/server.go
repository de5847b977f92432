// Package web is the dashboard: the runs of a directory, live and recorded, in a browser. It only ever reads, and nothing in it
// changes a lab.
//
// Every page is whole without a script. A small script of our own replaces parts of a live run's page as the server sends
// them.
package web

import (
	"context"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"proxylab/bench/report/html"
)

//go:embed *.tmpl live.js
var files embed.FS

// Options are what a dashboard is made of.
type Options struct {
	Dir   string // of runs: each a directory with an event log
	Token string // what visitors must show; empty: none, which is for loopback alone
	Log   *slog.Logger
}

// Server is a dashboard.
type Server struct {
	options   Options
	root      *os.Root
	store     *store
	templates *template.Template
	style     []byte
	script    []byte
	closing   chan struct{} // closed when live pages are to get their last update
}

// New makes a dashboard. Close it in the end.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of runs: %w", err)
	}
	s := &Server{options: o, root: root, store: newStore(root), closing: make(chan struct{})}
	if s.templates, err = html.Templates(); err == nil {
		s.templates, err = s.templates.ParseFS(files, "*.tmpl")
	}
	if err == nil {
		s.style, err = html.Style()
	}
	if err == nil {
		s.script, err = files.ReadFile("live.js")
	}
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("the dashboard's own files: %w", err)
	}
	return s, nil
}

// Close ends live pages, and closes the directory.
func (s *Server) Close() error { return s.root.Close() }

// Serve answers on l until ctx is done; pages of live runs get a last update then. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           s.Handler(isLoopback(l.Addr())),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	close(s.closing)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(last); err != nil {
		_ = srv.Close() // whoever still reads has had five seconds
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// isLoopback says whether only this machine can reach an address.
func isLoopback(a net.Addr) bool {
	p, err := netip.ParseAddrPort(a.String())
	return err == nil && p.Addr().Unmap().IsLoopback()
}

// Handler is the dashboard as a handler. Local: it listens on loopback alone, so it answers to names of this machine alone;
// otherwise a page somewhere else could read it through a name of its own that leads here.
func (s *Server) Handler(local bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.list)
	mux.HandleFunc("GET /runs/{id}", s.run)
	mux.HandleFunc("GET /runs/{id}/live", s.live)
	mux.HandleFunc("GET /runs/{id}/report.html", s.report)
	mux.HandleFunc("GET /runs/{id}/events.jsonl", s.log)
	mux.HandleFunc("GET /runs/{id}/result.json", s.result)
	mux.HandleFunc("GET /compare", s.compare)
	mux.HandleFunc("GET /assets/style.css", asset("text/css; charset=utf-8", s.style))
	mux.HandleFunc("GET /assets/live.js", asset("text/javascript; charset=utf-8", s.script))
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, http.StatusNotFound, "There is no such page.")
	})
	var h http.Handler = mux
	h = s.authorised(h)
	if local {
		h = s.ownNames(h)
	}
	return secured(h)
}

// policy lets a page load what comes from here, and nothing from elsewhere; no script and no style stands in a page.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) ownNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		a, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !a.IsLoopback()) {
			s.refuse(w, http.StatusForbidden, "This dashboard answers on this machine alone, as localhost.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// cookie is the name under which a browser keeps the token.
const cookie = "proxylab-token"

// authorised asks for the token, once: then the browser has it in a cookie, and it is in no address any more.
func (s *Server) authorised(next http.Handler) http.Handler {
	if s.options.Token == "" {
		return next
	}
	same := func(given string) bool {
		return subtle.ConstantTimeCompare([]byte(given), []byte(s.options.Token)) == 1
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if given := r.URL.Query().Get("token"); given != "" && same(given) {
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: given, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // plain HTTP: Secure would lose it
			u := *r.URL
			q := u.Query()
			q.Del("token")
			u.Scheme, u.Host, u.RawQuery = "", "", q.Encode()
			if u.Path = "/"; r.Method == http.MethodGet && localPath(r.URL.Path) {
				u.Path = r.URL.Path
			}
			http.Redirect(w, r, u.String(), http.StatusSeeOther)
			return
		}
		if c, err := r.Cookie(cookie); err == nil && same(c.Value) {
			next.ServeHTTP(w, r)
			return
		}
		s.refuse(w, http.StatusUnauthorized, "Open this dashboard by the address that was printed when it started: it has a token in it.")
	})
}

// localPath: "//elsewhere/" would lead to another host.
func localPath(p string) bool {
	return len(p) > 0 && p[0] == '/' && (len(p) == 1 || p[1] != '/' && p[1] != '\\')
}

func asset(kind string, data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data) // a visitor that is gone
	}
}
