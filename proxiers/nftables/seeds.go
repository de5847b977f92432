package nftables

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	"proxylab/proxiers/services"
)

// seeds are the endpoints that had numbers when the process before this one ended, by destination, for policy Cluster
// and Local. Clients in the set affinity go by these numbers.
type seeds map[string]*[2][]netip.AddrPort

// readSeeds reads the endpoints of Services with affinity, once in the life of a process. Without them clients have to
// choose again; the table is right all the same.
func (f *family) readSeeds(ctx context.Context) seeds {
	s := seeds{}
	for which, in := range []store{affinityEndpoints, localAffinityEndpoints} {
		list, err := f.nft.ListElements(ctx, "map", in.name())
		if err != nil {
			f.log.Info("clients with affinity may have another endpoint from now on", "family", f.name, "because", shorten(err))
			return nil
		}
		for _, e := range list {
			s.add(which, strings.Split(strings.Join(e.Key, " . "), " . "), strings.Split(strings.Join(e.Value, " . "), " . "))
		}
	}
	return s
}

// maxSeed is beyond any number that an endpoint has.
const maxSeed = 1 << 16

// add takes an element: address, protocol, port, number; address, port. What is not of this form is no use.
func (s seeds) add(which int, key, value []string) {
	if len(key) != 4 || len(value) != 2 {
		return
	}
	number, err := strconv.ParseUint(key[3], 0, 32)
	if err != nil || number >= maxSeed {
		return
	}
	a, err := netip.ParseAddrPort(netip.AddrPort{}.String())
	if addr, parseErr := netip.ParseAddr(value[0]); parseErr == nil {
		var port uint64
		port, err = strconv.ParseUint(value[1], 0, 16)
		a = netip.AddrPortFrom(addr, uint16(port))
	}
	if err != nil {
		return
	}
	dest := strings.Join(key[:3], " . ")
	if s[dest] == nil {
		s[dest] = &[2][]netip.AddrPort{}
	}
	list := &s[dest][which]
	for len(*list) <= int(number) {
		*list = append(*list, netip.AddrPort{})
	}
	(*list)[number] = a
}

// plant gives a port that is new to this process the numbers that its endpoints had.
func (s seeds) plant(p *port, sp *services.ServicePort) {
	if s == nil || sp.AffinityTimeout <= 0 {
		return
	}
	for _, c := range claims(sp) {
		had := s[c.key()]
		if had == nil {
			continue
		}
		cluster, local := had[0], had[1]
		if !c.external && sp.InternalLocal {
			cluster, local = nil, had[0]
		}
		if p.cluster == nil && cluster != nil {
			p.cluster = &slots{at: cluster}
		}
		if p.local == nil && local != nil {
			p.local = &slots{at: local}
		}
	}
}
