package octavia

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// call is a request on its way.
type call struct {
	route
	r     *http.Request
	query url.Values
	who   caller
	raw   []byte // its body
}

// answer is what comes back; no body: none is sent.
type answer struct {
	status int
	body   any
}

// ServeHTTP answers a request of the API, whose paths begin at /. When a prefix was taken off before (http.StripPrefix),
// links still have it: they follow the request's own line.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := s.clock.Now()
	c := &call{r: r, query: r.URL.Query(), who: s.callerOf(r)}
	a, err := s.answer(w, c)
	if err != nil {
		a = answerOf(err)
	}
	if a.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "DELETE, GET, POST, PUT")
	}
	w.Header().Set("X-Openstack-Request-Id", "req-"+uuid.NewString())
	if a.body == nil {
		w.WriteHeader(a.status)
	} else {
		s.write(w, a)
	}
	now := s.clock.Now()
	s.notify(Event{Time: now, Call: &Call{Operation: c.op, Method: r.Method, Path: r.URL.Path, Status: a.status,
		Seconds: now.Sub(began).Seconds(), Project: c.who.ProjectID}})
}

func (s *Service) write(w http.ResponseWriter, a *answer) {
	data, err := encode(nil, a.body)
	if err != nil { // nothing that was accepted can be unprintable
		s.opts.Log.Error("answer", "error", err)
		data, a.status = []byte(`{"faultcode":"Server","faultstring":"unprintable","debuginfo":null}`), http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(a.status)
	_, _ = w.Write(data) // the client may have gone
}

func answerOf(err error) *answer {
	var e *Error
	if !errors.As(err, &e) {
		e = fault(http.StatusServiceUnavailable, "%s", err)
	}
	return &answer{status: e.Status, body: e.body()}
}

func (s *Service) answer(w http.ResponseWriter, c *call) (*answer, error) {
	var err error
	if c.route, err = resolve(c.r.Method, c.r.URL.Path); err != nil {
		return nil, err
	}
	if limit := c.query.Get("limit"); c.r.Method == http.MethodGet && limit != "" && limit != "infinite" {
		if _, err := strconv.Atoi(limit); err != nil {
			return nil, badLimit(limit)
		}
	}
	if c.r.Method == http.MethodPost || c.r.Method == http.MethodPut {
		if c.raw, err = s.readBody(w, c.r); err != nil {
			return nil, err
		}
	}
	if c.kind != "" {
		if err := s.findParent(c); err != nil {
			return nil, err
		}
	}
	return c.serve(s, c)
}

// findParent looks up what a path goes through, as Octavia does before it reads the body.
func (s *Service) findParent(c *call) error {
	if c.parent == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := s.kinds[s.kinds[c.kind].parent]
	if s.db.get(kind.name, c.parent) == nil {
		return lookupFailed(strings.ReplaceAll(kind.title, " ", ""), c.parent) // "L7Policy" there, "L7 Policy" elsewhere
	}
	return nil
}

func (s *Service) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.Limits.Body))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, fault(http.StatusRequestEntityTooLarge, "Request is too large: more than %d bytes", s.opts.Limits.Body)
	case err != nil:
		return nil, fault(http.StatusBadRequest, "Request is not in valid JSON format")
	}
	data = bytes.TrimSpace(data)
	if len(data) > 0 {
		if given := r.Header.Get("Content-Type"); given != "" {
			kind, _, err := mime.ParseMediaType(given)
			if err != nil || kind != "application/json" && kind != "text/javascript" && kind != "application/javascript" {
				shown, _, _ := strings.Cut(given, ";")
				return nil, fault(http.StatusUnsupportedMediaType, "Unknown mimetype: %s", shown)
			}
		}
	}
	return data, nil
}

// object decodes a body.
func (c *call) object(argument string) (map[string]any, error) {
	if len(c.raw) == 0 {
		return nil, fault(http.StatusBadRequest, "Missing argument: %q", argument)
	}
	d := json.NewDecoder(bytes.NewReader(c.raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return nil, fault(http.StatusBadRequest, "Request is not in valid JSON format")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fault(http.StatusBadRequest, "Request must be a JSON dict")
	}
	return m, nil
}

// read checks a whole body of a kind.
func (c *call) read(k *kind, of class) (map[string]any, error) {
	body, err := c.object(k.argument)
	if err != nil {
		return nil, err
	}
	return of.parse(body, k.name, k.argument)
}

func (s *Service) options(*call) (*answer, error) { return &answer{status: http.StatusOK}, nil }
