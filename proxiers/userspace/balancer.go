package userspace

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// balancer chooses an endpoint for each connection or flow: in turn, or the client's last one while its affinity lasts.
// It is safe for concurrent use.
type balancer struct {
	now func() time.Time

	mu        sync.Mutex
	endpoints []netip.AddrPort // sorted
	last      netip.AddrPort   // the turn is on whoever comes next in the order of addresses
	timeout   time.Duration    // of affinity; 0: none
	clients   map[netip.Addr]sticky
	sweep     time.Time // when expired clients are forgotten next
}

type sticky struct {
	endpoint netip.AddrPort
	used     time.Time
}

func newBalancer(now func() time.Time) *balancer {
	return &balancer{now: now, clients: map[netip.Addr]sticky{}}
}

// update replaces the endpoints, which must be sorted. Whose turn it is survives; clients of an endpoint that is gone
// will get another, and all do when affinity is switched off.
func (b *balancer) update(endpoints []netip.AddrPort, timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.endpoints) == 0 && len(endpoints) > 0 {
		// Nodes that start together must not all begin with the same endpoint.
		b.last = endpoints[rand.IntN(len(endpoints))]
	}
	b.endpoints, b.timeout = slices.Clone(endpoints), timeout
	for client, s := range b.clients {
		if timeout == 0 || !b.has(s.endpoint) {
			delete(b.clients, client)
		}
	}
}

// pick chooses for a client. Endpoints in not were tried already and come into question only when there is no other,
// and then the client's affinity moves. It returns false when there is no endpoint.
func (b *balancer) pick(client netip.Addr, not []netip.AddrPort) (netip.AddrPort, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.endpoints) == 0 {
		return netip.AddrPort{}, false
	}
	now := b.now()
	if s, ok := b.clients[client]; ok && now.Sub(s.used) < b.timeout && !slices.Contains(not, s.endpoint) {
		b.clients[client] = sticky{s.endpoint, now}
		return s.endpoint, true
	}
	chosen := b.turn()
	for range b.endpoints {
		if !slices.Contains(not, chosen) {
			break
		}
		chosen = b.turn()
	}
	if b.timeout > 0 {
		b.forget(now)
		b.clients[client] = sticky{chosen, now}
	}
	return chosen, true
}

// turn gives the turn to the next endpoint behind the last one. Because the order is that of the addresses, two
// endpoints that stay get the same share to within one, whatever comes and goes beside them.
func (b *balancer) turn() netip.AddrPort {
	i, found := slices.BinarySearchFunc(b.endpoints, b.last, netip.AddrPort.Compare)
	if found {
		i++
	}
	b.last = b.endpoints[i%len(b.endpoints)]
	return b.last
}

func (b *balancer) has(e netip.AddrPort) bool {
	_, found := slices.BinarySearchFunc(b.endpoints, e, netip.AddrPort.Compare)
	return found
}

// forget drops expired clients, at most once per timeout so that its cost is spread.
func (b *balancer) forget(now time.Time) {
	if now.Before(b.sweep) {
		return
	}
	b.sweep = now.Add(b.timeout)
	for client, s := range b.clients {
		if now.Sub(s.used) >= b.timeout {
			delete(b.clients, client)
		}
	}
}
