package iptables

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// rewriteEvery is how often everything is written although the tables look as they should: kube-proxy's period.
const rewriteEvery = time.Hour

// family keeps one IP family's tables. Families share nothing, so that they can be synced side by side.
type family struct {
	name      services.Family
	tool      xtables.Tool
	sys       sysctls
	log       *slog.Logger
	now       func() time.Time
	threshold int
	base      env // what does not come from the node object
	mirror    mirror
	batch     batch

	// Of the pass: nobody else changed the tables since the last one; the tables were found to be as the mirror says
	// when it began; how many tables were committed by partial writes.
	untouched, sure bool
	commits         int
}

// sync brings the family's tables in line with want. whole says that they were written whole.
func (f *family) sync(ctx context.Context, want services.Snapshot) (whole bool, err error) {
	if want.Full {
		f.base.tcpLiberal = f.sys.on(sysctlTCPLiberal)
	}
	f.sure, f.commits = f.untouched, 0
	if !f.mirror.valid || want.Full && !f.intact(ctx) {
		f.sure = false
		return true, f.writeWhole(ctx, want)
	}
	return false, f.writeChanges(ctx, want)
}

// intact checks the tables against the mirror.
func (f *family) intact(ctx context.Context) bool {
	if f.now().Sub(f.mirror.whole) >= rewriteEvery {
		return false
	}
	if f.untouched {
		return true
	}
	difference, err := f.verify(ctx)
	if err != nil {
		difference = err.Error()
	}
	if difference != "" {
		f.log.Warn("the tables are not as they were written; writing them again", "family", f.name, "difference", difference)
	}
	f.sure = difference == ""
	return f.sure
}

func (f *family) writeWhole(ctx context.Context, want services.Snapshot) error {
	f.mirror.valid = false
	var ports []*services.ServicePort
	endpoints := 0
	for k, sp := range want.Ports {
		if k.Family == f.name && renderable(sp) {
			ports = append(ports, sp)
			endpoints += endpointCount(sp)
		}
	}
	slices.SortFunc(ports, func(a, b *services.ServicePort) int { return compareKeys(a.Key, b.Key) })
	tables := map[string]listing{}
	for _, table := range []string{tableNat, tableFilter} {
		l, err := list(ctx, f.tool, table, false)
		if err != nil {
			return fmt.Errorf("list chains: %w", err)
		}
		tables[table] = l
	}
	if err := f.ensureJumps(ctx, tables); err != nil {
		return err
	}
	e := f.env(want, endpoints)
	if err := f.restore(ctx, f.batch.whole(e, ports, tables[tableNat].chains)); err != nil {
		return err
	}
	f.mirror = mirror{valid: true, env: e, ports: make(map[services.Key]*portState, len(ports)), whole: f.now()}
	f.commit()
	return nil
}

// writeChanges writes what differs from the mirror: of the ports that changed, or of all where the snapshot asks for it
// or what all of them depend on is another.
func (f *family) writeChanges(ctx context.Context, want services.Snapshot) error {
	changed, gone, endpoints := f.changes(want)
	e := f.env(want, endpoints)
	if want.Full || !e.equal(f.mirror.env) {
		changed, gone = f.everything(want)
	}
	input := f.batch.diff(&f.mirror, e, changed, gone)
	if len(input) > 0 {
		if err := f.restore(ctx, input); err != nil {
			return err
		}
		f.commits = bytes.Count(input, []byte("\nCOMMIT\n"))
	}
	f.mirror.env = e
	f.commit()
	return nil
}

// changes are this family's among the changed keys, and the number of endpoints there are with them.
func (f *family) changes(want services.Snapshot) (changed []*services.ServicePort, gone []services.Key, endpoints int) {
	endpoints = f.mirror.endpoints
	if want.Full {
		endpoints = 0
		for k, sp := range want.Ports {
			if k.Family == f.name && renderable(sp) {
				endpoints += endpointCount(sp)
			}
		}
		return nil, nil, endpoints
	}
	for k := range want.Changed {
		if k.Family != f.name {
			continue
		}
		if was := f.mirror.ports[k]; was != nil {
			endpoints -= was.endpoints
		}
		if sp := want.Ports[k]; renderable(sp) {
			changed = append(changed, sp)
			endpoints += endpointCount(sp)
		} else {
			gone = append(gone, k)
		}
	}
	return changed, gone, endpoints
}

func (f *family) everything(want services.Snapshot) (ports []*services.ServicePort, gone []services.Key) {
	for k, sp := range want.Ports {
		if k.Family == f.name && renderable(sp) {
			ports = append(ports, sp)
		}
	}
	for k := range f.mirror.ports {
		if !renderable(want.Ports[k]) {
			gone = append(gone, k)
		}
	}
	return ports, gone
}

func (f *family) env(want services.Snapshot, endpoints int) env {
	e := f.base.forNode(want.Node)
	e.compact = endpoints > f.threshold
	return e
}

// commit makes the mirror what the batch wrote.
func (f *family) commit() {
	for k, s := range f.batch.pending {
		f.mirror.set(k, s)
	}
}

// restore hands the batch to the kernel. After a failure nothing is known of the tables: the first of two may be
// committed.
func (f *family) restore(ctx context.Context, input []byte) error {
	if err := f.tool.Restore(ctx, input); err != nil {
		f.mirror.valid = false
		return err
	}
	return nil
}

// ensureJumps puts back the jumps from the kernel's chains that are missing. The listing spares a process per jump
// where it has the rule literally; where it has not, because another version prints it otherwise, the tool is asked.
// This comes before everything is written, when the tables are small if the jumps are not there yet: legacy iptables
// replaces the table for each.
func (f *family) ensureJumps(ctx context.Context, tables map[string]listing) error {
	var missing []jump
	targets := map[string][]string{}
	for _, j := range jumps() {
		if tables[j.table].base[j.text()] {
			continue
		}
		missing = append(missing, j)
		if _, there := tables[j.table].chains[j.to]; !there && !slices.Contains(targets[j.table], j.to) {
			targets[j.table] = append(targets[j.table], j.to)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var input bytes.Buffer
	for table, chains := range targets {
		line(&input, "*", table)
		for _, name := range chains {
			line(&input, ":", name, " - [0:0]")
		}
		line(&input, "COMMIT")
	}
	if input.Len() > 0 {
		if err := f.restore(ctx, input.Bytes()); err != nil {
			return err
		}
	}
	for _, j := range missing {
		if err := f.tool.EnsureJump(j.table, j.from, j.spec()...); err != nil {
			return fmt.Errorf("jump from %s to %s: %w", j.from, j.to, err)
		}
	}
	if err := f.tool.EnsureChain(tableMangle, chainCanary); err != nil {
		f.log.Debug("no canary in the mangle table", "family", f.name, "error", err)
	}
	return nil
}
