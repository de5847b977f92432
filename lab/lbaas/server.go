// Package lbaas is a mock OpenStack whose load balancers carry traffic: Keystone, Neutron and Octavia at one address, faults on
// demand, and the processes that are the data plane.
package lbaas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"proxylab/lab/lbaas/faults"
	"proxylab/lab/lbaas/octavia"
	"proxylab/lab/lbaas/openstack"
	"proxylab/lab/lbaas/plane"
)

// Options are those of a server. The zero value is a whole OpenStack in memory, without a data plane.
type Options struct {
	State  string      // file that keeps what it knows, for the next start; "": nothing is kept
	Faults faults.Plan // what goes wrong from the beginning

	Version         string         // API version of Octavia that is advertised as current; "": the newest
	ProvisionDelay  time.Duration  // from a write until what it changes is ACTIVE
	ProvisionJitter time.Duration  // up to so much more, by chance
	Quota           map[string]int // Octavia's limits of every project by kind (loadbalancer, listener, ...); what is left out has none
	TokenTTL        time.Duration  // 0: an hour
	DefaultProject  string         // name of the project of requests at / that say none; "": demo; "-": they are refused, as by Octavia
	Users           []openstack.User
	Networks        []openstack.Network // nil: StandaloneNetworks

	Instances *Instances // nil: there is no data plane, and everything is ONLINE

	Events io.Writer // what happens, as JSON lines of Event; nil: only the admin endpoint tells
	Log    *slog.Logger
}

// Instances are the processes that carry the traffic.
type Instances struct {
	Names []string // one, or two of which the second stands by
	Start func(ctx context.Context, name string) (plane.Process, error)
	Fence func(name string) error // as plane.Options.Fence; may be nil
}

// Server is a mock OpenStack. It is safe for concurrent use.
type Server struct {
	o       Options
	log     *slog.Logger
	hub     *hub
	cloud   *openstack.Cloud
	octavia *octavia.Service
	faults  *faults.Set
	plane   *dataPlane // nil: none
	handler http.Handler

	bareProject string // id of the project of requests at / that say none

	mu    sync.Mutex
	usual octavia.Knobs // those without a plan

	work sync.WaitGroup
	done chan struct{}
}

// New makes a server, with what its state file has kept. The error says what is wrong with the options, or the file.
func New(o Options) (*Server, error) {
	s := &Server{o: o, log: o.Log, hub: newHub(), done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if mistakes := o.Faults.Validate(s.known()); len(mistakes) > 0 {
		return nil, Invalid(mistakes)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if o.Events != nil {
		r := s.hub.subscribe()
		s.work.Go(func() {
			defer r.close()
			if err := r.write(o.Events, nil, func() {}); err != nil {
				s.log.Warn("events are no longer written", "error", err)
			}
		})
	}
	s.handler = s.routes()
	if err := s.Plan(o.Faults); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open makes the parts: the cloud first, for balancers need its ports.
func (s *Server) open() error {
	co := openstack.Options{Users: s.o.Users, Networks: s.o.Networks, TokenTTL: s.o.TokenTTL}
	if co.Networks == nil {
		co.Networks = StandaloneNetworks()
	}
	oo := octavia.Options{
		Delay: s.delay, Fault: provisioning{s}, Notify: s.notify, Log: s.log,
		Knobs: octavia.Knobs{Version: s.o.Version, EnforceQuotas: true, DefaultQuota: quotaNames(s.o.Quota)},
	}
	s.usual = oo.Knobs
	if s.o.State != "" {
		file, err := openState(s.o.State)
		if err != nil {
			return err
		}
		co.State, oo.Store = file.part("openstack"), file.part("octavia")
	}
	if s.o.Instances != nil {
		s.plane = newDataPlane(s)
		co.Floating = s.plane.look
		oo.Apply, oo.Failover = s.plane.apply, s.plane.failover
	}
	s.faults = faults.NewSet(hooks{s})
	var err error
	if s.cloud, err = openstack.New(co); err != nil {
		return err
	}
	if oo.DefaultProject, err = s.defaultProject(); err != nil {
		return err
	}
	ports := s.cloud.VIPs()
	s.bareProject, oo.Network = oo.DefaultProject, ports
	if s.octavia, err = octavia.New(oo); err != nil {
		return fmt.Errorf("load balancer service: %w", err)
	}
	ports.Reconcile(s.octavia.VIPs)
	if s.plane != nil {
		s.plane.start()
	}
	return nil
}

func (s *Server) defaultProject() (string, error) {
	name := s.o.DefaultProject
	switch name {
	case "-":
		return "", nil
	case "":
		name = "demo"
	}
	id := s.cloud.ProjectID(name)
	if id == "" && s.o.DefaultProject != "" {
		return "", fmt.Errorf("the default project %q does not exist", name)
	}
	return id, nil
}

func (s *Server) delay(octavia.Operation) time.Duration {
	d := s.o.ProvisionDelay
	if s.o.ProvisionJitter > 0 {
		d += rand.N(s.o.ProvisionJitter)
	}
	return d
}

// notify passes on changes of states; calls are told of where faults have struck already.
func (s *Server) notify(e octavia.Event) {
	if e.State != nil {
		s.hub.tell(Event{Time: e.Time, State: e.State})
	}
}

// ServeHTTP answers: Octavia at /, without a token; Keystone, Octavia and Neutron at /identity, /load-balancer and /network, with
// one; and /proxylab for whoever runs it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers at a listener until ctx ends. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := server.Shutdown(soon); err != nil {
			_ = server.Close() // they have had their time
		}
		ended <- nil
	})
	err := server.Serve(l)
	if stop() { // nobody has asked for the end
		return err
	}
	return <-ended
}

// Close ends everything, and writes the state. It is called once.
func (s *Server) Close() error {
	var errs []error
	if s.faults != nil {
		s.faults.Close()
	}
	close(s.done)
	if s.octavia != nil {
		errs = append(errs, s.octavia.Close())
	}
	if s.plane != nil {
		s.plane.close()
	}
	if s.cloud != nil {
		errs = append(errs, s.cloud.Close())
	}
	s.hub.close()
	s.work.Wait()
	return errors.Join(errs...)
}

// Serve is a server from New to Close.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	s, err := New(o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return errors.Join(s.Serve(ctx, l), s.Close())
}
