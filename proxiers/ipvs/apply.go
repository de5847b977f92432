package ipvs

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/ipvs/kernel"
)

// plan is the difference between what is wanted and what is there, in the order in which it is written: what lets
// traffic in comes after what it needs, what traffic needs goes after what lets it in.
type plan struct {
	addEntries, dropEntries []entry
	addAddrs, dropAddrs     []netip.Addr
	serve                   []*virtual   // to be there like this
	drop                    []kernel.Key // virtual servers
}

func (w *wanted) plan(is state, t *touched) *plan {
	p := &plan{}
	for e := range t.entries {
		_, there := is.entries[e]
		switch want := w.entries[e] > 0; {
		case want && !there:
			p.addEntries = append(p.addEntries, e)
		case !want && there:
			p.dropEntries = append(p.dropEntries, e)
		}
	}
	for a := range t.addrs {
		_, there := is.addrs[a]
		switch want := w.addrs[a] > 0; {
		case want && !there:
			p.addAddrs = append(p.addAddrs, a)
		case !want && there:
			p.dropAddrs = append(p.dropAddrs, a)
		}
	}
	for k := range t.servers {
		// One without endpoints is not made: IPVS would answer what the node itself sends before the rule does that refuses or
		// drops it. One that has lost its endpoints goes when these have drained.
		switch v, there := w.server(k), is.servers[k] != nil; {
		case v != nil && (there || len(v.backends) > 0):
			p.serve = append(p.serve, v)
		case v == nil && there:
			p.drop = append(p.drop, k)
		}
	}
	return p
}

// writer carries out a plan and keeps the state in step. After an error the state is not to be trusted.
type writer struct {
	*Proxier
	is *state
}

// addSets makes sets, if create is not empty, and adds entries.
func (w writer) addSets(ctx context.Context, create string, add []entry) error {
	input := bytes.NewBufferString(create)
	for _, e := range add {
		writeEntry(input, "add", e)
	}
	if input.Len() > 0 {
		if err := w.kernel.Sets.Restore(ctx, input.Bytes()); err != nil {
			return err
		}
	}
	for _, e := range add {
		w.is.entries[e] = struct{}{}
	}
	return nil
}

func (w writer) dropSets(ctx context.Context, drop []entry) error {
	if len(drop) == 0 {
		return nil
	}
	var input bytes.Buffer
	for _, e := range drop {
		writeEntry(&input, "del", e)
	}
	if err := w.kernel.Sets.Restore(ctx, input.Bytes()); err != nil {
		return err
	}
	for _, e := range drop {
		delete(w.is.entries, e)
	}
	return nil
}

func writeEntry(b *bytes.Buffer, verb string, e entry) {
	b.WriteString(verb)
	b.WriteByte(' ')
	b.WriteString(setName(e.family, e.set))
	b.WriteByte(' ')
	b.WriteString(e.member)
	b.WriteByte('\n')
}

// serve makes virtual servers and adds what is to be behind them.
func (w writer) serve(list []*virtual) error {
	for _, v := range list {
		if err := w.ensureServer(v.Server); err != nil {
			return err
		}
		s := w.is.servers[v.Key]
		for _, a := range v.backends {
			if err := w.ensureBackend(s, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w writer) ensureServer(want kernel.Server) error {
	s := w.is.servers[want.Key]
	if s != nil && s.Server == want {
		return nil
	}
	t := w.kernel.Table
	var err error
	if s == nil {
		if err = t.AddServer(want); errors.Is(err, kernel.ErrExists) {
			err = t.UpdateServer(want)
		}
		s = &server{backends: map[netip.AddrPort]*backend{}}
	} else {
		err = t.UpdateServer(want)
	}
	if err != nil {
		return err
	}
	s.Server = want
	w.is.servers[want.Key] = s
	return nil
}

// ensureBackend gives a server the weight 1. The kernel remembers servers that were deleted as long as they have
// connections, and takes them back with these.
func (w writer) ensureBackend(s *server, a netip.AddrPort) error {
	b := s.backends[a]
	if b != nil && b.weight == 1 {
		return nil
	}
	t := w.kernel.Table
	var err error
	if b == nil {
		if err = t.AddDestination(s.Key, a, 1); errors.Is(err, kernel.ErrExists) {
			err = t.UpdateDestination(s.Key, a, 1)
		}
	} else if err = t.UpdateDestination(s.Key, a, 1); errors.Is(err, kernel.ErrNoDestination) {
		err = t.AddDestination(s.Key, a, 1)
	}
	if err != nil {
		return err
	}
	s.backends[a] = &backend{weight: 1}
	return nil
}

func (w writer) bind(list []netip.Addr) error {
	for _, a := range list {
		if err := w.kernel.Links.AddAddr(Link, a); err != nil && !errors.Is(err, kernel.ErrExists) {
			return err
		}
		w.is.addrs[a] = struct{}{}
	}
	return nil
}

func (w writer) unbind(list []netip.Addr) error {
	for _, a := range list {
		if err := w.kernel.Links.DeleteAddr(Link, a); err != nil {
			return err
		}
		delete(w.is.addrs, a)
	}
	return nil
}

// retire takes out of virtual servers what is not to be behind them any more.
func (w writer) retire(list []*virtual) error {
	for _, v := range list {
		s := w.is.servers[v.Key]
		for a, b := range s.backends {
			if slices.Contains(v.backends, a) {
				continue
			}
			if err := w.retireBackend(s, a, b); err != nil {
				return err
			}
		}
		if len(s.backends) == 0 {
			if err := w.drop([]kernel.Key{s.Key}); err != nil {
				return err
			}
		}
	}
	return nil
}

// retireBackend gives a server the weight 0, so that it gets no new connections and keeps those it has. UDP has no
// connections: a flow moves at once.
func (w writer) retireBackend(s *server, a netip.AddrPort, b *backend) error {
	if s.Protocol == corev1.ProtocolUDP {
		return w.deleteBackend(s, a)
	}
	if b.weight != 0 {
		err := w.kernel.Table.UpdateDestination(s.Key, a, 0)
		if errors.Is(err, kernel.ErrNoDestination) {
			delete(s.backends, a)
			return nil
		}
		if err != nil {
			return err
		}
		*b = backend{since: w.now()}
	} else if b.since.IsZero() {
		b.since = w.now()
	}
	w.draining[s.Key] = struct{}{}
	return nil
}

func (w writer) deleteBackend(s *server, a netip.AddrPort) error {
	if err := w.kernel.Table.DeleteDestination(s.Key, a); err != nil && !errors.Is(err, kernel.ErrNoDestination) {
		return err
	}
	delete(s.backends, a)
	return nil
}

func (w writer) drop(list []kernel.Key) error {
	for _, k := range list {
		if err := w.kernel.Table.DeleteServer(k); err != nil && !errors.Is(err, kernel.ErrNoServer) {
			return err
		}
		delete(w.is.servers, k)
		delete(w.draining, k)
	}
	return nil
}

// write carries out a plan. rules, if not nil, writes the iptables rules: before addresses become local, or, where rules
// of mode iptables serve traffic until then, after.
func (w writer) write(ctx context.Context, p *plan, create string, rules func() error, takeover bool) error {
	early, late := rules, func() error { return nil }
	if takeover {
		early, late = late, rules
	}
	if early == nil {
		early = func() error { return nil }
	}
	for _, step := range []func() error{
		func() error { return w.addSets(ctx, create, p.addEntries) },
		func() error { return w.serve(p.serve) },
		early,
		func() error { return w.bind(p.addAddrs) },
		late,
		func() error { return w.retire(p.serve) },
		func() error { return w.drop(p.drop) },
		func() error { return w.unbind(p.dropAddrs) },
		func() error { return w.dropSets(ctx, p.dropEntries) },
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// canonical writes a set's member as this package does: the tool may print addresses in another way.
func canonical(member string) string {
	parts := strings.Split(member, ",")
	for i, part := range parts {
		if a, err := netip.ParseAddr(part); err == nil {
			parts[i] = a.String()
		} else if p, err := netip.ParsePrefix(part); err == nil {
			if parts[i] = p.String(); p.IsSingleIP() {
				parts[i] = p.Addr().String()
			}
		}
	}
	return strings.Join(parts, ",")
}
