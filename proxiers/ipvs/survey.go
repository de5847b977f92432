package ipvs

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/services"
)

// members are what sets of this mode hold, in the kernel.
type members map[entry]struct{}

// readSets reads what "ipset save" prints. names are the sets of this mode and of older versions of it.
func readSets(text string) (all members, names []string) {
	all = members{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		switch words[0] {
		case "create":
			if strings.HasPrefix(words[1], setPrefix) && ownedSet(words[1]) {
				names = append(names, words[1])
			}
		case "add":
			if f, id, ok := ownSet(words[1]); ok {
				all[entry{f, id, canonical(words[2])}] = struct{}{}
			}
		}
	}
	return all, names
}

// ownedSet: besides those in use, the names that kube-proxy had in earlier versions.
func ownedSet(name string) bool {
	if _, _, ok := ownSet(name); ok {
		return true
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(name, setPrefix), "6-")
	switch rest {
	case "NODE-PORT-SCTP", "NODE-PORT-LOCAL-SCTP", "LOAD-BALANCER-SOURCE", "LOAD-BALANCER-MASQ", "LOOP-BACK-TEMP", "LOAD-BALANCE":
		return true
	}
	return false
}

// owns says whether a virtual server is of this mode: its address is on the link, or it is an address of the node and the
// sets say that the port is a node port, or that the address is a Service's. What others have put into the table, for
// addresses of their own, stays.
func (m members) owns(k kernel.Key, onLink map[netip.Addr]struct{}, local map[netip.Addr]string) bool {
	a := k.Addr.Addr()
	if _, ok := onLink[a]; ok {
		return true
	}
	f := services.IPv4
	if a.Is6() {
		f = services.IPv6
	}
	has := func(id setID, member string) bool {
		_, ok := m[entry{f, id, member}]
		return ok
	}
	ipPort := a.String() + "," + strings.ToLower(string(k.Protocol)) + ":" + strconv.Itoa(int(k.Addr.Port()))
	for _, id := range []setID{setClusterIP, setExternalIP, setExternalIPLocal, setLoadBalancer, setNodePortSCTP} {
		if has(id, ipPort) {
			return true
		}
	}
	if _, ok := local[a]; !ok {
		return false
	}
	port := strconv.Itoa(int(k.Addr.Port()))
	return k.Protocol == corev1.ProtocolTCP && has(setNodePortTCP, port) || k.Protocol == corev1.ProtocolUDP && has(setNodePortUDP, port)
}

// survey reads what the kernel has of this mode, and of what is wanted whoever made it.
func (p *Proxier) survey(ctx context.Context, want *wanted) (state, error) {
	is := newState()
	addrs, _, err := p.kernel.Links.Addrs(Link)
	if err != nil {
		return is, err
	}
	for _, a := range addrs {
		is.addrs[a] = struct{}{}
	}
	text, err := p.kernel.Sets.Save(ctx)
	if err != nil {
		return is, err
	}
	all, _ := readSets(text)
	is.entries = all
	list, err := p.kernel.Table.Servers()
	if err != nil {
		return is, err
	}
	p.draining = map[kernel.Key]struct{}{}
	for _, s := range list {
		_, known := p.is.servers[s.Key]
		if !known && len(want.claims[s.Key]) == 0 && !all.owns(s.Key, is.addrs, p.env.local) || !p.servesAddr(s.Addr.Addr()) {
			continue
		}
		found, err := p.surveyServer(s)
		if err != nil {
			return is, err
		}
		is.servers[s.Key] = found
	}
	return is, nil
}

func (p *Proxier) servesAddr(a netip.Addr) bool {
	if a.Is6() {
		return p.serves(services.IPv6)
	}
	return p.serves(services.IPv4)
}

// surveyServer keeps what is known of how long servers have been draining.
func (p *Proxier) surveyServer(s kernel.Server) (*server, error) {
	list, err := p.kernel.Table.Destinations(s.Key)
	if err != nil {
		return nil, err
	}
	found := &server{Server: s, backends: map[netip.AddrPort]*backend{}}
	for _, d := range list {
		b := &backend{weight: d.Weight}
		if was := p.is.servers[s.Key]; was != nil && d.Weight == 0 {
			if known := was.backends[d.Addr]; known != nil {
				b.since = known.since
			}
		}
		found.backends[d.Addr] = b
	}
	return found, nil
}

// damage is a difference between the kernel and what was written; empty: none was found.
func (p *Proxier) damage(ctx context.Context) (string, error) {
	addrs, there, err := p.kernel.Links.Addrs(Link)
	if err != nil {
		return "", err
	}
	if !there {
		return "the link " + Link + " is gone", nil
	}
	if len(addrs) != len(p.is.addrs) {
		return fmt.Sprintf("%s has %d addresses, not %d", Link, len(addrs), len(p.is.addrs)), nil
	}
	for _, a := range addrs {
		if _, ok := p.is.addrs[a]; !ok {
			return fmt.Sprintf("%s has the address %s", Link, a), nil
		}
	}
	if why, err := p.damagedServers(); why != "" || err != nil {
		return why, err
	}
	if why, err := p.damagedSets(ctx); why != "" || err != nil {
		return why, err
	}
	for _, f := range p.families {
		if why, err := f.damage(ctx); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

func (p *Proxier) damagedServers() (string, error) {
	local, err := p.kernel.Links.LocalAddrs(Link)
	if err != nil {
		return "", err
	}
	if len(local) != len(p.env.local) {
		return "the node's addresses are others", nil
	}
	for a := range local {
		if _, ok := p.env.local[a]; !ok {
			return "the node has a new address, " + a.String(), nil
		}
	}
	list, err := p.kernel.Table.Servers()
	if err != nil {
		return "", err
	}
	found := 0
	for _, s := range list {
		was := p.is.servers[s.Key]
		if was == nil {
			continue
		}
		found++
		if was.Server != s {
			return fmt.Sprintf("virtual server %s is %+v, not %+v", s.Key, s, was.Server), nil
		}
	}
	if found != len(p.is.servers) {
		return fmt.Sprintf("of %d virtual servers there are %d", len(p.is.servers), found), nil
	}
	return "", nil
}

func (p *Proxier) damagedSets(ctx context.Context) (string, error) {
	counts, err := p.kernel.Sets.Counts(ctx)
	if err != nil {
		return "", err
	}
	want := map[string]int{}
	for e := range p.is.entries {
		want[setName(e.family, e.set)]++
	}
	for _, f := range p.families {
		for id := range numSets {
			name := setName(f.name, id)
			if n, there := counts[name]; !there || n != want[name] {
				return fmt.Sprintf("set %s has %d entries, not %d", name, n, want[name]), nil
			}
		}
	}
	return "", nil
}
