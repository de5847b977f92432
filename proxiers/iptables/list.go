package iptables

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"proxylab/proxiers/xtables"
)

// listing is what iptables-save says of one table.
type listing struct {
	chains map[string]int  // user chains with their number of rules (0 unless counted)
	base   map[string]bool // rules of the kernel's own chains, as printed
}

// list reads a table. Chains and the rules of the kernel's own chains come first in the output; unless rules are to be
// counted, the tool is stopped after these.
func list(ctx context.Context, t xtables.Tool, table string, count bool) (listing, error) {
	l := listing{chains: map[string]int{}, base: map[string]bool{}}
	err := t.Save(ctx, table, func(line []byte) bool {
		switch {
		case bytes.HasPrefix(line, []byte(":")):
			name, rest, _ := strings.Cut(string(line[1:]), " ")
			if strings.HasPrefix(rest, "-") {
				l.chains[name] = 0
			}
		case bytes.HasPrefix(line, []byte("-A ")):
			name, _, _ := bytes.Cut(line[len("-A "):], []byte(" "))
			if n, user := l.chains[string(name)]; !user {
				l.base[string(line)] = true
			} else if count {
				l.chains[string(name)] = n + 1
			} else {
				return false
			}
		}
		return true
	})
	return l, err
}

// verify compares the tables with the mirror by the number of rules in each of our chains, and looks for the jumps. It
// describes the first difference found; empty: none.
func (f *family) verify(ctx context.Context) (difference string, err error) {
	for _, table := range []string{tableNat, tableFilter} {
		l, err := list(ctx, f.tool, table, true)
		if err != nil {
			return "", fmt.Errorf("list %s: %w", table, err)
		}
		want := f.mirror.expected(table)
		for name, rules := range want {
			got, there := l.chains[name]
			if !there {
				return fmt.Sprintf("%s: chain %s is gone", table, name), nil
			}
			if got < rules || got > rules && name != chainKubeletFirewall { // a kubelet adds rules to that one
				return fmt.Sprintf("%s: chain %s has %d rules, was written with %d", table, name, got, rules), nil
			}
		}
		for name := range l.chains {
			if _, ours := want[name]; !ours && isPortChain(name) {
				return fmt.Sprintf("%s: chain %s came up", table, name), nil
			}
		}
		for _, j := range jumps() {
			if j.table == table && !l.base[j.text()] {
				return fmt.Sprintf("%s: the jump from %s to %s is gone", table, j.from, j.to), nil
			}
		}
	}
	return "", nil
}
