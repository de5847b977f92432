package nftables

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"

	"proxylab/proxiers/services"
)

// seeds are the endpoints that had numbers when the process before this one ended, by destination, for policy Cluster
// and Local. Remembered clients go by these numbers.
type seeds map[string]*[2][]netip.AddrPort

// readSeeds reads the endpoints of Services with affinity, once in the life of a process, if there are any. Without them
// clients have to choose again; the table is right all the same.
func (f *family) readSeeds(ctx context.Context) seeds {
	s := seeds{}
	for which, local := range []bool{false, true} {
		if err := f.readSeedsOf(ctx, s, which, local); err != nil {
			f.log.Info("clients with affinity may have another endpoint from now on", "family", f.name, "because", shorten(err))
			return nil
		}
	}
	return s
}

func (f *family) readSeedsOf(ctx context.Context, s seeds, which int, local bool) error {
	used := map[string]bool{} // elements of affinity-slots: address . protocol . port . slot
	list, err := f.nft.ListElements(ctx, "map", affinitySlots.of(local).name())
	if err != nil {
		return fmt.Errorf("read %s: %w", affinitySlots.of(local).name(), err)
	}
	wanted := map[string]bool{}
	for _, e := range list {
		if key := parts(e.Key); len(key) == 4 {
			used[strings.Join(key, " . ")], wanted[key[1]] = true, true
		}
	}
	for i, protocol := range protocols {
		if !wanted[protocol] {
			continue
		}
		in := endpointsOf(uint8(i), local)
		list, err := f.nft.ListElements(ctx, "map", in.name())
		if err != nil {
			return fmt.Errorf("read %s: %w", in.name(), err)
		}
		for _, e := range list {
			s.add(which, protocol, used, e)
		}
	}
	return nil
}

func parts(list []string) []string { return strings.Split(strings.Join(list, " . "), " . ") }

// maxSeed is beyond any number that an endpoint has.
const maxSeed = 1 << 16

// add takes an element: address, port, number; address, port. What is not of this form is no use.
func (s seeds) add(which int, protocol string, used map[string]bool, e *knftables.Element) {
	key, value := parts(e.Key), parts(e.Value)
	if len(key) != 3 || len(value) != 2 {
		return
	}
	dest := key[0] + " . " + protocol + " . " + key[1]
	number, err := strconv.ParseUint(key[2], 0, 32)
	if err != nil || number >= maxSeed || !used[dest+" . "+key[2]] {
		return
	}
	addr, err := netip.ParseAddr(value[0])
	if err != nil {
		return
	}
	port, err := strconv.ParseUint(value[1], 10, 16)
	if err != nil {
		return
	}
	if s[dest] == nil {
		s[dest] = &[2][]netip.AddrPort{}
	}
	list := &s[dest][which]
	for len(*list) <= int(number) {
		*list = append(*list, netip.AddrPort{})
	}
	(*list)[number] = netip.AddrPortFrom(addr, uint16(port))
}

// plant gives a port that is new to this process the numbers that its endpoints had.
func (s seeds) plant(p *port, sp *services.ServicePort) {
	if sp.AffinityTimeout <= 0 {
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
