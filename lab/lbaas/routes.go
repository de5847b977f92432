package lbaas

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"proxylab/lab/lbaas/faults"
	"proxylab/lab/lbaas/octavia"
	"proxylab/lab/lbaas/openstack"
)

// record is what becomes known of a request while it is answered.
type record struct {
	fault string
	who   openstack.Identity
}

type recordKey struct{}

// api is one of the services, in one of the layouts.
type api struct {
	service   string // identity, load-balancer, network
	operation func(*http.Request) string
	refuse    func(w http.ResponseWriter, r *http.Request, status int)
	next      http.Handler
}

// routes are both layouts and the admin endpoint.
func (s *Server) routes() http.Handler {
	balancers := api{"load-balancer", octavia.OperationOf, refuseBalancer, s.octavia}
	network := api{"network", openstack.NetworkOperation, openstack.RefuseNetwork, s.cloud.Network()}
	identity := api{"identity", openstack.IdentityOperation, openstack.RefuseIdentity, s.cloud.Identity()}

	withToken := func(a api) api {
		a.next = s.authenticated(a.next)
		return a
	}
	mux := http.NewServeMux()
	mount := func(prefix string, h http.Handler) {
		mux.Handle(prefix, below(prefix, h))
		mux.Handle(prefix+"/", below(prefix, h))
	}
	mount("/identity", s.serve(identity))
	mount("/load-balancer", s.serve(withToken(balancers)))
	mount("/network", s.serve(withToken(network)))
	mux.Handle("/proxylab/", s.admin())
	// The bare port is Octavia without Keystone. Clients that are given no other address ask it for networks and projects too.
	bare, bareNetwork, bareIdentity := s.serve(balancers), s.serve(s.trusting(network)), s.serve(s.trusting(identity))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case octavia.OperationOf(r) != "":
			bare.ServeHTTP(w, r)
		case openstack.NetworkOperation(r) != "":
			bareNetwork.ServeHTTP(w, r)
		case openstack.IdentityOperation(versioned(r)) != "":
			bareIdentity.ServeHTTP(w, versioned(r))
		default:
			bare.ServeHTTP(w, r)
		}
	})
	return cleanless(mux)
}

// cleanless keeps the mux from redirecting paths that it finds untidy: services answer those themselves.
func cleanless(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		for strings.Contains(path, "//") {
			path = strings.ReplaceAll(path, "//", "/")
		}
		if path != r.URL.Path {
			r = withPath(r.Context(), r, path)
		}
		mux.ServeHTTP(w, r)
	})
}

// below takes a prefix off the path, and lets links have it.
func below(prefix string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, prefix)
		if path == "" {
			path = "/"
		}
		h.ServeHTTP(w, withPath(openstack.WithPrefix(r.Context(), prefix), r, path))
	})
}

// serve is a service with faults, whose calls are told of.
func (s *Server) serve(a api) http.Handler {
	faulty := s.faults.Handler(faults.Service{Operation: a.operation, Refuse: a.refuse, Next: a.next})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &record{}
		ctx := faults.WithRecord(context.WithValue(r.Context(), recordKey{}, rec), &rec.fault)
		call := &Call{Service: a.service, Operation: a.operation(r), Method: r.Method, Path: r.RequestURI, Client: r.UserAgent()}
		seen := &statusWriter{ResponseWriter: w}
		begin := time.Now()
		defer func() { // also when the connection is dropped, which is a panic
			call.Status, call.Seconds = seen.status, time.Since(begin).Seconds()
			call.Fault, call.Project, call.User = rec.fault, rec.who.ProjectID, rec.who.UserName
			if call.Project == "" {
				call.Project = r.Header.Get("X-Project-Id")
			}
			s.hub.tell(Event{Time: begin, Call: call})
		}()
		faulty.ServeHTTP(seen, r.WithContext(ctx))
		if seen.status == 0 {
			seen.status = http.StatusOK
		}
	})
}

// statusWriter notes how a request is answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// known says who asks: to the services, and to the record.
func known(r *http.Request, who openstack.Identity) *http.Request {
	if rec, ok := r.Context().Value(recordKey{}).(*record); ok {
		rec.who = who
	}
	ctx := openstack.WithIdentity(r.Context(), who)
	return r.WithContext(octavia.WithIdentity(ctx, octavia.Identity{ProjectID: who.ProjectID, Roles: who.Roles}))
}

// authenticated lets in requests with a token that is good. What versions there are is everybody's to know.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.cloud.Authenticate(r.Header.Get("X-Auth-Token"))
		switch {
		case ok:
			r = known(r, who)
		case r.URL.Path != "/" && r.URL.Path != "/healthcheck":
			openstack.Unauthorized(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// trusting is a service that believes requests what they say, as services do without Keystone.
func (s *Server) trusting(a api) api {
	next := a.next
	a.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		project := r.Header.Get("X-Project-Id")
		if project == "" {
			project = s.bareProject
		}
		next.ServeHTTP(w, known(r, openstack.Identity{ProjectID: project, Roles: []string{"admin"}}))
	})
	return a
}

// versioned is a request of a client that takes this address for one of Keystone's v3.
func versioned(r *http.Request) *http.Request {
	return withPath(r.Context(), r, "/v3"+r.URL.Path)
}

func withPath(ctx context.Context, r *http.Request, path string) *http.Request {
	u := *r.URL
	u.Path, u.RawPath = path, ""
	r = r.Clone(ctx)
	r.URL = &u
	return r
}

// admin is for whoever runs the server.
func (s *Server) admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /proxylab/{$}", func(w http.ResponseWriter, _ *http.Request) { adminReply(w, http.StatusOK, s.Info()) })
	mux.HandleFunc("GET /proxylab/faults", func(w http.ResponseWriter, _ *http.Request) { adminReply(w, http.StatusOK, s.faults.List()) })
	mux.HandleFunc("POST /proxylab/faults", s.putOn)
	mux.HandleFunc("DELETE /proxylab/faults", func(w http.ResponseWriter, _ *http.Request) { s.takeOff(w) })
	mux.HandleFunc("DELETE /proxylab/faults/{name}", func(w http.ResponseWriter, r *http.Request) { s.takeOff(w, r.PathValue("name")) })
	mux.HandleFunc("POST /proxylab/settle/{balancer}", s.settle)
	mux.HandleFunc("GET /proxylab/events", s.events)
	return mux
}

func (s *Server) takeOff(w http.ResponseWriter, names ...string) {
	off, err := s.Calm(names...)
	if err != nil {
		adminReply(w, http.StatusNotFound, problems{Problems: []string{err.Error()}})
		return
	}
	adminReply(w, http.StatusOK, map[string][]string{"off": off})
}

// settle ends what is PENDING of a balancer by hand, well or with ?error=true.
func (s *Server) settle(w http.ResponseWriter, r *http.Request) {
	if err := s.octavia.Settle(r.PathValue("balancer"), r.URL.Query().Get("error") == "true"); err != nil {
		adminReply(w, http.StatusNotFound, problems{Problems: []string{err.Error()}})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// events streams what happens from now on, as JSON lines, until the client or the server ends.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	reader := s.hub.subscribe()
	defer reader.close()
	w.Header().Set("Content-Type", "application/jsonl")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	flush := func() { _ = out.Flush() } // a client that has gone is seen by the next write
	flush()
	if err := reader.write(w, r.Context().Done(), flush); err != nil && !errors.Is(err, context.Canceled) {
		s.log.Debug("a reader of events has gone", "error", err)
	}
}
