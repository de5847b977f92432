// Package octavia answers as OpenStack's load balancer service does: the Octavia API v2 over a store of balancers,
// listeners, pools, members, monitors and L7 policies, with provisioning states, validation, conflicts and error bodies as
// the real one gives them. What the objects ask for is handed to a data plane (lab/lbaas/plane) as desired state, and
// what that has seen comes back as operating states.
//
// A write answers at once with PENDING_CREATE, PENDING_UPDATE or PENDING_DELETE and locks its balancer. After the
// provisioning delay the desired state goes to Options.Apply, and the objects become ACTIVE, ERROR, or are gone.
package octavia

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"proxylab/lab/lbaas/plane"
)

// Options of a Service. The zero value is a whole Octavia in memory, without data plane: everything becomes ACTIVE and
// ONLINE by itself, at once.
type Options struct {
	// Store keeps the state across restarts; nil: it is lost. Use FileStore for a file.
	Store Store
	// Network gives VIPs; nil: every balancer has the port of nobody's network (198.0.2.5, as Octavia's noop driver).
	Network Network
	// Apply hands the desired state of all balancers to the data plane; an error puts the balancers that were being
	// provisioned in ERROR. One call at a time. nil: no data plane.
	Apply func(context.Context, []plane.Balancer) error
	// ApplyTimeout bounds one call of Apply or Failover; 0: 30 s.
	ApplyTimeout time.Duration
	// Failover moves a balancer's VIP to another instance (PUT .../failover); nil: nothing moves.
	Failover func(ctx context.Context, balancer string) error
	// Delay is how long an operation stays PENDING before it is applied; nil: no time. It must not call the service.
	Delay func(Operation) time.Duration
	// Fault is asked when an operation is due; nil: no faults.
	Fault Fault
	// Notify hears of every API call and every change of state, in order, one call at a time; it must not block.
	Notify func(Event)
	// Clock is the time; nil: the real one.
	Clock Clock
	// Manual keeps every operation PENDING until Settle ends it.
	Manual bool
	// DefaultProject owns what a request without identity and without X-Project-Id makes; "": such a request is refused,
	// as by the real one without Keystone.
	DefaultProject string
	// Providers are the drivers, the first one the default; empty: DefaultProviders.
	Providers []Provider
	// Knobs are what may be changed later too, with SetKnobs.
	Knobs Knobs
	// Limits bound what clients can make the service hold; zero fields: DefaultLimits.
	Limits Limits
	Log    *slog.Logger
}

// Provider is a driver as GET .../providers lists it.
type Provider struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// What the driver cannot do is answered 501, as by Octavia's other providers.
	NoBatchMembers bool `json:"no_batch_members,omitempty"`
	NoMonitors     bool `json:"no_monitors,omitempty"`
	NoUDP          bool `json:"no_udp,omitempty"`
}

// DefaultProviders are those of an Octavia that was not configured otherwise.
func DefaultProviders() []Provider {
	return []Provider{
		{Name: "amphora", Description: "The Octavia Amphora driver."},
		{Name: "octavia", Description: "Deprecated alias of the Octavia Amphora driver."},
	}
}

// Knobs are what can be changed while the service runs.
type Knobs struct {
	// Version is the last (CURRENT) one that GET / advertises, as "v2.26"; "": the newest.
	Version string
	// EnforceQuotas answers 403 when a project's quota is met.
	EnforceQuotas bool
	// DefaultQuota is that of projects without one of their own; a kind that is absent is unlimited (-1).
	DefaultQuota map[string]int
	// Providers replaces the features of the providers it names.
	Providers map[string]Provider
}

// Limits bound the state.
type Limits struct {
	Objects int   // of one kind; 0: 100,000
	Body    int64 // bytes of a request; 0: 4 MiB
}

// DefaultLimits are those of a Service whose Options leave them zero.
func DefaultLimits() Limits { return Limits{Objects: 100_000, Body: 4 << 20} }

// Service is an Octavia API. Close ends it.
type Service struct {
	opts   Options
	clock  Clock
	kinds  map[string]*kind
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{} // something is due
	saver  *saver
	events *eventQueue

	mu       sync.Mutex // held for moments: never during Apply, Network, Notify, Fault or a write of the state
	closed   bool
	knobs    Knobs
	db       *database
	quotas   map[string]map[string]int // project -> kind
	ops      map[string]*pending       // balancer -> what it waits for
	due      []*pending
	applied  map[string]plane.Balancer // what the data plane has been told
	seen     map[string]string         // member -> state, of the data plane
	problems map[string]string         // listener -> why it does not listen
	counters map[string]plane.Counters // listener
	forced   map[string]string         // member -> state, by ForceMember
}

// New starts a service, with the state of its store; operations that were pending go on. The error says what of the
// stored state is not readable, or which knob names nothing.
func New(opts Options) (*Service, error) {
	opts = withDefaults(opts)
	s := &Service{
		opts: opts, clock: opts.Clock, kinds: kinds(), wake: make(chan struct{}, 1),
		db: newDatabase(), quotas: map[string]map[string]int{}, ops: map[string]*pending{},
		applied: map[string]plane.Balancer{}, seen: map[string]string{}, problems: map[string]string{},
		counters: map[string]plane.Counters{}, forced: map[string]string{},
	}
	if err := s.SetKnobs(opts.Knobs); err != nil {
		return nil, err
	}
	s.saver = newSaver(opts.Store, s.snapshot, opts.Log)
	if err := s.load(); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.events = newEventQueue(opts.Notify)
	s.work.Go(s.provision)
	s.work.Go(func() { s.saver.run(s.ctx) })
	s.resume()
	return s, nil
}

func withDefaults(o Options) Options {
	if o.Network == nil {
		o.Network = noNetwork{}
	}
	if o.Clock == nil {
		o.Clock = RealClock{}
	}
	if o.ApplyTimeout <= 0 {
		o.ApplyTimeout = 30 * time.Second
	}
	if len(o.Providers) == 0 {
		o.Providers = DefaultProviders()
	}
	if o.Limits.Objects <= 0 {
		o.Limits.Objects = DefaultLimits().Objects
	}
	if o.Limits.Body <= 0 {
		o.Limits.Body = DefaultLimits().Body
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Close ends the service's work and writes its state. Calls of the API that come later are answered, but not kept.
func (s *Service) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, p := range s.ops {
		p.halt()
	}
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	err := s.saver.flush()
	s.events.close()
	return err
}

// Knobs gives the current ones.
func (s *Service) Knobs() Knobs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knobs
}

// SetKnobs replaces them. An error says which version or provider does not exist; nothing is changed then.
func (s *Service) SetKnobs(k Knobs) error {
	_, err := minorOf(k.Version)
	for name := range k.Providers {
		if !slices.ContainsFunc(s.opts.Providers, func(p Provider) bool { return p.Name == name }) {
			err = errors.Join(err, fmt.Errorf("octavia: there is no provider %q", name))
		}
	}
	for name := range k.DefaultQuota {
		known := func(q struct{ key, kind string }) bool { return q.key == name }
		if !slices.ContainsFunc(quotaKeys(), known) {
			err = errors.Join(err, fmt.Errorf("octavia: there is no quota %q", name))
		}
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs = Knobs{Version: k.Version, EnforceQuotas: k.EnforceQuotas,
		DefaultQuota: maps.Clone(k.DefaultQuota), Providers: maps.Clone(k.Providers)}
	return nil
}
