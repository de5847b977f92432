package ipvs

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/services"
)

// state is what the kernel is believed to hold of this mode.
type state struct {
	addrs   map[netip.Addr]struct{}
	entries map[entry]struct{}
	servers map[kernel.Key]*server
}

type server struct {
	kernel.Server
	backends map[netip.AddrPort]*backend
}

type backend struct {
	weight int
	since  time.Time // weight 0: since when
}

func newState() state {
	return state{map[netip.Addr]struct{}{}, map[entry]struct{}{}, map[kernel.Key]*server{}}
}

// wanted is what the Service ports ask for together. Ports share addresses and entries, which are counted; of two that
// claim the same virtual server the one with the lesser key gets it, whatever came first.
type wanted struct {
	ports   map[services.Key]*demand
	addrs   map[netip.Addr]int
	entries map[entry]int
	claims  map[kernel.Key][]services.Key
}

func newWanted() *wanted {
	return &wanted{map[services.Key]*demand{}, map[netip.Addr]int{}, map[entry]int{}, map[kernel.Key][]services.Key{}}
}

// touched are the things that have to be looked at.
type touched struct {
	addrs   map[netip.Addr]struct{}
	entries map[entry]struct{}
	servers map[kernel.Key]struct{}
}

func newTouched() *touched {
	return &touched{map[netip.Addr]struct{}{}, map[entry]struct{}{}, map[kernel.Key]struct{}{}}
}

// set replaces the demand of a port; nil: it is gone. What may be different now is added to t.
func (w *wanted) set(k services.Key, d *demand, t *touched) {
	if was := w.ports[k]; was != nil {
		w.count(k, was, -1, t)
	}
	if d == nil {
		delete(w.ports, k)
		return
	}
	w.ports[k] = d
	w.count(k, d, 1, t)
}

func (w *wanted) count(k services.Key, d *demand, sign int, t *touched) {
	for _, a := range d.addrs {
		tally(w.addrs, a, sign)
		t.addrs[a] = struct{}{}
	}
	for _, e := range d.entries {
		tally(w.entries, e, sign)
		t.entries[e] = struct{}{}
	}
	for _, v := range d.servers {
		t.servers[v.Key] = struct{}{}
		of := w.claims[v.Key]
		at, found := slices.BinarySearchFunc(of, k, compareKeys)
		switch {
		case sign > 0 && !found:
			of = slices.Insert(of, at, k)
		case sign < 0 && found:
			of = slices.Delete(of, at, at+1)
		}
		if len(of) == 0 {
			delete(w.claims, v.Key)
		} else {
			w.claims[v.Key] = of
		}
	}
}

func tally[T comparable](m map[T]int, of T, sign int) {
	if m[of] += sign; m[of] == 0 {
		delete(m, of)
	}
}

// server is what is wanted of a virtual server; nil: it is not.
func (w *wanted) server(k kernel.Key) *virtual {
	of := w.claims[k]
	if len(of) == 0 {
		return nil
	}
	d := w.ports[of[0]]
	for i := range d.servers {
		if d.servers[i].Key == k {
			return &d.servers[i]
		}
	}
	return nil
}

// all are the things that are wanted or there.
func (w *wanted) all(is state) *touched {
	t := newTouched()
	for a := range w.addrs {
		t.addrs[a] = struct{}{}
	}
	for a := range is.addrs {
		t.addrs[a] = struct{}{}
	}
	for e := range w.entries {
		t.entries[e] = struct{}{}
	}
	for e := range is.entries {
		t.entries[e] = struct{}{}
	}
	for k := range w.claims {
		t.servers[k] = struct{}{}
	}
	for k := range is.servers {
		t.servers[k] = struct{}{}
	}
	return t
}

func compareKeys(a, b services.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service),
		cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Family, b.Family))
}
