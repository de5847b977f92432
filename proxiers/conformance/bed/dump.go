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

// IptablesRules is all rules of node1 that the tools of iptables show, of both back ends and families, without counters and
// comments of the tools.
func (b *Bed) IptablesRules() string {
	b.t.Helper()
	var out strings.Builder
	for _, tool := range []string{"iptables-legacy-save", "ip6tables-legacy-save", "iptables-nft-save", "ip6tables-nft-save"} {
		if _, err := exec.LookPath(tool); err == nil {
			out.WriteString(tool + "\n" + WithoutCounters(b.MustExec(Node, tool)))
		}
	}
	return out.String()
}

// WithoutCounters takes the counters of chains and the tool's comments out of what iptables-save prints.
func WithoutCounters(save string) string {
	var out strings.Builder
	for line := range strings.Lines(save) {
		if strings.HasPrefix(line, ":") {
			line, _, _ = strings.Cut(line, " [")
			line += "\n"
		}
		if !strings.HasPrefix(line, "#") {
			out.WriteString(line)
		}
	}
	return out.String()
}
