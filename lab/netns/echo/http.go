package echo

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (s *Server) serveHTTP(l net.Listener) {
	h := newHandler(s)
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that went away are no news
	}
	if !s.track(srv) {
		return
	}
	_ = srv.Serve(l) // ends by Close, with an error that says just that
}

// handler answers with a body of which all but the two addresses is made once.
type handler struct {
	s       *Server
	prefix  string // up to the client's address
	padding string
}

func newHandler(s *Server) *handler {
	quote := func(v string) string {
		b, err := json.Marshal(v)
		if err != nil {
			return `""` // strings always can be marshalled
		}
		return string(b)
	}
	return &handler{
		s: s,
		prefix: `{"pod":` + quote(s.opts.Pod) + `,"node":` + quote(s.opts.Node) +
			`,"namespace":` + quote(s.opts.Namespace) + `,"client":"`,
		padding: strings.Repeat("x", s.opts.Size),
	}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set(PodHeader, h.s.opts.Pod)
	if h.s.opts.Close {
		head.Set("Connection", "close")
	}
	status := http.StatusOK
	if r.URL.Path == "/healthz" {
		if !h.s.Ready() {
			status = http.StatusServiceUnavailable
		}
	} else {
		if !h.s.pause(h.s.opts.Delay) {
			panic(http.ErrAbortHandler) // net/http's way to drop a connection without an answer
		}
		if h.s.fails() {
			status = http.StatusInternalServerError
		}
	}
	body := h.body(r)
	head.Set("Content-Type", "application/json")
	head.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is its own affair
}

func (h *handler) body(r *http.Request) []byte {
	local := ""
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		local = a.String()
	}
	b := make([]byte, 0, max(h.s.opts.Size, len(h.prefix)+160))
	b = append(b, h.prefix...)
	b = append(b, r.RemoteAddr...)
	b = append(b, `","server":"`...)
	b = append(b, local...)
	b = append(b, `","proto":"`...)
	b = append(b, r.Proto...)
	b = append(b, '"')
	const field = `,"padding":""`
	if missing := h.s.opts.Size - len(b) - len("}\n"); missing > 0 {
		if missing >= len(field) {
			b = append(b, field[:len(field)-1]...)
			b = append(b, h.padding[:missing-len(field)]...)
			b = append(b, '"')
		} else {
			b = append(b, "             "[:missing]...)
		}
	}
	return append(b, '}', '\n')
}
