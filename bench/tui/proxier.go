package tui

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"proxylab/bench/stats"
	"proxylab/bench/units"
)

// drawProxier shows what the proxier does and costs, and who answers.
func drawProxier(a area, v *view, sub *Subject) {
	a.text(0, 0, bold, "Proxier")
	if sub == nil {
		a.text(0, 1, faint, "none runs yet")
		return
	}
	a.text(8, 0, subjectStyle(sub.Number), fit(sub.Proxier(), a.w-8))
	y := 1
	y += drawLastSyncs(a.sub(0, y, a.w, a.h-y), sub)
	y += drawUsage(a.sub(0, y, a.w, a.h-y), sub)
	y += drawObjects(a.sub(0, y, a.w, a.h-y), sub)
	drawProgramming(a.sub(0, y, a.w, a.h-y), sub)
	y += 2
	if a.h-y >= 4 {
		if a.h >= 25 {
			y++
		}
		drawShares(a.sub(0, y, a.w, a.h-y), v, sub)
	}
}

// drawLastSyncs is a line for the latest pass on each node.
func drawLastSyncs(a area, sub *Subject) int {
	a.text(0, 0, faint, "last sync")
	a.right(a.w-6, 0, faint, "took")
	a.right(a.w, 0, faint, "CPU")
	y := 1
	for _, n := range sub.Nodes {
		if n.Last == nil || y > 3 && a.h < 30 {
			continue
		}
		kind := "part"
		if n.Last.Full {
			kind = "full"
		}
		x := a.text(0, y, plain, fit(n.Name, max(a.w-17, 5))) + 1
		if n.Last.Error != "" {
			a.text(x, y, bad, "failed")
		} else {
			a.text(x, y, faint, kind)
			a.right(a.w-6, y, bold, axisSeconds(n.Last.Seconds))
			if n.Last.CPUSeconds != nil {
				a.right(a.w, y, plain, axisSeconds(*n.Last.CPUSeconds))
			}
		}
		y++
	}
	return y
}

// drawUsage is processor time and memory, lately.
func drawUsage(a area, sub *Subject) int {
	const label, figure = 4, 9
	width := max(a.w-label-figure-1, 0)
	line := func(y int, name string, g *gauge, format func(float64) string, least float64) {
		a.text(0, y, faint, name)
		values := g.last(width)
		if len(values) == 0 {
			a.text(label, y, faint, "not measured yet")
			return
		}
		top := max(slices.Max(values), least)
		a.text(label, y, subjectStyle(sub.Number), sparkline(values, top))
		a.right(a.w, y, plain, format(values[len(values)-1]))
	}
	// Of one core.
	line(0, "CPU", sub.CPU, func(v float64) string { return fmt.Sprintf("%.0f%% core", 100*v) }, 0.2)
	line(1, "mem", sub.Memory, units.Bytes, 0)
	return 2
}

// objectsOf are what the kernel of a node holds after its latest pass; of several nodes, the most.
func objectsOf(sub *Subject) map[string]int {
	most := map[string]int{}
	for _, n := range sub.Nodes {
		if n.Last == nil {
			continue
		}
		for kind, count := range n.Last.Objects {
			most[kind] = max(most[kind], count)
		}
	}
	return most
}

// drawObjects is what is in the kernel, by kind, as many to a line as fit.
func drawObjects(a area, sub *Subject) int {
	objects := objectsOf(sub)
	x, y := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(objects)) {
		count := fmt.Sprint(objects[kind])
		if x > 0 && x+len(kind)+1+len(count) > a.w {
			x, y = 0, y+1
		}
		x += a.text(x, y, faint, kind) + 1
		x += a.text(x, y, plain, count) + 2
	}
	if x == 0 {
		return y
	}
	return y + 1
}

// drawProgramming is how long the data path took to obey.
func drawProgramming(a area, sub *Subject) {
	a.text(0, 0, faint, "programming latency")
	var all []float64
	for _, p := range sub.Programming {
		all = append(all, p.Seconds)
	}
	d, ok := stats.OfSamples(all)
	if !ok {
		a.text(1, 1, faint, "no change seen yet")
		return
	}
	x := 1 + a.text(1, 1, plain, "p50 "+seconds(d.P50)+" p99 "+seconds(d.P99))
	count := fmt.Sprintf("%d samples", d.Count)
	if x+1+len(count) <= a.w {
		a.right(a.w, 1, faint, count)
	}
}

// drawShares is who answers the chosen load now.
func drawShares(a area, v *view, sub *Subject) {
	list := v.loadsOf(sub, false)
	if len(list) == 0 {
		return
	}
	l := list[v.chosen(list)]
	x := a.text(0, 0, bold, "Endpoints") + 1
	about := "last 3s"
	if l.Ended {
		about = "in all"
	}
	a.text(x, 0, faint, fit(about, a.w-x))
	_, pods := l.now()
	drawBars(a.sub(0, 1, a.w, a.h-1), shares(pods, l.Pods, l.Ended))
}

// podShare is a pod's part of the answers.
type podShare struct {
	pod   string
	count int64
	share float64
}

// shares are those of all pods that ever answered, by name; of a load that has ended, over all.
func shares(now, ever map[string]int64, ended bool) []podShare {
	if ended {
		now = ever
	}
	var sum int64
	for _, n := range now {
		sum += n
	}
	var list []podShare
	for _, pod := range slices.Sorted(maps.Keys(ever)) {
		s := podShare{pod: pod, count: now[pod]}
		if sum > 0 {
			s.share = float64(s.count) / float64(sum)
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b podShare) int { // those that do not answer any more stand below
		switch {
		case a.count > 0 && b.count == 0:
			return -1
		case a.count == 0 && b.count > 0:
			return 1
		}
		return 0
	})
	return list
}

// drawBars draws one bar per pod. Of its name it shows what tells it from its siblings.
func drawBars(a area, list []podShare) {
	if len(list) == 0 {
		a.text(0, 0, faint, "nobody answered yet")
		return
	}
	nameWidth := 0
	for _, s := range list {
		nameWidth = max(nameWidth, min(columns(ownName(s.pod)), 8))
	}
	for y, s := range list {
		if y == a.h-1 && len(list) > a.h {
			silent := 0
			for _, s := range list[y:] {
				if s.count == 0 {
					silent++
				}
			}
			a.text(0, y, faint, fmt.Sprintf("… %d more, %d silent", len(list)-y, silent))
			return
		}
		st := plain
		if s.count == 0 {
			st = faint
		}
		a.text(0, y, st, tailOf(ownName(s.pod), nameWidth))
		percent := fmt.Sprintf("%.0f%%", 100*s.share)
		a.bar(nameWidth+1, y, max(a.w-nameWidth-6, 0), s.share, good)
		a.right(a.w, y, st, percent)
	}
}

// ownName is the last part of a pod's name, which a Deployment's pods do not share.
func ownName(pod string) string { return pod[strings.LastIndex(pod, "-")+1:] }

// tailOf is the end of a name, which is where pods differ.
func tailOf(name string, width int) string {
	runes := []rune(name)
	if len(runes) <= width {
		return name
	}
	return "…" + string(runes[len(runes)-width+1:])
}
