package ipvs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// family writes one IP family's iptables rules. They are few, so they are always written whole.
type family struct {
	name        services.Family
	tool        xtables.Tool
	randomFully bool
	env         ruleEnv // of the pass
	found       map[string]*tableFound
	other       bool // there are chains of mode iptables

	written ruleEnv // what was written last
}

// tableFound is what a table has.
type tableFound struct {
	chains map[string]bool
	rules  map[string]int // of chains of both modes, by chain
	jumps  map[string]bool
	stale  []string // rules of the kernel's chains that lead to these, or in other words to ours
	other  []string // chains of mode iptables, and of other versions of this mode
	held   map[string]bool

	written map[string]bool // chains of this mode, there or not
}

// look lists the family's tables. What of this mode another version wrote elsewhere, or in other words, is in stale and
// other too, unless only mode iptables is asked for.
func (f *family) look(ctx context.Context, onlyIPTables bool) error {
	f.found, f.other = map[string]*tableFound{}, false
	written := writtenChains()
	for _, table := range tables {
		t := &tableFound{chains: map[string]bool{}, rules: map[string]int{}, jumps: map[string]bool{}, held: map[string]bool{}, written: written[table]}
		err := f.tool.Save(ctx, table, func(line []byte) bool {
			t.line(table, string(line), onlyIPTables)
			return true
		})
		if err != nil {
			return fmt.Errorf("%s: list rules: %w", f.name, err)
		}
		f.found[table] = t
		f.other = f.other || len(t.other) > 0
	}
	return nil
}

func (t *tableFound) line(table, line string, onlyIPTables bool) {
	isOther := func(name string) bool {
		mine := IsOwnChain(name) || IsSharedChain(name)
		return ofIPTablesMode(table, name) || !onlyIPTables && mine && !t.written[name]
	}
	if name, ok := strings.CutPrefix(line, ":"); ok {
		name, _, _ = strings.Cut(name, " ")
		t.chains[name] = true
		if isOther(name) {
			t.other = append(t.other, name)
		}
		return
	}
	rule, ok := strings.CutPrefix(line, "-A ")
	if !ok {
		return
	}
	from, spec, _ := strings.Cut(rule, " ")
	to := targetOf(spec)
	switch {
	case isOther(from):
	case IsOwnChain(from) || IsSharedChain(from):
		t.rules[from]++
	case isOther(to) && !isKernels(from):
		t.held[to] = true // a chain of somebody else's leads there
	case isOther(to), !onlyIPTables && t.written[to] && isKernels(from) && !isJump(table, line):
		t.stale = append(t.stale, rule)
	case isKernels(from):
		t.jumps[line] = true
	}
}

func isKernels(chain string) bool {
	switch chain {
	case "PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING":
		return true
	}
	return false
}

func isJump(table, line string) bool {
	return slices.ContainsFunc(jumps(), func(j jump) bool { return j.table == table && line == "-A "+j.from+" "+j.rule() })
}

// writtenChains is the names of the chains that this mode has, by table.
func writtenChains() map[string]map[string]bool {
	names := map[string]map[string]bool{}
	for _, c := range (ruleEnv{}).chains() {
		if names[c.table] == nil {
			names[c.table] = map[string]bool{}
		}
		names[c.table][c.name] = true
	}
	return names
}

// targetOf is what comes after the last "-j", or "-g", outside quotes.
func targetOf(spec string) string {
	var bare strings.Builder
	for i, part := range strings.Split(spec, `"`) {
		if i%2 == 0 {
			bare.WriteString(part)
		}
	}
	words := strings.Fields(bare.String())
	for i := len(words) - 2; i >= 0; i-- {
		if words[i] == "-j" || words[i] == "-g" {
			return words[i+1]
		}
	}
	return ""
}

// write puts all chains in place by one restore. Declaring a chain empties it: so what mode iptables had in chains of the
// same name is replaced in the same transaction that its other chains go in.
func (f *family) write(ctx context.Context) error {
	var b bytes.Buffer
	for _, table := range tables {
		f.writeTable(&b, table)
	}
	if err := f.tool.Restore(ctx, b.Bytes()); err != nil {
		return err
	}
	f.written = f.env
	return nil
}

func (f *family) writeTable(b *bytes.Buffer, table string) {
	found := f.found[table]
	fmt.Fprintf(b, "*%s\n", table)
	for _, c := range f.env.chains() {
		if c.table == table {
			fmt.Fprintf(b, ":%s - [0:0]\n", c.name)
		}
	}
	for _, c := range f.env.chains() {
		if c.table == table {
			for _, rule := range c.rules {
				fmt.Fprintf(b, "-A %s %s\n", c.name, rule)
			}
		}
	}
	for _, j := range jumps() {
		if j.table == table && !found.jumps["-A "+j.from+" "+j.rule()] {
			fmt.Fprintf(b, "-I %s %s\n", j.from, j.rule())
		}
	}
	found.writeRemoval(b)
	b.WriteString("COMMIT\n")
}

// writeRemoval empties the chains of mode iptables and removes them, unless somebody else's lead there.
func (t *tableFound) writeRemoval(b io.Writer) {
	for _, name := range t.other {
		fmt.Fprintf(b, ":%s - [0:0]\n", name)
	}
	for _, rule := range t.stale {
		fmt.Fprintf(b, "-D %s\n", rule)
	}
	for _, name := range t.other {
		if !t.held[name] {
			fmt.Fprintf(b, "-X %s\n", name)
		}
	}
}

// damage compares the number of rules in each chain, and the jumps, with what was written.
func (f *family) damage(ctx context.Context) (string, error) {
	if err := f.look(ctx, false); err != nil {
		return "", err
	}
	for _, c := range f.written.chains() {
		t := f.found[c.table]
		if !t.chains[c.name] || t.rules[c.name] != len(c.rules) {
			return fmt.Sprintf("%s chain %s of table %s has %d rules, not %d", f.name, c.name, c.table, t.rules[c.name], len(c.rules)), nil
		}
	}
	for _, j := range jumps() {
		if !f.found[j.table].jumps["-A "+j.from+" "+j.rule()] {
			return fmt.Sprintf("%s table %s has no jump from %s to %s", f.name, j.table, j.from, j.to), nil
		}
	}
	return "", nil
}
