package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxylab/proxiers/conformance/dialer"
)

// sentinel is a Service whose port and endpoint change so that the data path tells how far a proxier is. Watches keep
// the order of a resource's changes: once a node obeys both a change of this Service and one of its slices, it knows all
// that was written before. Since a proxier may show one rule of a pass before it has written another, there are two such
// changes, one after the other: the second is made in a later pass. Each is to a port that was not used for long: the
// former ports may go last in their pass, and would answer for a change that is still to come.
type sentinel struct {
	world   *world
	service *Service
	// attempt is how long one try of the data path may take.
	attempt, limit time.Duration

	turn          sync.Mutex
	started, done atomic.Int64
	flips         atomic.Int32
}

// The sentinel's ports are used by turns.
const sentinelPort, sentinelPorts = 1000, 5000

func newSentinel(ctx context.Context, w *world, patience func(time.Duration) time.Duration) (*sentinel, error) {
	s := &sentinel{world: w, attempt: patience(80 * time.Millisecond), limit: patience(40 * time.Second)}
	s.service = &Service{ctx: ctx, world: w, namespace: Namespace, name: "sentinel", ports: []Port{{Name: dialer.TCP, Port: sentinelPort}}}
	if err := s.service.create(); err != nil {
		return nil, err
	}
	return s, s.service.setEndpoints(ctx, Ready(sentinelPods[0]))
}

var sentinelPods = []string{Local1, Remote1}

// settle returns when all nodes' data paths obey what was in the API when it was called. Calls at the same time share
// the work.
func (s *sentinel) settle(ctx context.Context) error {
	need := s.started.Load() + 1
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.done.Load() >= need {
		return nil
	}
	mine := s.started.Add(1)
	for range 2 {
		if err := s.flip(ctx); err != nil {
			return err
		}
	}
	s.done.Store(mine)
	return nil
}

// port is where it is now.
func (s *sentinel) port() int32 { return sentinelPort + s.flips.Load()%sentinelPorts }

// flip changes the Service and its slices, and waits until that shows.
func (s *sentinel) flip(ctx context.Context) error {
	pod := sentinelPods[s.flips.Add(1)%2]
	port := s.port()
	if err := s.service.edit(ctx, func(svc *service) { svc.Spec.Ports[0].Port = port }); err != nil {
		return err
	}
	if err := s.service.setEndpoints(ctx, Ready(pod)); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range []string{Node1, Node2} {
		for _, f := range []Family{IPv4, IPv6} {
			to := netip.AddrPortFrom(s.service.ip(f), uint16(port))
			g.Go(func() error { return s.await(ctx, node, to, pod) })
		}
	}
	return g.Wait()
}

// errBehind says that a node's data path does not take changes in.
var errBehind = errors.New("the data path does not follow the API")

func (s *sentinel) await(ctx context.Context, node string, to netip.AddrPort, pod string) error {
	d, err := s.world.dialer(ctx, node)
	if err != nil {
		return err
	}
	a, err := d.Ask(ctx, dialer.Request{
		Do: dialer.Until, Network: dialer.TCP, To: to, Name: pod, Timeout: s.attempt, Within: s.limit, Abort: true,
	})
	if err != nil {
		return err
	}
	if a.Pods[pod] == 0 {
		_, what := s.world.place(node)
		return fmt.Errorf("%w: after %s %s answers on %s with %s, not with %s", errBehind, s.limit, to, what, describe(a.Tally), pod)
	}
	return nil
}
