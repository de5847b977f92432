package userspace

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// ourChains by table, in the order of writing.
var ourChains = []struct {
	table  string
	chains []string
}{
	{"nat", []string{chainPortals, chainPortalsHost, chainNodePort, chainNodePortHost}},
	{"filter", []string{chainNonLocal}},
}

// tables are one family's rules in the kernel, and what is known to be there.
type tables struct {
	family  services.Family
	tool    xtables.Tool
	written map[services.Key]rules
}

func newTables(f services.Family, t xtables.Tool) *tables {
	return &tables{family: f, tool: t, written: map[services.Key]rules{}}
}

// change is the new state of a Service port; nil rules: gone.
type change struct {
	key   services.Key
	rules rules
}

// sync writes the changes, and everything when full: then the changes must be everything. After an error the next one
// must be full.
func (t *tables) sync(ctx context.Context, changes []change, full bool) error {
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(fmt.Sprint(a.key), fmt.Sprint(b.key)) })
	if full {
		t.written = map[services.Key]rules{}
	}
	input := t.batch(changes, full)
	if len(input) > 0 {
		if err := t.tool.Restore(ctx, input); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if c.rules == nil {
			delete(t.written, c.key)
		} else {
			t.written[c.key] = c.rules
		}
	}
	if !full {
		return nil
	}
	for _, j := range jumps {
		if err := t.tool.EnsureJump(j.table, j.from, j.spec()...); err != nil {
			return fmt.Errorf("jump to %s: %w", j.to, err)
		}
	}
	return nil
}

// batch is the input of iptables-restore; empty: nothing to do. A full one replaces the chains. Another replaces the
// rules of those Service ports whose rules differ: all rules of one in a chain, because their order counts.
func (t *tables) batch(changes []change, full bool) []byte {
	var b bytes.Buffer
	for _, table := range ourChains {
		var lines []string
		for _, chain := range table.chains {
			if full {
				lines = append(lines, ":"+chain+" - [0:0]")
			}
		}
		for _, chain := range table.chains {
			for _, c := range changes {
				old, is := t.written[c.key][chain], c.rules[chain]
				if slices.Equal(old, is) {
					continue
				}
				for _, rule := range old {
					lines = append(lines, "-D "+chain+" "+rule)
				}
				for _, rule := range is {
					lines = append(lines, "-A "+chain+" "+rule)
				}
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "*%s\n%s\nCOMMIT\n", table.table, strings.Join(lines, "\n"))
		}
	}
	return b.Bytes()
}

// targets adds the local ports that rules in our chains lead to.
func (t *tables) targets(ctx context.Context, ports map[uint16]bool) error {
	err := t.tool.Save(ctx, "nat", func(line []byte) bool {
		fields := strings.Fields(string(line))
		if len(fields) < 2 || fields[0] != "-A" || !isOurs(fields[1]) {
			return true
		}
		last := fields[len(fields)-1] // of "--to-ports 4711" or "--to-destination 10.10.0.11:4711"
		if n, err := strconv.ParseUint(last[strings.LastIndexByte(last, ':')+1:], 10, 16); err == nil {
			ports[uint16(n)] = true
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("look for rules of an earlier process: %w", err)
	}
	return nil
}

// count is the number of rules, jumps included.
func (t *tables) count() int {
	n := len(jumps)
	for _, r := range t.written {
		for _, list := range r {
			n += len(list)
		}
	}
	return n
}
