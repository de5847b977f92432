package rules

import (
	"fmt"
	"strings"
)

// nftTable is a table of nftables.
type nftTable struct {
	family, name string
	chains       map[string]nftChain
	order        []string            // chains, as listed
	sets         map[string][]string // elements of sets and maps, as printed
}

// nftChain is a chain; base chains have a hook.
type nftChain struct {
	kind, hook string // "nat", "prerouting"
	priority   string // "dstnat", "filter", "-110", ...
	rules      []string
}

// parseNFT reads the output of nft list ruleset.
func parseNFT(text string) (tables []nftTable, err error) {
	p := nftParser{lines: strings.Split(text, "\n")}
	for line, ok := p.next(); ok; line, ok = p.next() {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if fields[0] != "table" || len(fields) < 4 {
			return nil, fmt.Errorf("line %d: want a table, found %q", p.at, line)
		}
		t := nftTable{family: fields[1], name: fields[2], chains: map[string]nftChain{}, sets: map[string][]string{}}
		if err := p.table(&t); err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

type nftParser struct {
	lines []string
	at    int
}

// next is the next line, joined with those that its open braces go on in unless it opens a block.
func (p *nftParser) next() (line string, ok bool) {
	if p.at >= len(p.lines) {
		return "", false
	}
	line = strings.TrimSpace(p.lines[p.at])
	p.at++
	for !strings.HasSuffix(line, "{") && open(line) > 0 && p.at < len(p.lines) {
		line += " " + strings.TrimSpace(p.lines[p.at])
		p.at++
	}
	return line, true
}

// open counts braces that are not closed, outside of quotes.
func open(line string) (n int) {
	quoted := false
	for _, c := range line {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '{' && !quoted:
			n++
		case c == '}' && !quoted:
			n--
		}
	}
	return n
}

func (p *nftParser) table(t *nftTable) error {
	for line, ok := p.next(); ok; line, ok = p.next() {
		fields := strings.Fields(line)
		switch {
		case line == "}":
			return nil
		case len(fields) < 2 || !strings.HasSuffix(line, "{"): // a comment or a flag of the table
		case fields[0] == "chain":
			t.chains[fields[1]] = p.chain()
			t.order = append(t.order, fields[1])
		case fields[0] == "set" || fields[0] == "map":
			t.sets[fields[1]] = p.elements()
		default:
			p.elements() // a counter, a quota, a flow table: of no interest here
		}
	}
	return fmt.Errorf("table %s %s does not end", t.family, t.name)
}

func (p *nftParser) chain() (c nftChain) {
	for line, ok := p.next(); ok && line != "}"; line, ok = p.next() {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "comment":
		case fields[0] == "type" && len(fields) > 3:
			c.kind, c.hook = fields[1], fields[3]
			_, priority, _ := strings.Cut(line, "priority ")
			c.priority, _, _ = strings.Cut(priority, ";")
		default:
			c.rules = append(c.rules, line)
		}
	}
	return c
}

func (p *nftParser) elements() (elements []string) {
	for line, ok := p.next(); ok && line != "}"; line, ok = p.next() {
		if inner, found := strings.CutPrefix(line, "elements = {"); found {
			elements = splitElements(strings.TrimSuffix(strings.TrimSpace(inner), "}"))
		}
	}
	return elements
}

// splitElements splits at commas outside of quotes and braces.
func splitElements(text string) (elements []string) {
	depth, quoted, start := 0, false, 0
	add := func(end int) {
		if e := strings.TrimSpace(text[start:end]); e != "" {
			elements = append(elements, e)
		}
	}
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ',' && depth == 0:
			add(i)
			start = i + 1
		}
	}
	add(len(text))
	return elements
}
