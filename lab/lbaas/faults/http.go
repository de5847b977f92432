package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Service is an API that faults strike.
type Service struct {
	Operation func(*http.Request) string // "": it is none, and nothing strikes it
	// Refuse answers with an error as this service would. 5xx of a gateway and 429 are the same for all, and not asked for.
	Refuse func(w http.ResponseWriter, r *http.Request, status int)
	Next   http.Handler
}

type recordKey struct{}

// WithRecord makes the name of a fault that strikes a request of ctx known to whoever has made the record.
func WithRecord(ctx context.Context, name *string) context.Context {
	return context.WithValue(ctx, recordKey{}, name)
}

// Handler is a service with faults.
func (s *Set) Handler(service Service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := service.Operation(r)
		if operation == "" {
			service.Next.ServeHTTP(w, r)
			return
		}
		acting := s.strike(operation, Fault.acts)
		struck := s.strike(operation, Fault.onRequest)
		s.record(r, operation, struck)
		seen := &watcher{ResponseWriter: w, status: http.StatusOK}
		answer(seen, r, service, struck)
		if seen.done && seen.status >= 400 {
			return
		}
		for _, a := range acting {
			s.record(r, operation, []*active{a})
			s.begin(a)
		}
	})
}

func (s *Set) record(r *http.Request, operation string, struck []*active) {
	name, _ := r.Context().Value(recordKey{}).(*string)
	for _, a := range struck {
		if name != nil && *name == "" {
			*name = a.Name
		}
		s.hooks.Told(a.Name, "strike", operation)
	}
}

// watcher knows how a request was answered by the service itself.
type watcher struct {
	http.ResponseWriter
	status int
	done   bool // the service was asked
}

// WriteHeader notes the status.
func (w *watcher) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// answer lets a service answer a request, or the faults that struck it.
func answer(w *watcher, r *http.Request, service Service, struck []*active) {
	var before, after time.Duration
	var status int
	var drop, commit bool
	for _, a := range struck {
		d := time.Duration(a.Latency)
		if a.Jitter > 0 {
			d += rand.N(time.Duration(a.Jitter))
		}
		if a.AfterCommit {
			after += d
		} else {
			before += d
		}
		if status == 0 && !drop {
			status, drop, commit = a.Status, a.Drop, a.AfterCommit
		}
	}
	if before > 0 {
		// The HTTP server notices that a client has gone only when it has read what that has sent.
		r = read(r)
	}
	if !wait(r, struck, before) {
		return
	}
	if status == 0 && !drop && after == 0 {
		w.done = true
		service.Next.ServeHTTP(w, r)
		return
	}
	kept := &buffer{header: http.Header{}, status: http.StatusOK}
	if commit || after > 0 {
		// A client that has gone away does not undo what it has asked for.
		service.Next.ServeHTTP(kept, r.WithContext(context.WithoutCancel(r.Context())))
		w.done, w.status = true, kept.status
	}
	if !wait(r, struck, after) {
		return
	}
	switch {
	case drop:
		panic(http.ErrAbortHandler) // net/http's way to close a connection without an answer
	case status != 0:
		committed := w.status
		refuse(w, r, service, status)
		if w.done {
			w.status = committed // what became of the request is what counts
		}
	default:
		kept.send(w)
	}
}

// largestBody is more than any of the services takes.
const largestBody = 16 << 20

// read is a request whose body is here.
func read(r *http.Request) *http.Request {
	body, err := io.ReadAll(io.LimitReader(r.Body, largestBody))
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	}
	return r
}

// failing is the end of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// wait lets time pass, at most until the faults that want it are put off. false: the client has gone.
func wait(r *http.Request, struck []*active, d time.Duration) bool {
	if d == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	for _, a := range struck {
		if a.Latency == 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return r.Context().Err() == nil
		case <-a.ctx.Done():
		}
	}
	return r.Context().Err() == nil
}

// refuse answers with an error: the gateway's own in front of the services, or the service's.
func refuse(w http.ResponseWriter, r *http.Request, service Service, status int) {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "no-cache")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<html><body><h1>%d %s</h1>\nThis is a fault that was asked for.\n</body></html>\n", status, http.StatusText(status))
	case http.StatusTooManyRequests:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"code":429,"title":%q,"message":"This is a fault that was asked for."}}`, strings.ToTitle("Too Many Requests"))
	default:
		service.Refuse(w, r, status)
	}
}

// buffer keeps an answer back.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffer) Header() http.Header         { return b.header }
func (b *buffer) WriteHeader(status int)      { b.status = status }
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }

func (b *buffer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), b.header)
	w.WriteHeader(b.status)
	_, _ = w.Write(b.body.Bytes()) // who has gone away needs no answer
}
