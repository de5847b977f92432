package ipvs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// owner is what Cleanup removes of iptables: this mode's chains, and those that it shares with mode iptables unless that
// has taken them over.
func owner(keepShared bool) xtables.Owner {
	return xtables.Owner{Chain: func(name string) bool { return IsOwnChain(name) || !keepShared && IsSharedChain(name) }}
}

// Cleanup implements runner.Proxier: see the function Cleanup.
func (p *Proxier) Cleanup(ctx context.Context) error {
	p.valid, p.want, p.is = false, newWanted(), newState()
	return clean(ctx, p.kernel, func() error { return p.removeRules(ctx) })
}

// removeRules is from both back ends, or from the tools that a test has.
func (p *Proxier) removeRules(ctx context.Context) error {
	if p.backend != "" {
		return xtables.Remove(ctx, owner(false), p.log)
	}
	var errs []error
	for _, f := range p.families {
		_, err := xtables.RemoveFrom(ctx, string(f.name), f.tool, owner(false), p.log)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Cleanup removes from this network namespace all that ipvs proxiers, ours and kube-proxy's, of this and of other versions,
// left in it: virtual servers, iptables chains and jumps in both back ends and both families, the link with its
// addresses, ipsets, and the settings that ours changed.
//
// keepShared says that mode iptables has taken over: chains whose names both modes use stay as that wrote them.
//
// Virtual servers of others stay. One is of this mode where its address is on kube-ipvs0, or where the ipsets say that it
// is a Service's address or a node port on an address of the node. Where link and sets are gone nobody can tell: then
// nothing of the table is touched, and Leftovers says what looks like ours.
func Cleanup(ctx context.Context, keepShared bool, log *slog.Logger) error {
	k, end, err := kernel.OpenWithout()
	if err != nil {
		return err
	}
	defer end()
	return clean(ctx, k, func() error {
		err := xtables.Remove(ctx, owner(keepShared), log)
		if keepShared {
			err = errors.Join(err, removeJumps(ctx))
		}
		return err
	})
}

// removeJumps takes away those jumps into shared chains that mode iptables does not make in the same words.
func removeJumps(ctx context.Context) error {
	return xtables.Each(func(t xtables.Programs) error {
		found := map[string]bool{}
		if err := t.Save(ctx, tableFilter, func(line []byte) bool {
			found[string(line)] = true
			return true
		}); err != nil {
			return nil //nolint:nilerr // there is no such table, so nothing in it
		}
		batch := ""
		for _, j := range jumps() {
			if rule := j.from + " " + j.rule(); j.to == chainProxyFirewall && found["-A "+rule] {
				batch += "-D " + rule + "\n"
			}
		}
		if batch == "" {
			return nil
		}
		return t.Restore(ctx, []byte("*"+tableFilter+"\n"+batch+"COMMIT\n"))
	})
}

// clean goes from what serves traffic to what tells whose it is: a clean-up that is cut off can be repeated.
func clean(ctx context.Context, k kernel.Kernel, removeRules func() error) error {
	owned, sets, err := inventory(ctx, k)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range owned {
		if err := k.Table.DeleteServer(key); err != nil && !errors.Is(err, kernel.ErrNoServer) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, removeRules())
	if len(errs) > 0 && errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	errs = append(errs, restoreSettings(k), k.Links.Remove(Link))
	for _, name := range sets { // one by one: another version's may be in use
		if err := k.Sets.Restore(ctx, []byte("destroy "+name+"\n")); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// inventory lists virtual servers and sets of this mode.
func inventory(ctx context.Context, k kernel.Kernel) (owned []kernel.Key, sets []string, err error) {
	onLink := map[netip.Addr]struct{}{}
	addrs, _, err := k.Links.Addrs(Link)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range addrs {
		onLink[a] = struct{}{}
	}
	all := members{}
	if kernel.FindIPSet() == nil { // without the tool nobody made sets
		text, err := k.Sets.Save(ctx)
		if err != nil {
			return nil, nil, err
		}
		all, sets = readSets(text)
	}
	if k.Table == nil {
		return nil, sets, nil
	}
	local, err := k.Links.LocalAddrs(Link)
	if err != nil {
		return nil, sets, err
	}
	list, err := k.Table.Servers()
	for _, s := range list {
		if all.owns(s.Key, onLink, local) {
			owned = append(owned, s.Key)
		}
	}
	return owned, sets, err
}

// Leftovers says what Cleanup would remove besides chains that mode iptables has too: "virtual server TCP 10.96.0.1:80",
// "iptables-legacy nat KUBE-LOAD-BALANCER", "link kube-ipvs0", "ipset KUBE-CLUSTER-IP".
func Leftovers(ctx context.Context) ([]string, error) {
	k, end, err := kernel.OpenWithout()
	if err != nil {
		return nil, err
	}
	defer end()
	left, err := leftovers(ctx, k)
	if err != nil {
		return left, err
	}
	chains, err := xtables.Leftovers(ctx, owner(false))
	for _, c := range chains {
		if IsOwnChain(c[strings.LastIndexByte(c, ' ')+1:]) {
			left = append(left, c)
		}
	}
	return left, err
}

func leftovers(ctx context.Context, k kernel.Kernel) (left []string, err error) {
	owned, sets, err := inventory(ctx, k)
	if err != nil {
		return nil, err
	}
	_, there, err := k.Links.Addrs(Link)
	if err != nil {
		return nil, err
	}
	for _, key := range owned {
		left = append(left, "virtual server "+key.String())
	}
	if there {
		left = append(left, "link "+Link)
	}
	for _, name := range sets {
		left = append(left, "ipset "+name)
	}
	if k.Table != nil && !there && len(sets) == 0 {
		unknown, err := orphans(k)
		if err != nil {
			return left, err
		}
		left = append(left, unknown...)
	}
	slices.Sort(left)
	return left, nil
}

// Node ports by default, service-node-port-range of the API server.
const firstNodePort, lastNodePort = 30000, 32767

// orphans are virtual servers that look like node ports: nothing else serves without the link.
func orphans(k kernel.Kernel) (left []string, err error) {
	local, err := k.Links.LocalAddrs(Link)
	if err != nil {
		return nil, err
	}
	list, err := k.Table.Servers()
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		_, here := local[s.Addr.Addr()]
		if port := s.Addr.Port(); here && port >= firstNodePort && port <= lastNodePort {
			left = append(left, fmt.Sprintf("virtual server %s (it looks like a node port; %s and the ipsets that would tell are gone)", s.Key, Link))
		}
	}
	return left, nil
}

// RemoveOtherMode removes the filter chain KUBE-SERVICES, which mode iptables has and this mode has not, although both
// have one of that name in table nat. It is for a node where ipvs took over from iptables.
func RemoveOtherMode(ctx context.Context, log *slog.Logger) error {
	return xtables.Each(func(t xtables.Programs) error {
		f := &family{name: services.IPv4, tool: t}
		if err := f.look(ctx, true); err != nil {
			log.Debug("a back end cannot be listed", "tool", t.Name(), "error", err)
			return nil // so there is nothing in it
		}
		batch := f.removal()
		if batch == "" {
			return nil
		}
		return t.Restore(ctx, []byte(batch))
	})
}

// removal takes out what is of mode iptables alone.
func (f *family) removal() string {
	var b strings.Builder
	for _, table := range tables {
		found := f.found[table]
		if len(found.other) == 0 {
			continue
		}
		fmt.Fprintf(&b, "*%s\n", table)
		found.writeRemoval(&b)
		b.WriteString("COMMIT\n")
	}
	return b.String()
}
