// Package fake is the kernel as the ipvs proxier meets it, without one: virtual servers, links, ipsets, settings and
// iptables, which refuse what the kernel refuses.
package fake

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"proxylab/proxiers/ipvs/kernel"
)

// Kernel is one network namespace. It is used by one goroutine at a time.
type Kernel struct {
	// Fail, if not nil, is asked before everything that changes something; its error is the kernel's.
	Fail func(what string) error
	// Calls counts what was asked of it: "list servers", "save sets", "add destination", ...
	Calls map[string]int
	// Local are the addresses of the node's own links, by address.
	Local map[netip.Addr]string

	servers map[kernel.Key]*server
	links   map[string]*link
	sets    map[string]*set
	sysctl  map[string]string
}

type server struct {
	kernel.Server
	destinations map[netip.AddrPort]*kernel.Destination
}

type link struct {
	addrs map[netip.Addr]bool
	note  string
}

// New is a namespace with nothing in it but the settings that the kernel begins with.
func New() *Kernel {
	return &Kernel{Calls: map[string]int{}, Local: map[netip.Addr]string{}, servers: map[kernel.Key]*server{},
		links: map[string]*link{}, sets: map[string]*set{}, sysctl: map[string]string{
			"net/ipv4/vs/conntrack": "0", "net/ipv4/vs/conn_reuse_mode": "1", "net/ipv4/vs/expire_nodest_conn": "0",
			"net/ipv4/vs/expire_quiescent_template": "0", "net/ipv4/ip_forward": "1",
		}}
}

// Kernel is what the proxier takes.
func (k *Kernel) Kernel() kernel.Kernel {
	return kernel.Kernel{Table: k, Links: k, Sets: sets{k}, Settings: k}
}

// asked counts a question.
func (k *Kernel) asked(what string) { k.Calls[what]++ }

// begin counts a change, and says whether it is to fail.
func (k *Kernel) begin(what string) error {
	k.Calls[what]++
	if k.Fail != nil {
		return k.Fail(what)
	}
	return nil
}

// Servers implements kernel.Table.
func (k *Kernel) Servers() ([]kernel.Server, error) {
	k.asked("list servers")
	var out []kernel.Server
	for _, s := range k.servers {
		out = append(out, s.Server)
	}
	return out, nil
}

// Destinations implements kernel.Table.
func (k *Kernel) Destinations(key kernel.Key) ([]kernel.Destination, error) {
	k.asked("list destinations")
	s := k.servers[key]
	if s == nil {
		return nil, kernel.ErrNoServer
	}
	var out []kernel.Destination
	for _, d := range s.destinations {
		out = append(out, *d)
	}
	return out, nil
}

// AddServer implements kernel.Table.
func (k *Kernel) AddServer(s kernel.Server) error {
	if err := k.begin("add server"); err != nil {
		return err
	}
	if k.servers[s.Key] != nil {
		return kernel.ErrExists
	}
	k.servers[s.Key] = &server{s, map[netip.AddrPort]*kernel.Destination{}}
	return nil
}

// UpdateServer implements kernel.Table.
func (k *Kernel) UpdateServer(s kernel.Server) error {
	if err := k.begin("update server"); err != nil {
		return err
	}
	if k.servers[s.Key] == nil {
		return kernel.ErrNoServer
	}
	k.servers[s.Key].Server = s
	return nil
}

// DeleteServer implements kernel.Table.
func (k *Kernel) DeleteServer(key kernel.Key) error {
	if err := k.begin("delete server"); err != nil {
		return err
	}
	if k.servers[key] == nil {
		return kernel.ErrNoServer
	}
	delete(k.servers, key)
	return nil
}

// AddDestination implements kernel.Table.
func (k *Kernel) AddDestination(key kernel.Key, a netip.AddrPort, weight int) error {
	if err := k.begin("add destination"); err != nil {
		return err
	}
	s := k.servers[key]
	switch {
	case s == nil:
		return kernel.ErrNoServer
	case s.destinations[a] != nil:
		return kernel.ErrExists
	}
	s.destinations[a] = &kernel.Destination{Addr: a, Weight: weight, Masquerade: true}
	return nil
}

func (k *Kernel) destination(key kernel.Key, a netip.AddrPort) (*kernel.Destination, error) {
	s := k.servers[key]
	if s == nil {
		return nil, kernel.ErrNoServer
	}
	if s.destinations[a] == nil {
		return nil, kernel.ErrNoDestination
	}
	return s.destinations[a], nil
}

// UpdateDestination implements kernel.Table.
func (k *Kernel) UpdateDestination(key kernel.Key, a netip.AddrPort, weight int) error {
	if err := k.begin("update destination"); err != nil {
		return err
	}
	d, err := k.destination(key, a)
	if err == nil {
		d.Weight = weight
	}
	return err
}

// DeleteDestination implements kernel.Table.
func (k *Kernel) DeleteDestination(key kernel.Key, a netip.AddrPort) error {
	if err := k.begin("delete destination"); err != nil {
		return err
	}
	_, err := k.destination(key, a)
	if err == nil {
		delete(k.servers[key].destinations, a)
	}
	return err
}

// Connect gives a destination connections; it fails where there is no such destination.
func (k *Kernel) Connect(key kernel.Key, a netip.AddrPort, active, inactive int) error {
	d, err := k.destination(key, a)
	if err == nil {
		d.Active, d.Inactive = active, inactive
	}
	return err
}

// drains: there are servers, and all have weight 0.
func (s *server) drains() bool {
	for _, d := range s.destinations {
		if d.Weight != 0 {
			return false
		}
	}
	return len(s.destinations) > 0
}

// Text is all of it, sorted: for comparison. Servers with weight 0, and a virtual server that has no others, are left out
// unless draining is set.
func (k *Kernel) Text(draining bool) string {
	var lines []string
	for key, s := range k.servers {
		if !draining && s.drains() {
			continue
		}
		lines = append(lines, fmt.Sprintf("server %s %s flags %x timeout %d", key, s.Scheduler, s.Flags, s.Timeout))
		for a, d := range s.destinations {
			if d.Weight != 0 || draining {
				lines = append(lines, fmt.Sprintf("server %s to %s weight %d", key, a, d.Weight))
			}
		}
	}
	for name, l := range k.links {
		lines = append(lines, "link "+name+" note "+l.note)
		for a := range l.addrs {
			lines = append(lines, "address "+a.String()+" on "+name)
		}
	}
	for name, s := range k.sets {
		lines = append(lines, "set "+name+" "+s.kind)
		for m := range s.members {
			lines = append(lines, "set "+name+" has "+m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.sysctl)) {
		lines = append(lines, name+"="+k.sysctl[name])
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
