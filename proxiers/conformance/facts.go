package conformance

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// saves list the rules of each kind, with the chains.
var saves = [][]string{
	{"iptables-legacy-save"}, {"ip6tables-legacy-save"}, {"iptables-nft-save"}, {"ip6tables-nft-save"},
}

// lists say what else a proxier may leave on a node.
var lists = [][]string{
	{"nft", "list", "tables"}, {"ipset", "list", "-n"}, {"ip", "-o", "link"}, {"ip", "-o", "addr"},
	{"ip", "route", "show", "table", "all"}, {"ip", "-6", "route", "show", "table", "all"}, {"ip", "rule"},
	{"cat", "/proc/net/ip_vs"}, {"cat", "/proc/sys/net/ipv4/conf/all/route_localnet"},
}

// Facts describes what proxiers leave on a node, a line each: rules and chains of every table, nftables tables, sets,
// links, addresses, routes, IPVS servers. Programs that the node lacks are passed over. Where there is the sentinel's present
// port it says so, since that is another each time; one of its former ports is a fact.
func (t *T) Facts(node string) []string {
	lines := t.facts(node)
	for i, line := range lines {
		lines[i] = withoutSentinel(line, t.sentinel.port())
	}
	return lines
}

func (t *T) facts(node string) []string {
	var lines []string
	for _, args := range saves {
		lines = append(lines, ruleLines(args[0], t.optional(node, args...))...)
	}
	for _, args := range lists {
		for line := range strings.Lines(t.optional(node, args...)) {
			line = strings.TrimSpace(line)
			// A program that lists the rules of iptables-nft makes its tables in passing.
			if args[0] == "nft" && slices.Contains([]string{"nat", "filter", "mangle", "raw", "security"}, line[strings.LastIndexByte(line, ' ')+1:]) {
				continue
			}
			if args[len(args)-1] == "/proc/net/ip_vs" && !strings.HasPrefix(line, "TCP") && !strings.HasPrefix(line, "UDP") && !strings.HasPrefix(line, "SCTP") {
				continue // servers change their counters
			}
			if line != "" {
				lines = append(lines, strings.Join(args, " ")+": "+withoutLifetime(line))
			}
		}
	}
	return lines
}

// Ruleset is the whole of the node's rules, for whoever wants to see why a row fails.
func ruleset(ctx context.Context, w *world, node string) string {
	var all strings.Builder
	at, what := w.place(node)
	for _, args := range append(slices.Clone(saves), []string{"nft", "list", "ruleset"}, []string{"cat", "/proc/net/ip_vs"}, []string{"ipset", "list"}) {
		if out, err := runAt(ctx, w.cluster, at, what, args...); err == nil && out != "" {
			all.WriteString("# " + what + ": " + strings.Join(args, " ") + "\n" + out)
		}
	}
	return all.String()
}

// optional runs a program that the place may lack. That it fails otherwise is a fact too: it may not have before.
func (t *T) optional(place string, args ...string) string {
	out, err := t.Run(place, args...)
	if err == nil || Absent(err) {
		return out
	}
	t.Logf("%v", err)
	return "-A fails: " + strings.ReplaceAll(err.Error(), "\n", " ") // written as a rule is, for ruleLines
}

// Absent says that a program could not be run because it is not there.
func Absent(err error) bool { return errors.Is(err, exec.ErrNotFound) }

// ruleLines keeps the rules and the chains that somebody made; base chains, counters and comments are the program's.
func ruleLines(tool, text string) (lines []string) {
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case strings.HasPrefix(line, ":"):
			name, rest, _ := strings.Cut(line, " ")
			if strings.HasPrefix(rest, "-") {
				lines = append(lines, tool+" "+table+" "+name)
			}
		case strings.HasPrefix(line, "-A"):
			lines = append(lines, tool+" "+table+" "+withoutLocalPort(line))
		}
	}
	return lines
}

var (
	localPorts  = regexp.MustCompile(`(--to-ports |--to-destination \S+:)\d+`)
	arrivalPort = regexp.MustCompile(`--dport \d+`)
)

// withoutLocalPort drops which port a process that carries connections itself listens on: each chooses its own.
func withoutLocalPort(line string) string {
	switch {
	case strings.HasPrefix(line, "-A KUBE-NODEPORT-NON-LOCAL "):
		return arrivalPort.ReplaceAllString(line, "--dport LOCAL")
	case strings.HasPrefix(line, "-A KUBE-PORTALS-"), strings.HasPrefix(line, "-A KUBE-NODEPORT-"):
		return localPorts.ReplaceAllString(line, "${1}LOCAL")
	}
	return line
}

// withoutSentinel names the sentinel's port, in rules and in /proc/net/ip_vs.
func withoutSentinel(line string, port int32) string {
	line = strings.ReplaceAll(line+" ", fmt.Sprintf("--dport %d ", port), "--dport SENTINEL ")
	return strings.TrimSuffix(strings.ReplaceAll(line, fmt.Sprintf(":%04X ", port), ":SENTINEL "), " ")
}

// withoutLifetime drops what changes by itself.
func withoutLifetime(line string) string {
	if i := strings.Index(line, " expires "); i >= 0 {
		return line[:i]
	}
	return line
}

// DifferenceOf says what is in one list of facts and not in the other.
func DifferenceOf(before, after []string) (lines []string) {
	for _, l := range after {
		if !slices.Contains(before, l) {
			lines = append(lines, "left behind: "+l)
		}
	}
	for _, l := range before {
		if !slices.Contains(after, l) {
			lines = append(lines, "lost: "+l)
		}
	}
	return lines
}
