package fake

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Tables are the iptables of one family, an xtables.Tool. Rules are texts; those that name a set or chain that is not there
// are refused.
type Tables struct {
	k      *Kernel
	tables map[string]map[string][]string // rules by table and chain
}

var builtin = map[string][]string{
	"mangle": {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
	"nat":    {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
	"filter": {"INPUT", "FORWARD", "OUTPUT"},
}

// Tables makes tables that use the kernel's sets.
func (k *Kernel) Tables() *Tables {
	t := &Tables{k, map[string]map[string][]string{}}
	for table, chains := range builtin {
		t.tables[table] = map[string][]string{}
		for _, c := range chains {
			t.tables[table][c] = nil
		}
	}
	return t
}

// Restore implements xtables.Tool: a table's part is done as a whole or not at all.
func (t *Tables) Restore(_ context.Context, input []byte) error {
	if err := t.k.begin("restore"); err != nil {
		return err
	}
	table, number := "", 0
	var work map[string][]string
	for line := range strings.Lines(string(input)) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case line[0] == '*':
			table = line[1:]
			work = maps.Clone(t.tables[table])
		case line == "COMMIT":
			t.tables[table] = work
		default:
			if why := t.line(work, line); why != "" {
				return fmt.Errorf("iptables-restore: line %d failed: %s (%s)", number, why, line)
			}
		}
	}
	return nil
}

var setNames = regexp.MustCompile(`--match-set (\S+)`)

func (t *Tables) line(work map[string][]string, line string) string {
	if line[0] == ':' {
		name, _, _ := strings.Cut(line[1:], " ")
		if len(name) > 28 {
			return "chain name too long"
		}
		work[name] = nil
		return ""
	}
	op, rest, _ := strings.Cut(line, " ")
	name, rule, _ := strings.Cut(rest, " ")
	rules, ok := work[name]
	if !ok {
		return "No chain/target/match by that name"
	}
	switch op {
	case "-X":
		if len(rules) > 0 || referenced(work, name) {
			return "Directory not empty, or too many links"
		}
		delete(work, name)
		return ""
	case "-D":
		i := slices.Index(rules, rule)
		if i < 0 {
			return "Bad rule (does a matching rule exist in that chain?)"
		}
		work[name] = slices.Delete(slices.Clone(rules), i, i+1)
		return ""
	}
	for _, m := range setNames.FindAllStringSubmatch(rule, -1) {
		if t.k.sets[m[1]] == nil {
			return "Set " + m[1] + " doesn't exist"
		}
	}
	if to := jumpTarget(rule); strings.HasPrefix(to, "KUBE-") {
		if _, ok := work[to]; !ok {
			return "no chain " + to
		}
	}
	if op == "-I" {
		work[name] = append([]string{rule}, rules...)
	} else {
		work[name] = append(slices.Clone(rules), rule)
	}
	return ""
}

func jumpTarget(rule string) string {
	words := strings.Fields(rule)
	for i, w := range words[:max(0, len(words)-1)] {
		if w == "-j" {
			return words[i+1]
		}
	}
	return ""
}

func referenced(work map[string][]string, name string) bool {
	for _, rules := range work {
		for _, r := range rules {
			if jumpTarget(r) == name {
				return true
			}
		}
	}
	return false
}

// Save implements xtables.Tool.
func (t *Tables) Save(_ context.Context, only string, yield func([]byte) bool) error {
	t.k.asked("save tables")
	for _, table := range slices.Sorted(maps.Keys(t.tables)) {
		if only != "" && table != only {
			continue
		}
		lines := []string{"*" + table}
		for _, c := range slices.Sorted(maps.Keys(t.tables[table])) {
			policy := "-"
			if slices.Contains(builtin[table], c) {
				policy = "ACCEPT"
			}
			lines = append(lines, ":"+c+" "+policy+" [0:0]")
		}
		for _, c := range slices.Sorted(maps.Keys(t.tables[table])) {
			for _, r := range t.tables[table][c] {
				lines = append(lines, "-A "+c+" "+r)
			}
		}
		for _, l := range append(lines, "COMMIT") {
			if !yield([]byte(l)) {
				return nil
			}
		}
	}
	return nil
}

// Text is all tables.
func (t *Tables) Text() string {
	var b strings.Builder
	_ = t.Save(context.Background(), "", func(line []byte) bool {
		b.Write(line)
		b.WriteByte('\n')
		return true
	})
	return b.String()
}

// EnsureJump implements xtables.Tool.
func (t *Tables) EnsureJump(table, chain string, spec ...string) error {
	rule := strings.Join(spec, " ")
	if slices.Contains(t.tables[table][chain], rule) {
		return nil
	}
	return t.Restore(context.Background(), []byte("*"+table+"\n-I "+chain+" "+rule+"\nCOMMIT\n"))
}

// EnsureChain implements xtables.Tool.
func (t *Tables) EnsureChain(table, chain string) error {
	return t.Restore(context.Background(), []byte("*"+table+"\n:"+chain+" - [0:0]\nCOMMIT\n"))
}
