package plane

import (
	"errors"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"proxylab/lab/lbaas/plane/check"
	"proxylab/lab/lbaas/plane/sched"
)

const (
	stickSize = 10 * 1024 // entries of a stick table, Octavia's default
	// udpPersistence is LVS's default.
	udpPersistence = 360 * time.Second
)

var errNoMember = errors.New("no member is available")

// pool chooses among members. It is safe for concurrent use.
type pool struct {
	id      string
	changed func()        // a member's state is another one
	learned func(learned) // a decision that lasts was made

	mu      sync.RWMutex
	spec    Pool
	picker  *sched.Picker
	members map[string]*member // the map is replaced, never changed
	bySrc   *sched.Table[netip.Addr]
	byApp   *sched.Table[string]
}

// member is a server of a pool, as it is now. Only its pool changes it.
type member struct {
	id      string
	address string         // of connections
	at      netip.AddrPort // the same
	spec    Member         // this and what follows is the pool's alone
	health  health
	watch   *watch // nil: nobody asks it
	down    bool   // by its health
}

// choice is a member chosen for one connection or flow; it is given back with release.
type choice struct {
	*member
	picker *sched.Picker
	direct bool // by persistence
}

func (c choice) release() { c.picker.Done(c.id) }

func newPool(id string, changed func(), learn func(learned)) *pool {
	return &pool{id: id, changed: changed, learned: learn}
}

// update takes another desired state. Members that stay keep their health, connections and persistence.
func (p *pool) update(spec Pool, watching bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.picker == nil || p.spec.Algorithm != spec.Algorithm {
		picker, err := sched.New(spec.Algorithm)
		if err != nil {
			return err
		}
		p.picker = picker
	}
	if !reflect.DeepEqual(p.spec.Persistence, spec.Persistence) || p.bySrc == nil || p.spec.Protocol != spec.Protocol {
		p.newTables(spec)
	}
	p.spec = spec
	watching = watching && spec.AdminUp && spec.Monitor != nil && spec.Monitor.AdminUp && check.Supported(spec.Monitor.Type)
	old := p.members
	p.members = make(map[string]*member, len(spec.Members))
	for _, ms := range spec.Members {
		p.members[ms.ID] = p.updateMember(old[ms.ID], ms, watching)
	}
	for id, m := range old {
		if p.members[id] != m && m.watch != nil {
			m.watch.stop()
		}
	}
	p.refresh()
	return nil
}

func (p *pool) newTables(spec Pool) {
	var last time.Duration // haproxy's never expire
	if spec.Protocol == "UDP" {
		last = udpPersistence
		if spec.Persistence != nil && spec.Persistence.Timeout > 0 {
			last = spec.Persistence.Timeout
		}
	}
	p.bySrc = sched.NewTable[netip.Addr](stickSize, last, time.Now)
	p.byApp = sched.NewTable[string](stickSize, 0, time.Now)
}

func (p *pool) updateMember(m *member, spec Member, watching bool) *member {
	at := netip.AddrPortFrom(spec.Address, spec.Port)
	if m == nil || m.at != at {
		m = &member{id: spec.ID, at: at, address: at.String()}
	}
	m.spec = spec
	if !watching || !spec.AdminUp {
		if m.watch != nil {
			m.watch.stop()
			m.watch = nil
		}
		m.health, m.down = health{}, false
		return m
	}
	probe := probeOf(p.spec, spec)
	if m.watch == nil {
		m.health = newHealth(*p.spec.Monitor)
	} else {
		m.health.retune(*p.spec.Monitor)
	}
	if m.watch == nil || !m.watch.is(probe, *p.spec.Monitor) {
		if m.watch != nil {
			m.watch.stop()
		}
		m.watch = startWatch(probe, *p.spec.Monitor, func(w *watch, err error) { p.answered(m, w, err) })
	}
	m.down = !m.health.up()
	return m
}

// answered takes the result of a probe.
func (p *pool) answered(m *member, w *watch, err error) {
	p.mu.Lock()
	if m.watch != w { // a late one
		p.mu.Unlock()
		return
	}
	changed := m.health.result(err == nil)
	if changed {
		m.down = !m.health.up()
		p.refresh()
	}
	p.mu.Unlock()
	if changed {
		p.changed()
	}
}

// refresh tells the picker who is there.
func (p *pool) refresh() {
	servers := make([]sched.Server, 0, len(p.spec.Members))
	for _, ms := range p.spec.Members {
		servers = append(servers, sched.Server{
			ID: ms.ID, Weight: ms.Weight, Backup: ms.Backup, Usable: p.usable(p.members[ms.ID]),
		})
	}
	p.picker.Update(servers)
}

// usable members carry connections, be it only those of clients that know them (weight 0).
func (p *pool) usable(m *member) bool { return m != nil && p.spec.AdminUp && m.spec.AdminUp && !m.down }

// stop ends the monitors.
func (p *pool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		if m.watch != nil {
			m.watch.stop()
			m.watch = nil
		}
	}
}

// states are the operating states of the members; one that was not asked yet has none.
func (p *pool) states(into map[string]string, balancerUp bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for id, m := range p.members {
		switch {
		case !balancerUp || !p.spec.AdminUp || !m.spec.AdminUp:
			into[id] = Offline
		case m.down:
			into[id] = Error
		case m.spec.Weight == 0:
			into[id] = Draining
		case m.watch == nil:
			into[id] = NoMonitor
		case m.health.known:
			into[id] = Online
		}
	}
}

func (p *pool) enabled() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.spec.AdminUp
}

func (p *pool) protocol() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.spec.Protocol
}
