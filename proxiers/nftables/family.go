package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"proxylab/proxiers/services"
)

// family keeps one IP family's table. Families share nothing.
type family struct {
	name   services.Family
	nft    knftables.Interface
	kernel kernel
	log    *slog.Logger
	base   env // what does not come from the node object
	mirror *mirror
	valid  bool // the table is as the mirror says

	looked  bool // for endpoints' numbers of an earlier process
	anew    bool // the table cannot be filled again: it has to be made anew
	commits int  // transactions of this pass
}

// sync brings the family's table in line with want. trusted says that nobody changed any table since the last pass.
func (f *family) sync(ctx context.Context, want services.Snapshot, trusted bool) (whole bool, err error) {
	f.commits = 0
	if f.mirror == nil {
		f.mirror = newMirror(f.base)
	}
	if want.Full {
		f.base.tcpLiberal = tcpLiberal()
		if f.valid && !trusted {
			f.valid = f.intact() == ""
		}
	}
	e := f.base.forNode(want.Node)
	if !f.valid {
		return true, f.writeWhole(ctx, want, e)
	}
	return false, f.writeChanges(ctx, want, e)
}

// writeChanges writes what differs from the mirror: of the ports that changed, or of all.
func (f *family) writeChanges(ctx context.Context, want services.Snapshot, e env) error {
	p := newPlan(f.mirror, e)
	for _, k := range f.keys(want) {
		sp := want.Ports[k]
		if !usable(sp) {
			sp = nil
		}
		p.change(k, sp)
	}
	p.compare()
	f.say(p.contested)
	tx := f.nft.NewTransaction()
	p.transaction(tx)
	return f.run(ctx, tx)
}

// keys are this family's ports to look at, in an order that does not depend on chance.
func (f *family) keys(want services.Snapshot) (keys []services.Key) {
	if want.Full {
		for k, sp := range want.Ports {
			if k.Family == f.name && (f.mirror.ports[k] == nil || f.mirror.ports[k].sp != sp) {
				keys = append(keys, k)
			}
		}
		for k := range f.mirror.ports {
			if want.Ports[k] == nil {
				keys = append(keys, k)
			}
		}
	} else {
		for k := range want.Changed {
			if k.Family == f.name {
				keys = append(keys, k)
			}
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// writeWhole does not trust what is in the table. Endpoints keep their numbers, as remembered clients go by these.
func (f *family) writeWhole(ctx context.Context, want services.Snapshot, e env) error {
	was := f.mirror.ports
	chains, anew := f.look()
	var seeds seeds
	if !anew && !f.looked {
		seeds = f.readSeeds(ctx)
	}
	f.looked = true
	m := newMirror(e)
	var contested []destination
	keys := make([]services.Key, 0, len(want.Ports))
	for k, sp := range want.Ports {
		if k.Family == f.name && usable(sp) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	for _, k := range keys {
		p := was[k]
		if p == nil {
			p = &port{}
			seeds.plant(p, want.Ports[k])
		}
		p.set(want.Ports[k])
		m.ports[k] = p
		for _, c := range claims(p.sp) {
			if m.owners.add(c.destination, p) {
				contested = append(contested, c.destination)
			}
		}
	}
	m.tally()
	f.mirror = m
	f.say(contested)
	tx := f.nft.NewTransaction()
	rewrite(tx, m, anew, chains)
	if err := f.run(ctx, tx); err != nil {
		f.anew = true // whatever it is that cannot be filled again
		return err
	}
	f.anew = false
	return nil
}

// look finds out whether there is a table that can be filled again, and which chains it has. This is not asked on the way of
// ordinary syncs.
func (f *family) look() (chains []string, anew bool) {
	chains, err := f.kernel.chains(f.name == services.IPv6)
	if err != nil {
		f.log.Debug("the table is made anew", "family", f.name, "because", err)
	}
	return chains, f.anew || err != nil || !slices.Contains(chains, chainLayout)
}

// run hands a transaction to the kernel. After a failure nothing is known of the table: nft may have been stopped after it
// had handed it over.
func (f *family) run(ctx context.Context, tx *knftables.Transaction) error {
	if tx.NumOperations() == 0 {
		return nil
	}
	f.valid = false
	if err := f.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("nft -f - (%d commands): %w", tx.NumOperations(), shorten(err))
	}
	f.valid = true
	f.commits++
	return nil
}

// maxError bounds what is kept of nft's output: it repeats each command that it could not execute.
const maxError = 2000

func shorten(err error) error {
	s := strings.TrimSpace(err.Error())
	if len(s) <= maxError {
		return err
	}
	return errors.New(s[:maxError] + "...")
}

// intact compares the table with the mirror, without looking at elements; empty: it is as it should be.
func (f *family) intact() (difference string) {
	v6 := f.name == services.IPv6
	names, err := f.kernel.chains(v6)
	if err != nil {
		return err.Error()
	}
	rules, err := f.kernel.rules(v6)
	if err != nil {
		return err.Error()
	}
	want := f.mirror.expected()
	for _, name := range names {
		if _, ok := want[name]; !ok {
			return "there is a chain " + name
		}
	}
	if len(names) != len(want) {
		return fmt.Sprintf("there are %d chains of %d", len(names), len(want))
	}
	for name, n := range want {
		if rules[name] != n {
			return fmt.Sprintf("chain %s has %d rules of %d", name, rules[name], n)
		}
	}
	return ""
}

func (f *family) say(contested []destination) {
	for _, d := range contested {
		owner := f.mirror.owners.of[d]
		f.log.Warn("several Services claim one destination", "destination", d.key(),
			"served", owner.sp.Namespace+"/"+owner.sp.Service)
	}
}
