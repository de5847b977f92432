package fake

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// sets are a kernel's ipsets.
type sets struct{ k *Kernel }

type set struct {
	kind, options string
	v6            bool
	members       map[string]bool
}

// Restore implements kernel.Sets: it obeys line by line up to the one that fails.
func (s sets) Restore(_ context.Context, input []byte) error {
	number := 0
	for line := range strings.Lines(string(input)) {
		number++
		if err := s.k.begin("set"); err != nil {
			return err
		}
		if why := s.line(strings.Fields(line)); why != "" {
			return fmt.Errorf("ipset restore -exist: exit status 1: Error in line %d: %s", number, why)
		}
	}
	return nil
}

func (s sets) line(words []string) string {
	if len(words) < 2 {
		return "Missing mandatory argument"
	}
	name := words[1]
	if words[0] == "create" {
		return s.create(name, words[2:])
	}
	is := s.k.sets[name]
	switch {
	case words[0] == "destroy" && len(words) == 2:
		if is == nil {
			return "The set with the given name does not exist"
		}
		delete(s.k.sets, name)
	case len(words) != 3 || is == nil:
		return "The set with the given name does not exist"
	case words[0] == "add":
		if why := is.check(words[2]); why != "" {
			return why
		}
		is.members[words[2]] = true
	case words[0] == "del":
		delete(is.members, words[2])
	default:
		return "unknown argument " + words[0]
	}
	return ""
}

func (s sets) create(name string, words []string) string {
	if len(name) > 31 {
		return "setname is longer than 31 characters"
	}
	made := &set{kind: words[0], options: strings.Join(words[1:], " "), v6: slices.Contains(words, "inet6"), members: map[string]bool{}}
	is := s.k.sets[name]
	if is != nil && (is.kind != made.kind || is.options != made.options) {
		return "Set cannot be created: set with the same name already exists"
	}
	if is == nil {
		s.k.sets[name] = made
	}
	return ""
}

// check says what is wrong with a member.
func (s *set) check(member string) string {
	kinds := strings.Split(s.kind[strings.IndexByte(s.kind, ':')+1:], ",")
	parts := strings.Split(member, ",")
	if len(parts) != len(kinds) {
		return "Syntax error: " + member
	}
	for i, kind := range kinds {
		text := parts[i]
		switch kind {
		case "port":
			if protocol, number, ok := strings.Cut(text, ":"); ok {
				if !slices.Contains([]string{"tcp", "udp", "sctp"}, protocol) {
					return "Syntax error: " + member
				}
				text = number
			} else if s.kind != "bitmap:port" {
				return "Syntax error: no protocol in " + member
			}
			if _, err := strconv.ParseUint(text, 10, 16); err != nil {
				return "Syntax error: " + member
			}
		default:
			a, err := netip.ParseAddr(text)
			if p, notPrefix := netip.ParsePrefix(text); kind == "net" && notPrefix == nil && !p.IsSingleIP() {
				a, err = p.Addr(), nil
			}
			if err != nil || a.Is6() != s.v6 {
				return "Syntax error: cannot parse " + text
			}
		}
	}
	return ""
}

// Save implements kernel.Sets.
func (s sets) Save(context.Context) (string, error) {
	s.k.asked("save sets")
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.k.sets)) {
		is := s.k.sets[name]
		fmt.Fprintf(&b, "create %s %s %s\n", name, is.kind, is.options)
		for _, m := range slices.Sorted(maps.Keys(is.members)) {
			fmt.Fprintf(&b, "add %s %s\n", name, m)
		}
	}
	return b.String(), nil
}

// Counts implements kernel.Sets.
func (s sets) Counts(context.Context) (map[string]int, error) {
	s.k.asked("count sets")
	out := map[string]int{}
	for name, is := range s.k.sets {
		out[name] = len(is.members)
	}
	return out, nil
}
