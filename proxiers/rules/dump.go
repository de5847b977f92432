package rules

import (
	"fmt"
	"strings"
)

// Dump is what a node's tools print; what a mode has no use for is empty.
type Dump struct {
	IPTables  string // iptables-save
	IP6Tables string // ip6tables-save
	NFTables  string // nft list ruleset
	Sets      string // ipset save
	IPVS      string // /proc/net/ip_vs
}

// Source is how one part of a Dump is had on the node.
type Source struct {
	Args []string
	Into func(*Dump) *string
	// Optional: the tool or the file may be missing, and there is nothing then.
	Optional bool
}

// Sources lists the commands that make the Dump of a mode, with the iptables back end "legacy" or "nft".
func Sources(mode, backend string) []Source {
	if mode == "nftables" {
		return []Source{{Args: []string{"nft", "list", "ruleset"}, Into: func(d *Dump) *string { return &d.NFTables }}}
	}
	sources := []Source{
		{Args: []string{"iptables-" + backend + "-save"}, Into: func(d *Dump) *string { return &d.IPTables }},
		{Args: []string{"ip6tables-" + backend + "-save"}, Into: func(d *Dump) *string { return &d.IP6Tables }, Optional: true},
	}
	if mode == "ipvs" {
		sources = append(sources,
			Source{Args: []string{"ipset", "save"}, Into: func(d *Dump) *string { return &d.Sets }},
			Source{Args: []string{"cat", "/proc/net/ip_vs"}, Into: func(d *Dump) *string { return &d.IPVS }})
	}
	return sources
}

// parsed is a Dump taken apart.
type parsed struct {
	v4, v6 map[string]table // by name: "nat", "filter", ...
	nft    []nftTable
	sets   map[string]map[string]bool // ipset members, "10.96.0.1,tcp:443"
	ipvs   []virtualServer
}

func (d Dump) parse() (p parsed, err error) {
	if p.v4, err = parseSave(d.IPTables); err != nil {
		return p, fmt.Errorf("rules of iptables: %w", err)
	}
	if p.v6, err = parseSave(d.IP6Tables); err != nil {
		return p, fmt.Errorf("rules of ip6tables: %w", err)
	}
	if p.nft, err = parseNFT(d.NFTables); err != nil {
		return p, fmt.Errorf("rules of nftables: %w", err)
	}
	p.sets = parseSets(d.Sets)
	if p.ipvs, err = parseIPVS(d.IPVS); err != nil {
		return p, fmt.Errorf("virtual servers: %w", err)
	}
	return p, nil
}

// table is a table of iptables: its rules by chain, in order.
type table map[string][]rule

// rule is a rule of iptables, taken apart.
type rule struct {
	text   string   // "-A KUBE-SERVICES -d ..."
	fields []string // after the chain; quoted text is one field
	target string   // of -j or -g; empty: none
}

// parseSave reads the output of iptables-save.
func parseSave(text string) (map[string]table, error) {
	tables := map[string]table{}
	var current table
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			current = table{}
			tables[line[1:]] = current
		case strings.HasPrefix(line, ":") && current != nil:
			name, _, _ := strings.Cut(line[1:], " ")
			current[name] = nil
		case strings.HasPrefix(line, "-A "):
			fields, err := splitQuoted(line)
			if err != nil || len(fields) < 2 || current == nil {
				return nil, fmt.Errorf("cannot read %q", line)
			}
			r := rule{text: line, fields: fields[2:]}
			r.target, _ = r.option("-j")
			if goTo, ok := r.option("-g"); ok {
				r.target = goTo
			}
			current[fields[1]] = append(current[fields[1]], r)
		}
	}
	return tables, nil
}

// option is what follows a flag, "! " in front where it is negated.
func (r rule) option(flag string) (value string, ok bool) {
	for i, f := range r.fields {
		if f == flag && i+1 < len(r.fields) {
			if i > 0 && r.fields[i-1] == "!" {
				return "! " + r.fields[i+1], true
			}
			return r.fields[i+1], true
		}
	}
	return "", false
}

// splitQuoted splits at spaces outside of double quotes, which iptables puts around comments.
func splitQuoted(s string) (fields []string, err error) {
	var field strings.Builder
	quoted, any := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted && i+1 < len(s):
			i++
			field.WriteByte(s[i])
		case c == '"':
			quoted, any = !quoted, true
		case c == ' ' && !quoted:
			if any {
				fields = append(fields, field.String())
			}
			field.Reset()
			any = false
		default:
			field.WriteByte(c)
			any = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed: %s", s)
	}
	if any {
		fields = append(fields, field.String())
	}
	return fields, nil
}

// parseSets reads the output of ipset save: "create NAME TYPE ..." and "add NAME ENTRY".
func parseSets(text string) map[string]map[string]bool {
	sets := map[string]map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		if sets[fields[1]] == nil {
			sets[fields[1]] = map[string]bool{}
		}
		if fields[0] == "add" {
			sets[fields[1]][fields[2]] = true
		}
	}
	return sets
}
