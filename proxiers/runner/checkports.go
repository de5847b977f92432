package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	"k8s.io/utils/clock"

	"proxylab/proxiers/services"
)

// checkPorts answers on the health check node ports of the Services with externalTrafficPolicy Local, so that a balancer
// sends what is for a Service only to nodes that have an endpoint of it:
// https://kubernetes.io/docs/reference/networking/virtual-ips/#external-traffic-policy. It counts as kube-proxy does, the
// addresses of ready endpoints on this node; those that serve while they terminate take the traffic that still comes, but
// no new traffic is to be sent their way (https://kep.k8s.io/1669).
//
// Its methods are for one goroutine; the answers are given by others.
type checkPorts struct {
	healthy func() bool
	clock   clock.Clock
	log     *slog.Logger
	// listening, if not nil, is told each address in use.
	listening func(net.Addr)

	known   map[services.Key]checkedPort
	servers map[serviceName]*checkServer
}

type serviceName struct{ namespace, name string }

// checkedPort is what one Service port says of the health of its Service.
type checkedPort struct {
	number uint16       // to answer on
	local  []netip.Addr // of ready endpoints on this node
}

func newCheckPorts(healthy func() bool, c clock.Clock, log *slog.Logger) *checkPorts {
	return &checkPorts{healthy: healthy, clock: c, log: log,
		known: map[services.Key]checkedPort{}, servers: map[serviceName]*checkServer{}}
}

// update makes the answers those of a snapshot that the kernel now matches. Servers run until ctx is done or their
// Service is gone.
func (c *checkPorts) update(ctx context.Context, want services.Snapshot) {
	touched := map[serviceName]bool{}
	note := func(k services.Key) {
		now, wanted := checkedPortOf(want.Ports[k])
		if _, was := c.known[k]; was || wanted {
			touched[serviceName{k.Namespace, k.Service}] = true
		}
		if wanted {
			c.known[k] = now
		} else {
			delete(c.known, k)
		}
	}
	for k := range want.Changed {
		note(k)
	}
	if want.Full {
		for k := range c.known {
			note(k)
		}
		for k := range want.Ports {
			note(k)
		}
	}
	if len(touched) > 0 {
		c.apply(ctx, touched)
	}
}

// apply brings the servers of Services up to date. Ports are given free first: another Service may have got one.
func (c *checkPorts) apply(ctx context.Context, touched map[serviceName]bool) {
	counts := c.count(touched)
	for s := range touched {
		if srv := c.servers[s]; srv != nil && srv.number != counts[s].number {
			srv.stop()
			delete(c.servers, s)
		}
	}
	for s, is := range counts {
		if c.servers[s] == nil {
			c.servers[s] = c.start(ctx, s, is)
		} else {
			c.servers[s].set(is.local)
		}
	}
}

// checkState is what a Service's server answers: the number of local endpoints by family, of the families it has.
type checkState struct {
	number uint16
	local  map[services.Family]int
}

// count takes what is known of all ports of the Services touched together. An address that has several ports counts once.
func (c *checkPorts) count(touched map[serviceName]bool) map[serviceName]checkState {
	type at struct {
		serviceName
		netip.Addr
	}
	counts, seen := map[serviceName]checkState{}, map[at]bool{}
	for k, p := range c.known {
		s := serviceName{k.Namespace, k.Service}
		if !touched[s] {
			continue
		}
		if counts[s].local == nil {
			counts[s] = checkState{p.number, map[services.Family]int{}}
		}
		counts[s].local[k.Family] += 0 // the Service has this family
		for _, a := range p.local {
			if !seen[at{s, a}] {
				seen[at{s, a}] = true
				counts[s].local[k.Family]++
			}
		}
	}
	return counts
}

func checkedPortOf(sp *services.ServicePort) (p checkedPort, wanted bool) {
	if sp == nil || sp.HealthCheckNodePort == 0 {
		return p, false
	}
	p.number = sp.HealthCheckNodePort
	for _, e := range sp.LocalEndpoints {
		if e.Ready {
			p.local = append(p.local, e.Addr.Addr())
		}
	}
	return p, true
}

// close ends all servers.
func (c *checkPorts) close() {
	for s, srv := range c.servers {
		srv.stop()
		delete(c.servers, s)
	}
}

// checkServer answers for one Service on a port of all of the node's addresses.
type checkServer struct {
	serviceName
	number uint16
	stop   func() // returns when nobody listens any more

	mu    sync.Mutex
	local map[services.Family]int
}

func (c *checkPorts) start(ctx context.Context, name serviceName, is checkState) *checkServer {
	srv := &checkServer{serviceName: name, number: is.number, local: is.local}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	srv.stop = func() { cancel(); wg.Wait() }
	for _, f := range []struct {
		network string
		family  services.Family
	}{{"tcp4", services.IPv4}, {"tcp6", services.IPv6}} {
		s := server{
			what: "the health check of Service " + name.namespace + "/" + name.name, network: f.network,
			address: net.JoinHostPort("", strconv.Itoa(int(is.number))), handler: srv.handler(f.family, c.healthy),
			clock: c.clock, log: c.log, listening: c.listening,
		}
		wg.Go(func() { s.run(ctx) })
	}
	return srv
}

func (s *checkServer) set(local map[services.Family]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.local = local
}

// count is the number of endpoints for a balancer that asks by a family. A Service that lacks it answers with the other.
func (s *checkServer) count(f services.Family) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, has := s.local[f]; has {
		return n
	}
	for _, n := range s.local {
		return n
	}
	return 0
}

// checkBody is the answer, in kube-proxy's words.
type checkBody struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

func (s *checkServer) handler(f services.Family, healthy func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body := checkBody{LocalEndpoints: s.count(f), ServiceProxyHealthy: healthy()}
		body.Service.Namespace, body.Service.Name = s.namespace, s.name
		code := http.StatusOK
		if body.LocalEndpoints == 0 || !body.ServiceProxyHealthy {
			code = http.StatusServiceUnavailable
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(body.LocalEndpoints))
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body) // the client is gone: its matter
	})
}
