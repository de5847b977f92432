package fake

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// rule is a parsed rule: conditions in order, then a target.
type rule struct {
	conditions []func(*state) bool
	chance     float64 // of statistic; 0: no such match
	target     string
	to         netip.AddrPort // DNAT
	toPort     uint16         // REDIRECT
	set, mask  uint32         // MARK --set-xmark
	records    string         // recent --set
}

// words splits a rule like the shell would.
func words(s string) []string {
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] == '"' {
			text, rest, _ := strings.Cut(s[1:], `"`)
			out, s = append(out, text), rest
			continue
		}
		word, rest, _ := strings.Cut(s, " ")
		out, s = append(out, word), rest
	}
	return out
}

// parser walks over a rule's words.
type parser struct {
	words  []string
	rule   rule
	not    bool
	recent string // the mode of a recent match that waits for its name
}

func parse(text string) (rule, error) {
	p := &parser{words: words(text)}
	for len(p.words) > 0 {
		if err := p.step(p.take()); err != nil {
			return rule{}, fmt.Errorf("%w in %q", err, text)
		}
	}
	return p.rule, nil
}

func (p *parser) take() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// when adds a condition, negated if a ! came before.
func (p *parser) when(f func(*state) bool) {
	not := p.not
	p.not = false
	p.rule.conditions = append(p.rule.conditions, func(s *state) bool { return f(s) != not })
}

func (p *parser) step(word string) error {
	switch word {
	case "!":
		p.not = true
	case "-m": // the options that follow say all
		p.take()
	case "--comment", "--mode", "--seconds", "--mask", "--reject-with":
		p.take()
	case "--reap", "--rsource", "--random-fully":
	case "-p":
		proto := p.take()
		p.when(func(s *state) bool { return s.Proto == proto })
	case "-s", "-d":
		return p.address(word)
	case "--dport":
		port := p.take()
		p.when(func(s *state) bool { return strconv.Itoa(int(s.dst.Port())) == port })
	case "--dst-type", "--src-type":
		return p.addressType(word)
	case "--ctstate":
		states := strings.Split(p.take(), ",")
		p.when(func(s *state) bool { return s.inState(states) })
	case "--mark", "--set-xmark":
		return p.mark(word)
	case "--rcheck", "--set":
		p.recent = word
	case "--name":
		p.recentName(p.take())
	case "--probability":
		var err error
		p.rule.chance, err = strconv.ParseFloat(p.take(), 64)
		return err
	case "--ctorigdst":
		a, err := netip.ParseAddr(p.take())
		p.when(func(s *state) bool { return s.Dst.Addr() == a })
		return err
	case "-j":
		p.rule.target = p.take()
	case "--to-ports":
		n, err := strconv.ParseUint(p.take(), 10, 16)
		p.rule.toPort = uint16(n)
		return err
	case "--to-destination":
		var err error
		p.rule.to, err = netip.ParseAddrPort(p.take())
		return err
	default:
		return fmt.Errorf("unknown option %q", word)
	}
	return nil
}

func (p *parser) address(which string) error {
	prefix, err := netip.ParsePrefix(p.take())
	p.when(func(s *state) bool {
		if which == "-s" {
			return prefix.Contains(s.Src.Addr())
		}
		return prefix.Contains(s.dst.Addr())
	})
	return err
}

func (p *parser) addressType(which string) error {
	if kind := p.take(); kind != "LOCAL" {
		return fmt.Errorf("unknown address type %q", kind)
	}
	p.when(func(s *state) bool {
		if which == "--src-type" {
			return s.isLocal(s.Src.Addr())
		}
		return s.isLocal(s.dst.Addr())
	})
	return nil
}

func (p *parser) mark(word string) error {
	value, mask, _ := strings.Cut(p.take(), "/")
	v, err := strconv.ParseUint(value, 0, 32)
	if err != nil {
		return err
	}
	m, err := strconv.ParseUint(mask, 0, 32)
	if err != nil {
		return err
	}
	if word == "--set-xmark" {
		p.rule.set, p.rule.mask = uint32(v), uint32(m)
		return nil
	}
	p.when(func(s *state) bool { return s.mark&uint32(m) == uint32(v) })
	return nil
}

func (p *parser) recentName(name string) {
	if p.recent == "--set" {
		p.rule.records = name
		return
	}
	p.when(func(s *state) bool { return s.Seen[name] })
}
