package bed

import (
	"fmt"
	"os/exec"
	"strings"
)

// Dump is the state of node1 for the reader of a failed test: rules in every notation, addresses, routes, conntrack.
func (b *Bed) Dump() string {
	var out strings.Builder
	for _, args := range [][]string{
		{"iptables-legacy-save"}, {"ip6tables-legacy-save"}, {"iptables-nft-save"}, {"ip6tables-nft-save"},
		{"nft", "list", "ruleset"}, {"ip", "addr"}, {"ip", "route"}, {"ip", "-6", "route"}, {"conntrack", "-L"},
		{"ss", "-anH"},
	} {
		if _, err := exec.LookPath(args[0]); err != nil {
			continue
		}
		text, err := b.Exec(Node, "", args...)
		if err == nil && strings.TrimSpace(text) == "" {
			continue
		}
		fmt.Fprintf(&out, "\n--- node1: %s\n%s", strings.Join(args, " "), text)
		if err != nil {
			fmt.Fprintf(&out, "(%v)\n", err)
		}
	}
	return out.String()
}
