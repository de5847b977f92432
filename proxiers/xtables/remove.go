package xtables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"proxylab/proxiers/services"
)

// Owner tells a mode's chains from others.
type Owner struct {
	// Chain says whether the mode makes chains of that name.
	Chain func(name string) bool
	// Shared are chains of the mode that stay where one of their keepers' chains is; may be nil.
	Shared map[string][]string
}

// Found is what a table has that concerns the removal of a mode's chains.
type Found struct {
	Tool  string // "iptables-legacy"
	Table string
	Ours  []string        // the mode's chains
	Held  map[string]bool // those that foreign chains jump to: they stay
	Kept  map[string]bool // those that their keepers need

	foreign map[string]bool // other user chains
	jumps   []string        // rules of the kernel's chains that lead to ours, as printed
}

// Doomed are the chains to remove.
func (f *Found) Doomed() []string {
	var names []string
	for _, name := range f.Ours {
		if !f.Held[name] && !f.Kept[name] {
			names = append(names, name)
		}
	}
	return names
}

// Each calls f for every back end and family whose tools are installed, and joins the errors.
func Each(f func(p Programs) error) error {
	var errs []error
	for _, backend := range Backends() {
		for _, fam := range []services.Family{services.IPv4, services.IPv6} {
			p, err := Find(fam, backend)
			if err != nil {
				continue // not installed, so it left nothing
			}
			if err := f(p); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", p.Name(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// Leftovers lists the chains that Remove would remove, as "iptables-legacy nat KUBE-SERVICES".
func Leftovers(ctx context.Context, o Owner) ([]string, error) {
	var left []string
	err := Each(func(p Programs) error {
		all, err := Survey(ctx, p.Name(), p, o)
		for _, f := range all {
			for _, chain := range f.Doomed() {
				left = append(left, f.Tool+" "+f.Table+" "+chain)
			}
		}
		return err
	})
	return left, err
}

// Remove removes a mode's chains, whoever made them, and the jumps of the kernel's chains to them, from both back ends
// and both families. Nothing else is touched: a chain that a foreign chain jumps to stays. It is safe to repeat.
func Remove(ctx context.Context, o Owner, log *slog.Logger) error {
	return Each(func(p Programs) error {
		_, err := RemoveFrom(ctx, p.Name(), p, o, log)
		return err
	})
}

// RemoveFrom is Remove for one back end and family, a restore for each table, so that what stands in the way in one does
// not keep the others. It returns what had been there.
func RemoveFrom(ctx context.Context, name string, t Tool, o Owner, log *slog.Logger) ([]*Found, error) {
	all, err := Survey(ctx, name, t, o)
	if err != nil {
		return all, err
	}
	var errs []error
	for _, f := range all {
		for _, chain := range slices.Sorted(maps.Keys(f.Held)) {
			log.Warn("a chain stays because a foreign chain jumps to it", "tool", name, "table", f.Table, "chain", chain)
		}
		if input := f.removal(); input != nil {
			errs = append(errs, t.Restore(ctx, input))
		}
	}
	return all, errors.Join(errs...)
}

// Survey reads all tables that exist, in the order of the tool.
func Survey(ctx context.Context, name string, t Tool, o Owner) ([]*Found, error) {
	var all []*Found
	var at *Found
	err := t.Save(ctx, "", func(line []byte) bool {
		switch {
		case bytes.HasPrefix(line, []byte("*")):
			at = &Found{Tool: name, Table: string(line[1:]), foreign: map[string]bool{}, Held: map[string]bool{}, Kept: map[string]bool{}}
			all = append(all, at)
		case at != nil && bytes.HasPrefix(line, []byte(":")):
			at.chain(string(line[1:]), o)
		case at != nil && bytes.HasPrefix(line, []byte("-A ")):
			at.rule(line, o)
		}
		return true
	})
	for chain, keepers := range o.Shared {
		for _, f := range all {
			f.Kept[chain] = slices.ContainsFunc(all, func(g *Found) bool {
				return slices.ContainsFunc(keepers, func(k string) bool { return g.foreign[k] })
			})
		}
	}
	return all, err
}

func (f *Found) chain(decl string, o Owner) {
	name, rest, _ := strings.Cut(decl, " ")
	switch {
	case o.Chain(name):
		f.Ours = append(f.Ours, name)
	case strings.HasPrefix(rest, "-"):
		f.foreign[name] = true
	}
}

// rule looks at a rule of a chain that is not ours.
func (f *Found) rule(line []byte, o Owner) {
	name, _, _ := bytes.Cut(line[len("-A "):], []byte(" "))
	if o.Chain(string(name)) {
		return
	}
	target := jumpTarget(line)
	if !o.Chain(target) {
		return
	}
	if f.foreign[string(name)] {
		f.Held[target] = true
	} else {
		f.jumps = append(f.jumps, string(line))
	}
}

// jumpTarget finds the chain after -j or -g; quoted comments may contain anything.
func jumpTarget(line []byte) string {
	_, after, ok := bytes.Cut(unquoted(line), []byte(" -j "))
	if !ok {
		_, after, ok = bytes.Cut(unquoted(line), []byte(" -g "))
	}
	if !ok {
		return ""
	}
	name, _, _ := bytes.Cut(after, []byte(" "))
	return string(name)
}

// unquoted is the line without what is in quotes.
func unquoted(line []byte) []byte {
	if bytes.IndexByte(line, '"') < 0 {
		return line
	}
	var out []byte
	in := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && in:
			i++
		case line[i] == '"':
			in = !in
		case !in:
			out = append(out, line[i])
		}
	}
	return out
}

// removal is the restore that removes what is ours from a table; nil if there is nothing. Declaring a chain empties it.
func (f *Found) removal() []byte {
	doomed := f.Doomed()
	if len(doomed) == 0 {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%s\n", f.Table)
	for _, chain := range doomed {
		fmt.Fprintf(&b, ":%s - [0:0]\n", chain)
	}
	for _, j := range f.jumps {
		if slices.Contains(doomed, jumpTarget([]byte(j))) {
			fmt.Fprintf(&b, "-D%s\n", strings.TrimPrefix(j, "-A"))
		}
	}
	for _, chain := range doomed {
		fmt.Fprintf(&b, "-X %s\n", chain)
	}
	b.WriteString("COMMIT\n")
	return b.Bytes()
}
