package rules

import (
	"fmt"
	"io"
	"strings"
)

// asAbove stands for hops that were shown already.
const asAbove = "as above"

// Print writes stories for people: each hop's rule, and below it what it says. What a story has shown once, it only refers
// to later.
func Print(w io.Writer, stories []Story) error {
	var text strings.Builder
	for _, s := range stories {
		shown := map[string]bool{}
		for _, way := range s.Ways {
			fmt.Fprintf(&text, "%s, port %s, by its %s %s\n", s.Service, s.Port, way.Kind, way.To)
			if len(way.Hops) == 0 {
				text.WriteString("  no rule of this node is about it\n")
			}
			printHops(&text, shorten(way.Hops, shown))
			text.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func printHops(text *strings.Builder, hops []Hop) {
	where := ""
	for _, h := range hops {
		margin := strings.Repeat("  ", h.Depth+1)
		// A rule of iptables begins with its chain; what it lacks is the table.
		if h.Where != where && (h.Depth == 0 || !strings.HasPrefix(h.Rule, "-A ")) && h.Rule != "" {
			fmt.Fprintf(text, "%s%s:\n", margin, h.Where)
		}
		where = h.Where
		if h.Rule != "" {
			fmt.Fprintf(text, "%s  %s\n", margin, h.Rule)
		}
		fmt.Fprintf(text, "%s    # %s\n", margin, h.Says)
	}
}

// shorten replaces blocks of hops that were shown already.
func shorten(hops []Hop, shown map[string]bool) (out []Hop) {
	for i := 0; i < len(hops); i++ {
		out = append(out, hops[i])
		end := i + 1
		for end < len(hops) && hops[end].Depth > hops[i].Depth {
			end++
		}
		block := hops[i+1 : end]
		if len(block) < 2 {
			continue
		}
		key := fingerprint(block)
		if shown[key] {
			out = append(out, Hop{Depth: hops[i].Depth, Where: hops[i].Where, Says: asAbove})
			i = end - 1
		}
		shown[key] = true
	}
	return out
}

// fingerprint is the same for the same hops at any depth.
func fingerprint(hops []Hop) string {
	var text strings.Builder
	for _, h := range hops {
		fmt.Fprintf(&text, "%d\x00%s\x00%s\x00%s\n", h.Depth-hops[0].Depth, h.Where, h.Rule, h.Says)
	}
	return text.String()
}
