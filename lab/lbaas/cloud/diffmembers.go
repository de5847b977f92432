package cloud

import (
	"fmt"
	"slices"
	"strings"
)

// memberChange is what has to become of a pool's members: all of them, for a batch, and one by one for providers that have
// none.
type memberChange struct {
	All    []batchMember
	Create []wantMember
	Update []memberUpdate
	Delete []string // IDs

	names [3][]string // created, updated, deleted
}

type memberUpdate struct {
	ID    string
	Patch patch
}

func (c memberChange) String() string {
	var b strings.Builder
	for i, sign := range []string{" +", " ~", " -"} {
		for n, name := range c.names[i] {
			if n == 3 && len(c.names[i]) > 4 {
				fmt.Fprintf(&b, "%s(%d more)", sign, len(c.names[i])-n)
				break
			}
			b.WriteString(sign + name)
		}
	}
	return b.String()
}

// diffMembers is nil if there is nothing to do. Members are known by address and port.
func diffMembers(w []wantMember, h []haveMember) *memberChange {
	c := &memberChange{All: []batchMember{}}
	known := map[string]haveMember{}
	for _, m := range h {
		known[m.socket()] = m
	}
	for _, m := range w {
		old, ok := known[m.socket()]
		delete(known, m.socket())
		b := batchMember{"name": m.Name, "address": m.Address, "protocol_port": m.Port, "weight": m.Weight, "admin_state_up": true}
		if m.SubnetID != "" {
			b["subnet_id"] = m.SubnetID
		}
		if m.MonitorPort != 0 {
			b["monitor_port"] = m.MonitorPort
		}
		if !ok {
			c.Create, c.names[0] = append(c.Create, m), append(c.names[0], m.Name)
		} else if p := diffMember(m, old); len(p) > 0 {
			// What the body leaves out stays as it is.
			for field, value := range p {
				b[field] = value
			}
			c.Update, c.names[1] = append(c.Update, memberUpdate{old.ID, p}), append(c.names[1], m.Name)
		}
		c.All = append(c.All, b)
	}
	for _, m := range h {
		if _, left := known[m.socket()]; left {
			c.Delete, c.names[2] = append(c.Delete, m.ID), append(c.names[2], m.display())
		}
	}
	if len(c.Create)+len(c.Update)+len(c.Delete) == 0 {
		return nil
	}
	slices.Sort(c.Delete)
	return c
}

func diffMember(w wantMember, h haveMember) patch {
	p := patch{}
	p.set("name", w.Name, h.Name)
	p.set("weight", w.Weight, h.Weight)
	p.set("admin_state_up", true, h.AdminUp)
	p.set("backup", false, h.Backup)
	if w.MonitorPort != h.MonitorPort {
		p["monitor_port"] = nil
		if w.MonitorPort != 0 {
			p["monitor_port"] = w.MonitorPort
		}
	}
	return p
}

func (m wantMember) socket() string { return fmt.Sprintf("%s %d", m.Address, m.Port) }

func (m haveMember) display() string {
	if m.Name != "" {
		return m.Name
	}
	return m.Address
}
