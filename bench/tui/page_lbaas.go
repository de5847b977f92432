package tui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"proxylab/bench/stats"
)

// balancerPage shows the load balancers of a subject, what was asked of their API, and how long they took. Where there is no room
// for all at once, it shows one part after the other.
type balancerPage struct {
	w, h int
	part int // of those below, where only one is shown
	list scroll
}

// parts of the page that are lists.
var balancerParts = []string{"balancers", "API calls", "published, failovers, faults"}

func (p *balancerPage) title() string    { return "LBaaS" }
func (p *balancerPage) setSize(w, h int) { p.w, p.h = w, h }

func (p *balancerPage) key(k keyMap, pressed tea.KeyMsg, _ *view) bool {
	switch pressed.String() {
	case "n":
		p.part++
	case "b":
		p.part += len(balancerParts) - 1
	default:
		return p.list.key(k, pressed)
	}
	p.part %= len(balancerParts)
	p.list.first = 0
	return true
}

func (p *balancerPage) draw(a area, v *view) {
	a = a.sub(1, 0, a.w-2, a.h)
	sub := v.state.Current()
	if sub == nil || !sub.Balancers.told {
		a.text(0, 0, faint, "No balancer in this run.")
		return
	}
	b := &sub.Balancers
	a.text(0, 0, plain, strings.Join(balancerTotals(b), " · "))
	body := a.sub(0, 2, a.w, a.h-2)
	if a.w >= 110 {
		half := a.w * 11 / 20
		body.sub(half, 0, 1, body.h).column(0)
		p.drawTree(body.sub(0, 0, half-1, body.h), v, b)
		drawCallsAndTimes(body.sub(half+2, 0, body.w-half-2, body.h), v, b)
		return
	}
	x := a.text(0, 1, bold, capital(balancerParts[p.part])) + 1
	a.text(x, 1, faint, fmt.Sprintf(" %d of %d · n: %s, b: %s", p.part+1, len(balancerParts),
		balancerParts[(p.part+1)%len(balancerParts)], balancerParts[(p.part+len(balancerParts)-1)%len(balancerParts)]))
	switch p.part {
	case 0:
		p.drawTree(body, v, b)
	case 1:
		rows, failed := callRows(v, b)
		scrollTable(body, &p.list, rows, callsRight, failed)
	default:
		lines := timeLines(v, b)
		p.list.draw(body, len(lines), func(a area, i int) { lines[i].draw(a) })
	}
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// balancerTotals sum up.
func balancerTotals(b *Balancers) []string {
	balancers, members, states := 0, 0, map[string]int{}
	for _, root := range b.Roots {
		if root.Kind == "loadbalancer" {
			balancers++
		}
		root.tally(states)
	}
	for _, n := range states {
		members += n
	}
	parts := []string{fmt.Sprintf("%d balancers", balancers), fmt.Sprintf("%d members", members)}
	if bad := states["ERROR"]; bad > 0 {
		parts[1] += fmt.Sprintf(" (%d down)", bad)
	}
	calls, failed := 0, 0
	for _, c := range b.Calls {
		calls, failed = calls+c.Count, failed+c.Failed
	}
	parts = append(parts, fmt.Sprintf("%d API calls, %d failed", calls, failed))
	if d, ok := publishSeconds(b); ok {
		parts = append(parts, fmt.Sprintf("published in p50 %s, max %s", seconds(d.P50), seconds(d.Max)))
	}
	if n := len(b.Failovers); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failovers", n))
	}
	return parts
}

func publishSeconds(b *Balancers) (stats.Summary, bool) {
	var all []float64
	for _, p := range b.Published {
		all = append(all, p.Seconds)
	}
	return stats.OfSamples(all)
}

// node is a line of the tree.
type node struct {
	*Balanced
	depth int
}

// drawTree shows the balancers with all that is below them, each with its two states.
func (p *balancerPage) drawTree(a area, v *view, b *Balancers) {
	var nodes []node
	var walk func(list []*Balanced, depth int, all bool) bool
	walk = func(list []*Balanced, depth int, all bool) (some bool) {
		for _, o := range list {
			at := len(nodes)
			nodes = append(nodes, node{o, depth})
			passes := all || matches(v.filter, o.text())
			if walk(o.Under, depth+1, passes) || passes { // what is above something that passes is shown, too
				some = true
			} else {
				nodes = nodes[:at]
			}
		}
		return some
	}
	walk(b.Roots, 0, v.filter == "")
	if len(nodes) == 0 {
		text := "no balancer any more"
		if v.filter != "" {
			text = "No balancer passes the filter."
		}
		a.text(0, 0, faint, text)
		return
	}
	const state = 16 // columns; the longest is PENDING_UPDATE
	name := max(a.w-2*state-2, a.w/3)
	a.text(name, 0, faint, "PROVISIONING")
	a.text(name+state, 0, faint, "OPERATING")
	p.list.draw(a.sub(0, 1, a.w, a.h-1), len(nodes), func(a area, i int) {
		n := nodes[i]
		st := plain
		if n.depth == 0 {
			st = bold
		}
		left := a.sub(0, 0, name-1, 1)
		x := left.text(2*n.depth, 0, faint, n.label()) + 2*n.depth
		if n.label() != "" {
			x++
		}
		about := cmp.Or(n.members(), n.Address)
		x += left.text(x, 0, st, tailOf(n.ownName(), max(left.w-x-2-columns(about), 8))) + 2
		left.text(x, 0, faint, about)
		a.text(name, 0, stateStyle(n.Provisioning), cmp.Or(n.Provisioning, "–"))
		a.text(name+state, 0, stateStyle(n.Operating), cmp.Or(n.Operating, "–"))
	})
}

// label is the kind, where it is not plain from the place.
func (o *Balanced) label() string {
	switch o.Kind {
	case "loadbalancer":
		return ""
	case "healthmonitor":
		return "monitor"
	}
	return o.Kind
}

// ownName leaves out of a name that of the balancer, which is above it.
func (o *Balanced) ownName() string {
	name := cmp.Or(o.Name, shortID(o.id))
	for up := o.over; up != nil; up = up.over {
		if cut, found := strings.CutSuffix(name, "_"+up.Name); found && up.Name != "" && cut != "" {
			return cut
		}
	}
	return name
}

// text is what a filter looks at.
func (o *Balanced) text() string {
	return strings.Join([]string{o.label(), o.Name, o.Address, o.Provisioning, o.Operating, o.id}, " ")
}

// members says how those of a pool are: "3 ONLINE, 1 ERROR".
func (o *Balanced) members() string {
	if o.Kind != "pool" {
		return ""
	}
	states := map[string]int{}
	o.tally(states)
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		parts = append(parts, fmt.Sprintf("%d %s", states[state], cmp.Or(state, "members")))
	}
	return cmp.Or(strings.Join(parts, ", "), "no members")
}

func shortID(id string) string {
	if len(id) > 8 {
		return id[:8]
	}
	return id
}

// stateStyle is good and bad at a glance; the word says it as well.
func stateStyle(state string) style {
	switch {
	case state == "ACTIVE" || state == "ONLINE":
		return good
	case state == "ERROR":
		return bad
	case strings.HasPrefix(state, "PENDING") || state == "DEGRADED" || state == "DRAINING":
		return warn
	}
	return faint
}
