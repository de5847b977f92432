package rules

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// judgement is what a rule means to the packet, whose destination is known and whose source is not.
type judgement struct {
	never    bool     // it cannot match
	when     []string // it matches only then; empty: always
	specific bool     // it names the packet's own destination
}

// judge goes through the matches of a rule. The packet is the first of its connection.
func (t *trail) judge(r rule) (j judgement) {
	for i := 0; i+1 < len(r.fields); i++ {
		flag, value := r.fields[i], r.fields[i+1]
		not := i > 0 && r.fields[i-1] == "!"
		known, match, when := t.match(flag, value, not, r.fields[i+1:])
		switch {
		case known && match == not:
			return judgement{never: true}
		case known && !not:
			j.specific = j.specific || namesDestination(flag, value)
		case when != "":
			j.when = append(j.when, when)
		}
	}
	return j
}

// match evaluates one option. Either it is known whether it matches, or "when" says in words what it depends on; options
// that do not match at all, such as comments, are neither.
func (t *trail) match(flag, value string, not bool, rest []string) (known, match bool, when string) {
	switch flag {
	case "-d", "--ctorigdst":
		p, ok := prefix(value)
		return ok, ok && p.Contains(t.way.to.Addr()), ""
	case "-p":
		return true, value == t.way.protocol || value == "all", ""
	case "--dport", "--dports":
		return true, portIn(t.way.to.Port(), value), ""
	case "--dst-type":
		return value == "LOCAL", t.way.local, ""
	case "--ctstate":
		return true, slices.Contains(strings.Split(value, ","), "NEW"), ""
	case "--match-set":
		return t.matchSet(value, rest, not)
	}
	return false, false, t.condition(flag, value, not)
}

// namesDestination: a prefix such as 10.0.0.0/8 or a protocol says nothing about the Service.
func namesDestination(flag, value string) bool {
	switch flag {
	case "-d", "--ctorigdst":
		p, ok := prefix(value)
		return ok && p.IsSingleIP()
	case "--dport", "--dports", "--match-set":
		return true
	}
	return false
}

func prefix(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	return p, err == nil
}

// portIn reads "80", "80:90" and "80,443".
func portIn(port uint16, list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		low, high, ranged := strings.Cut(part, ":")
		if !ranged {
			high = low
		}
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if errA == nil && errB == nil && int(port) >= a && int(port) <= b {
			return true
		}
	}
	return false
}

// matchSet looks the packet's destination up in an ipset. With a part of the source in the key it depends on that.
func (t *trail) matchSet(name string, rest []string, not bool) (known, match bool, when string) {
	if len(rest) < 2 {
		return false, false, ""
	}
	members, dirs := t.sets[name], rest[1]
	if strings.Contains(dirs, "src") {
		when = "the source is in the set " + name
		if strings.HasPrefix(dirs, "dst,dst,") && !t.anyWithPrefix(members, t.setKey()+",") {
			return true, false, ""
		}
		if not {
			when = "the source is not in the set " + name
		}
		return false, false, when
	}
	port := strconv.Itoa(int(t.way.to.Port()))
	for _, key := range []string{t.setKey(), t.way.to.Addr().String(), port, t.way.protocol + ":" + port} {
		if members[key] {
			return true, true, ""
		}
	}
	return true, false, ""
}

// setKey is the member of a hash:ip,port set for the packet's destination.
func (t *trail) setKey() string {
	return fmt.Sprintf("%s,%s:%d", t.way.to.Addr(), t.way.protocol, t.way.to.Port())
}

func (t *trail) anyWithPrefix(members map[string]bool, start string) bool {
	for m := range members {
		if strings.HasPrefix(m, start) {
			return true
		}
	}
	return false
}

// condition puts into words what a match depends on; empty: the option matches nothing.
func (t *trail) condition(flag, value string, not bool) string {
	is := "is"
	if not {
		is = "is not"
	}
	switch flag {
	case "-s":
		return t.fromWhere(value, not)
	case "--src-type":
		if value == "LOCAL" && !not {
			return "it comes from the node itself"
		}
		return fmt.Sprintf("its source %s of type %s", is, value)
	case "--mark":
		if not {
			return "it was not marked for masquerade"
		}
		return "it was marked for masquerade"
	case "--probability":
		return oneIn(value)
	case "--seconds":
		if s, err := strconv.Atoi(value); err == nil {
			return "the client was sent there within the last " + (time.Duration(s) * time.Second).String()
		}
	case "-i", "-o":
		return fmt.Sprintf("the interface %s %s", is, value)
	}
	return ""
}

// fromWhere names the sources that matter.
func (t *trail) fromWhere(value string, not bool) string {
	p, ok := prefix(value)
	what := value
	switch {
	case ok && t.isPods(p):
		what = "this node's pods (" + value + ")"
	case ok && p.IsSingleIP() && t.isEndpoint(p.Addr()):
		what = "the endpoint itself"
	}
	if not {
		return "it does not come from " + what
	}
	return "it comes from " + what
}

// oneIn reads a probability as people say it.
func oneIn(value string) string {
	p, err := strconv.ParseFloat(value, 64)
	if err != nil || p <= 0 {
		return "by chance (" + value + ")"
	}
	if n := math.Round(1 / p); math.Abs(n*p-1) < 1e-6 {
		return fmt.Sprintf("one in %.0f of those that get here, by chance", n)
	}
	return fmt.Sprintf("%.2g%% of those that get here, by chance", 100*p)
}
