package plane

import (
	"net/netip"
	"time"

	"proxylab/lab/lbaas/plane/sched"
)

// flowKey is a UDP flow of a listener.
type flowKey struct {
	vip    netip.Addr
	client netip.AddrPort
}

// flowMemory is what the active instance has told of a listener's UDP flows, for when this one becomes active.
type flowMemory struct{ *sched.Table[flowKey] }

func newFlowMemory() *flowMemory {
	return &flowMemory{sched.NewTable[flowKey](maxFlows, flowLife, time.Now)}
}

func (m *flowMemory) learn(l learned) {
	key := flowKey{l.VIP, l.Client}
	if l.Member == "" {
		m.Delete(key)
		return
	}
	m.Put(key, l.Member)
}

// take is asked once: from then on the flow itself knows.
func (m *flowMemory) take(key flowKey) (member string, ok bool) {
	if m.Len() == 0 {
		return "", false
	}
	if member, ok = m.Get(key); ok {
		m.Delete(key)
	}
	return member, ok
}

// kept counts the flows that can go on at their members.
func (m *flowMemory) kept(p *pool) int64 {
	n := int64(0)
	if p == nil {
		return n
	}
	for _, id := range m.All() {
		if p.worksByID(id) {
			n++
		}
	}
	return n
}
