// Package sched decides which server gets a client, as haproxy does.
package sched

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
)

// Algorithms, Octavia's names.
const (
	RoundRobin       = "ROUND_ROBIN"
	LeastConnections = "LEAST_CONNECTIONS"
	SourceIP         = "SOURCE_IP"
	SourceIPPort     = "SOURCE_IP_PORT"
)

// Server is one to choose from. Weight 0 is never chosen.
type Server struct {
	ID     string
	Weight int
	Backup bool // chosen only where no other server can be
	Usable bool // up, and wanted
}

// Picker chooses a server for each client. It is safe for concurrent use.
type Picker struct {
	algorithm string
	mu        sync.Mutex
	servers   []*server
	byID      map[string]*server
	usable    []*server // those that are chosen from
	total     int       // weight of these
	byHash    []*server // one place per weight: where a hash leads
	clock     uint64
}

type server struct {
	Server
	current  int // smooth weighted round robin: how much it is due
	inflight int
	moved    uint64 // when inflight changed last: the longest unmoved of equals is next
}

// New fails for an algorithm that is not known.
func New(algorithm string) (*Picker, error) {
	switch algorithm {
	case RoundRobin, LeastConnections, SourceIP, SourceIPPort:
		return &Picker{algorithm: algorithm, byID: map[string]*server{}}, nil
	}
	return nil, fmt.Errorf("algorithm %q is not known", algorithm)
}

// Update sets the servers, in their order. Servers that stay keep their connections and their turn.
func (p *Picker) Update(servers []Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.byID
	p.servers, p.byID = make([]*server, 0, len(servers)), make(map[string]*server, len(servers))
	for _, spec := range servers {
		s := old[spec.ID]
		if s == nil {
			s = &server{}
		}
		s.Server = spec
		p.servers = append(p.servers, s)
		p.byID[spec.ID] = s
	}
	p.usable, p.total = p.usable[:0], 0
	for _, backup := range []bool{false, true} {
		for _, s := range p.servers {
			if s.Usable && s.Weight > 0 && s.Backup == backup {
				p.usable = append(p.usable, s)
				p.total += s.Weight
			}
		}
		if len(p.usable) > 0 {
			break
		}
	}
	p.byHash = nil
	if p.algorithm == SourceIP || p.algorithm == SourceIPPort {
		p.spread()
	}
}

// spread fills byHash with each server as often as its weight says, interleaved, in haproxy's order.
func (p *Picker) spread() {
	div := 0
	for _, s := range p.usable {
		div = gcd(div, s.Weight)
	}
	if div == 0 {
		return
	}
	total := p.total / div
	due := make([]int, len(p.usable))
	for range total {
		best, most := 0, -1
		for i, s := range p.usable {
			due[i] += s.Weight / div
			if v := (due[i] + total) / total; v > most {
				best, most = i, v
			}
		}
		due[best] -= total
		p.byHash = append(p.byHash, p.usable[best])
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Pick chooses a server, another one than avoid where there is a choice (a hash leaves none), and counts it as taken: the caller gives it
// back with Done. It says false where no server is usable.
func (p *Picker) Pick(client netip.AddrPort, avoid string) (id string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.usable) == 0 {
		return "", false
	}
	var s *server
	switch p.algorithm {
	case LeastConnections:
		s = p.least(avoid)
	case SourceIP, SourceIPPort:
		s = p.hashed(client)
	default:
		s = p.next(avoid)
	}
	p.move(s, 1)
	return s.ID, true
}

// Take counts a connection of a server that was chosen otherwise, as by persistence.
func (p *Picker) Take(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.byID[id]; s != nil {
		p.move(s, 1)
	}
}

// Done gives back what Pick or Take took. The server may be gone.
func (p *Picker) Done(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.byID[id]; s != nil && s.inflight > 0 {
		p.move(s, -1)
	}
}

// Inflight is how many connections a server has.
func (p *Picker) Inflight(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.byID[id]; s != nil {
		return s.inflight
	}
	return 0
}

func (p *Picker) move(s *server, n int) {
	p.clock++
	s.inflight, s.moved = s.inflight+n, p.clock
}

// next is smooth weighted round robin: the one that is most due pays with the weight of all. One to avoid keeps its turn.
func (p *Picker) next(avoid string) *server {
	var best *server
	for _, s := range p.usable {
		s.current += s.Weight
		if s.ID == avoid && len(p.usable) > 1 {
			continue
		}
		if best == nil || s.current > best.current {
			best = s
		}
	}
	best.current -= p.total
	return best
}

// least compares connections by weight; idle servers are equal whatever they weigh.
func (p *Picker) least(avoid string) *server {
	const scale = 256 // the greatest weight
	load := func(s *server) int {
		if s.inflight == 0 {
			return 0
		}
		return (s.inflight + 1) * scale / s.Weight
	}
	var best *server
	for _, s := range p.usable {
		if s.ID == avoid && len(p.usable) > 1 {
			continue
		}
		if best == nil || load(s) < load(best) || load(s) == load(best) && s.moved < best.moved {
			best = s
		}
	}
	return best
}

// hashed is where a source belongs, be it refused there: haproxy knows no other place for it either.
func (p *Picker) hashed(client netip.AddrPort) *server {
	h := hashOf(client.Addr())
	if p.algorithm == SourceIPPort {
		h ^= uint32(client.Port()) * 2654435761 // spreads neighbouring ports
	}
	return p.byHash[h%uint32(len(p.byHash))]
}

// hashOf is haproxy's hash of a source: the words of the address, folded.
func hashOf(a netip.Addr) uint32 {
	b := a.Unmap().AsSlice()
	h := uint32(0)
	for len(b) >= 4 {
		h ^= binary.BigEndian.Uint32(b)
		b = b[4:]
	}
	return h
}
