package octavia

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxylab/lab/lbaas/plane"
)

// ports is a network that knows who has which port.
type ports struct {
	mu   sync.Mutex
	have map[string]string // port -> balancer
	last byte
}

func (p *ports) Allocate(_ context.Context, r VIPRequest) (VIP, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	v, err := noNetwork{}.Allocate(context.Background(), r)
	v.Address = netip.AddrFrom4([4]byte{10, 10, 0, p.last})
	p.have[v.PortID] = r.Balancer
	return v, err
}

func (p *ports) Release(_ context.Context, v VIP) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have[v.PortID] == "" {
		return errors.New("nobody has port " + v.PortID)
	}
	delete(p.have, v.PortID)
	return nil
}

// unreliable is a data plane that now and then does not take what it is told, and faults beside it.
type unreliable struct {
	mu       sync.Mutex
	rnd      *rand.Rand
	last     []plane.Balancer
	told     chan struct{} // last has changed
	reliable bool          // from now on
}

func (u *unreliable) apply(_ context.Context, all []plane.Balancer) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.reliable && u.rnd.IntN(40) == 0 {
		return errors.New("the instance is gone")
	}
	u.last = slices.Clone(all)
	select {
	case u.told <- struct{}{}:
	default:
	}
	return nil
}

func (u *unreliable) Provision(Operation) Outcome {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reliable {
		return Outcome{}
	}
	switch u.rnd.IntN(30) {
	case 0:
		return Outcome{Error: true}
	case 1:
		return Outcome{Hold: time.Millisecond}
	}
	return Outcome{}
}

// carried compares what the data plane does with what the balancers ask for; one in ERROR may do what it did before.
func (u *unreliable) carried(s *Service) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	want, have := map[string]string{}, map[string]string{}
	for _, lb := range s.db.all(kindBalancer) {
		if lb.Prov == active {
			want[lb.ID] = asJSON(s.spec(lb))
		}
	}
	for _, b := range u.last {
		lb := s.db.get(kindBalancer, b.ID)
		if lb == nil || lb.Prov == active {
			have[b.ID] = asJSON(b)
		}
	}
	return cmp.Diff(want, have)
}

func asJSON(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}
