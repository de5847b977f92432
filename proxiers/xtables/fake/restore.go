package fake

import (
	"slices"
	"strings"
)

// restore is one run of iptables-restore: it works on a copy of a table until COMMIT.
type restore struct {
	tables map[string]table
	name   string // the table being edited; empty: none
	work   table
	limit  int // fail after so many COMMITs; 0: never
	done   int
}

// line does one line of input and returns why it cannot.
func (r *restore) line(line string) string {
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
		return ""
	case strings.HasPrefix(line, "*"):
		return r.begin(line[1:])
	case r.name == "":
		return "no table is open"
	case line == "COMMIT":
		return r.commit()
	case strings.HasPrefix(line, ":"):
		return r.declare(line[1:])
	}
	op, rest, _ := strings.Cut(line, " ")
	name, rule, _ := strings.Cut(rest, " ")
	switch op {
	case "-N":
		return r.newChain(name)
	case "-X":
		return r.deleteChain(name)
	case "-A", "-I", "-D", "-F":
		return r.edit(op, name, rule)
	}
	return "unknown option " + op
}

func (r *restore) begin(name string) string {
	if r.name != "" {
		return "COMMIT expected"
	}
	if r.limit > 0 && r.done >= r.limit {
		return "line failed"
	}
	t, ok := r.tables[name]
	if !ok {
		return "can't initialize iptables table `" + name + "': Table does not exist"
	}
	r.name, r.work = name, t.clone()
	return ""
}

func (r *restore) commit() string {
	r.tables[r.name] = r.work
	r.name, r.work = "", nil
	r.done++
	return ""
}

// declare makes a chain, or empties the one there is.
func (r *restore) declare(decl string) string {
	fields := strings.Fields(decl)
	if len(fields) != 3 {
		return "chain declaration expected"
	}
	if why := checkName(fields[0]); why != "" {
		return why
	}
	c := r.work[fields[0]]
	switch {
	case c == nil && fields[1] == "-":
		r.work[fields[0]] = &chain{}
	case c == nil:
		return "no built-in chain " + fields[0]
	case fields[1] == "-" && c.policy == "":
		c.rules = nil
	default:
		c.policy = fields[1] // --noflush leaves the rules of the kernel's chains alone
	}
	return ""
}

// checkName: the kernel keeps 28 characters of a name.
func checkName(name string) string {
	if len(name) > 28 {
		return "chain name `" + name + "' too long (must be under 29 chars)"
	}
	return ""
}

func (r *restore) newChain(name string) string {
	if r.work[name] != nil {
		return "Chain already exists."
	}
	if why := checkName(name); why != "" {
		return why
	}
	r.work[name] = &chain{}
	return ""
}

func (r *restore) deleteChain(name string) string {
	c := r.work[name]
	switch {
	case c == nil || c.policy != "":
		return "No chain/target/match by that name."
	case len(c.rules) > 0:
		return "Directory not empty."
	}
	for _, other := range r.work {
		for _, rule := range other.rules {
			if target(rule) == name {
				return "Too many links."
			}
		}
	}
	delete(r.work, name)
	return ""
}

func (r *restore) edit(op, name, rule string) string {
	c := r.work[name]
	if c == nil {
		return "No chain/target/match by that name."
	}
	if op == "-F" {
		c.rules = nil
		return ""
	}
	if why := r.check(rule); why != "" {
		return why
	}
	switch op {
	case "-A":
		c.rules = append(c.rules, rule)
	case "-I":
		c.rules = slices.Insert(c.rules, 0, rule)
	case "-D":
		i := slices.Index(c.rules, rule)
		if i < 0 {
			return "Bad rule (does a matching rule exist in that chain?)."
		}
		c.rules = slices.Delete(c.rules, i, i+1)
	}
	return ""
}

// check refuses what the tool would: unknown targets, and words that Trace does not understand, so that no rule is ever
// let through that the fake cannot judge.
func (r *restore) check(rule string) string {
	p, err := parse(rule)
	if err != nil {
		return err.Error()
	}
	if p.target != "" && !extensions[p.target] && r.work[p.target] == nil {
		return "Couldn't load target `" + p.target + "':No such file or directory"
	}
	if (p.target == "DNAT" || p.target == "REDIRECT" || p.target == "MASQUERADE") && r.name != "nat" {
		return p.target + ": only valid in nat table"
	}
	if p.target == "REJECT" && r.name != "filter" {
		return "REJECT: only valid in filter table"
	}
	return ""
}

var extensions = map[string]bool{"ACCEPT": true, "DROP": true, "RETURN": true, "REJECT": true, "MARK": true,
	"MASQUERADE": true, "DNAT": true, "REDIRECT": true}

func target(rule string) string {
	p, err := parse(rule)
	if err != nil {
		return ""
	}
	return p.target
}
