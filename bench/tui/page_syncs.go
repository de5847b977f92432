package tui

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"proxylab/bench/stats"
	"proxylab/bench/units"
)

// syncsPage lists the passes of the proxier, the latest first.
type syncsPage struct {
	w, h int
	list scroll
}

func (p *syncsPage) title() string    { return "Syncs" }
func (p *syncsPage) setSize(w, h int) { p.w, p.h = w, h }

func (p *syncsPage) key(k keyMap, pressed tea.KeyMsg, _ *view) bool { return p.list.key(k, pressed) }

func (p *syncsPage) draw(a area, v *view) {
	a = a.sub(1, 0, a.w-2, a.h)
	sub := v.state.Current()
	if sub == nil || len(sub.Syncs) == 0 {
		a.text(0, 0, faint, "No proxier has synced yet.")
		return
	}
	drawSyncTotals(a, sub)
	rows := [][]string{{"TIME", "NODE", "PROXIER", "PASS", "TOOK", "CPU", "IN THE KERNEL"}}
	failed := []bool{false}
	for _, s := range slices.Backward(sub.Syncs) {
		row := syncRow(v, s)
		if matches(v.filter, strings.Join(row, " ")) {
			rows, failed = append(rows, row), append(failed, s.Error != "")
		}
	}
	if len(rows) == 1 {
		a.text(0, 3, faint, "No sync passes the filter.")
		return
	}
	scrollTable(a.sub(0, 3, a.w, a.h-3), &p.list, rows, []bool{4: true, 5: true}, failed)
}

// drawSyncTotals sums up.
func drawSyncTotals(a area, sub *Subject) {
	x := a.text(0, 0, subjectStyle(sub.Number), sub.Name()) + 2
	text := fmt.Sprintf("%d full, %d partial", sub.Full, sub.Part)
	x += a.text(x, 0, plain, text)
	st := plain
	if sub.Failed > 0 {
		st = bad
	}
	a.text(x, 0, st, fmt.Sprintf(", %d failed", sub.Failed))
	var took []float64
	for _, s := range sub.Syncs {
		if s.Error == "" {
			took = append(took, s.Seconds)
		}
	}
	var parts []string
	if d, ok := stats.OfSamples(took); ok {
		parts = append(parts, fmt.Sprintf("took p50 %s, p99 %s, max %s", seconds(d.P50), seconds(d.P99), seconds(d.Max)))
	}
	if cpu, ok := sub.cpuSeconds(); ok {
		parts = append(parts, "CPU "+seconds(cpu)+" in all")
	}
	var most int64
	for _, n := range sub.Nodes {
		most = max(most, n.MaxRSS)
	}
	if most > 0 {
		parts = append(parts, "peak memory "+units.Bytes(float64(most)))
	}
	a.text(0, 1, plain, strings.Join(parts, " · "))
}

func syncRow(v *view, s Sync) []string {
	kind := "partial"
	if s.Full {
		kind = "full"
	}
	cpu := "–"
	if s.CPUSeconds != nil {
		cpu = seconds(*s.CPUSeconds)
	}
	what := ""
	for _, k := range slices.Sorted(maps.Keys(s.Objects)) {
		what += fmt.Sprintf("%d %s  ", s.Objects[k], k)
	}
	if s.Error != "" {
		what = oneLine(s.Error)
	}
	return []string{v.clock(s.At), s.Node, s.Proxier, kind, seconds(s.Seconds), cpu, strings.TrimSpace(what)}
}
