package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"proxylab/bench/units"
)

// measure is one of the charts of a load.
type measure struct {
	title   string
	short   string // title, where there is little room
	weight  int    // of the height
	log     bool
	minimum float64
	atLeast float64
	format  func(float64) string
	value   func(*bucket) (float64, bool)
	second  func(*bucket) (float64, bool) // another curve of the subject at hand
	now     func(*bucket) string          // the figure beside the title
	trouble bool
}

func ofQuantile(n int) func(*bucket) (float64, bool) {
	return func(b *bucket) (float64, bool) {
		p50, p99, ok := b.quantiles()
		if n == 50 {
			return p50, ok
		}
		return p99, ok
	}
}

func perSecond(get func(*bucket) int64) func(*bucket) (float64, bool) {
	return func(b *bucket) (float64, bool) {
		if b.seconds == 0 {
			return 0, false
		}
		return float64(get(b)) / b.seconds, true
	}
}

func requestsOf(b *bucket) int64 { return b.requests }
func errorsOf(b *bucket) int64   { return b.errors }
func bytesOf(b *bucket) int64    { return b.bytes }

func openOf(b *bucket) (float64, bool) { return float64(b.open), b.ticks > 0 }

func textOf(value func(*bucket) (float64, bool), format func(float64) string) func(*bucket) string {
	return func(b *bucket) string {
		v, ok := value(b)
		if !ok {
			return "–"
		}
		return format(v)
	}
}

// measures are the charts of a kind of load, top to bottom.
func measures(kind string) []measure {
	failed := measure{title: "errors/s", weight: 2, atLeast: 1, format: plainNumber, value: perSecond(errorsOf), trouble: true,
		now: textOf(perSecond(errorsOf), plainNumber)}
	rate := measure{title: "requests/s", weight: 2, format: plainNumber, value: perSecond(requestsOf), now: textOf(perSecond(requestsOf), plainNumber)}
	switch kind {
	case "hold":
		return []measure{{title: "connections open", weight: 3, format: plainNumber, value: openOf, now: textOf(openOf, plainNumber)}, failed}
	case "stream":
		return []measure{{title: "throughput", weight: 3, format: units.Throughput, value: perSecond(bytesOf),
			now: textOf(perSecond(bytesOf), units.Throughput)}, failed}
	}
	return []measure{rate, {title: "latency p99 (the upper curve), p50", short: "p99, p50", weight: 3, log: true, minimum: 1e-4, format: axisSeconds,
		value: ofQuantile(99), second: ofQuantile(50), now: latencyNow}, failed}
}

func latencyNow(b *bucket) string {
	p50, p99, ok := b.quantiles()
	if !ok {
		return "–"
	}
	return seconds(p99) + ", " + seconds(p50)
}

func plainNumber(v float64) string {
	switch {
	case v >= 10000:
		return fmt.Sprintf("%.0fk", v/1000)
	case v == math.Trunc(v) || v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// axisSeconds is a duration in two digits, for an axis and for where there is little room.
func axisSeconds(v float64) string {
	switch {
	case v < 0.9e-3:
		return fmt.Sprintf("%.0fµs", v*1e6)
	case v < 0.09:
		return fmt.Sprintf("%.2gms", v*1e3)
	case v < 0.9:
		return fmt.Sprintf("%.0fms", v*1e3)
	}
	return fmt.Sprintf("%.2gs", v)
}

// window is the stretch of time that charts show, in seconds of a subject.
func (v *view) window() (from, to float64) {
	cur := v.state.Current()
	if cur == nil {
		return 0, 1
	}
	now := cur.since(v.now)
	if !cur.Ended.IsZero() {
		now = cur.since(cur.Ended)
	}
	if stretch := zooms[v.zoom]; stretch > 0 {
		return max(now-stretch, 0), max(now, stretch)
	}
	to = now
	for _, sub := range v.state.Subjects {
		if !sub.Ended.IsZero() {
			to = max(to, sub.since(sub.Ended))
		}
	}
	return 0, max(to, 10)
}

// drawCharts draws the charts of a load, one below the other over one time axis, for the subject at hand and, behind it,
// those before.
func drawCharts(a area, v *view, l *Load) {
	cur := v.state.Current()
	heading(a, v, l)
	list := measures(l.kind())
	room, weights := a.h-1-2-len(list), 0
	for _, ms := range list {
		weights += ms.weight
	}
	if room < len(list) { // the time axis can be done without, the charts not
		drawFigures(a.sub(0, 1, a.w, a.h-1), v, l, list)
		return
	}
	from, to := v.window()
	b, _ := l.now()
	y := 1
	for i, h := range heights(list, room, weights) {
		ms := list[i]
		st := bold
		if ms.trouble && b.errors > 0 {
			st = bad
		}
		title := ms.title
		if a.w < 45 && ms.short != "" {
			title = ms.short
		}
		x := 1 + a.text(1, y, faint, title) + 1
		if !l.Ended {
			x += a.text(x, y, st, ms.now(&b)) + 2
		}
		if ms.trouble && l.Errors > 0 {
			a.text(x, y, faint, "in all "+errorsText(l))
		}
		ch := chart{xMin: from, xMax: to, log: ms.log, minimum: ms.minimum, atLeast: ms.atLeast, format: ms.format, coloured: v.coloured}
		ch.curves, ch.gap = curves(v, l.Name, ms)
		ch.draw(a.sub(0, y+1, a.w, h))
		y += h + 1
	}
	drawTime(a.sub(0, y, a.w, 2), from, to, cur.Marks, axisTime)
}

// heights shares lines out by weight; what is left over goes to the heaviest.
func heights(list []measure, room, weights int) []int {
	var each []int
	left, heaviest := room, 0
	for i, ms := range list {
		each = append(each, max(room*ms.weight/weights, 1))
		left -= each[i]
		if ms.weight > list[heaviest].weight {
			heaviest = i
		}
	}
	each[heaviest] += left
	return each
}

func axisTime(v float64) string {
	if v < 120 {
		return fmt.Sprintf("%.0fs", v)
	}
	return clockText(v)
}

// drawFigures is for where there is no room for charts.
func drawFigures(a area, v *view, l *Load, list []measure) {
	b, _ := l.now()
	if all, ok := l.sum(v.until); l.Ended && ok {
		b = *all
	}
	for i, ms := range list {
		x := a.text(1, i, faint, ms.title) + 2
		a.text(x, i, plain, ms.now(&b))
	}
}

// heading names the load, and says whose its curves are. Where there is no room for all, what the load does is left out.
func heading(a area, v *view, l *Load) {
	x := a.text(0, 0, bold, l.Name) + 1
	if l.Error != "" {
		a.text(x, 0, bad, l.Error)
		return
	}
	text := ""
	if l.Info != nil {
		text = traits(l)
	}
	if l.Ended {
		text += " ended"
	}
	for _, full := range []bool{true, false} {
		names := v.legend(full)
		if x+columns(text)+2+columns(strings.Join(names, "  ")) <= a.w {
			a.text(x, 0, faint, text)
			drawLegend(a, x, v, names)
			return
		}
	}
	drawLegend(a, x, v, v.legend(false))
}

// maxBehind is how many earlier subjects are seen behind the one at hand: more cannot be told apart.
const maxBehind = 7

// shown are the subjects whose curves are drawn, the one at hand last.
func (v *view) shown() []*Subject {
	all := v.state.Subjects
	return all[max(len(all)-1-maxBehind, 0):]
}

// legend names the curves: those of earlier subjects, and full, that of the one at hand too, which stands last.
func (v *view) legend(full bool) []string {
	var names []string
	subjects := v.shown()
	for i, sub := range subjects {
		mark := "━"
		if i < len(subjects)-1 && !v.coloured {
			mark = string(letterOf(sub.Number))
		}
		if full {
			names = append(names, mark+" "+sub.Name())
		} else if i < len(subjects)-1 {
			names = append(names, mark+" "+shortName(sub.ID.Proxier))
		}
	}
	if full && len(names) < 2 {
		return nil
	}
	return names
}

// shortName is a proxier's name for where there is little room.
func shortName(proxier string) string { return strings.Replace(proxier, "kube-proxy/", "kp/", 1) }

// drawLegend writes names at the right; where there is no room for all, the earliest are left out.
func drawLegend(a area, from int, v *view, names []string) {
	first := 0
	for len(names) > 0 && from+columns(strings.Join(names, "  ")) > a.w {
		names, first = names[1:], first+1
	}
	x := a.w - columns(strings.Join(names, "  "))
	for i, name := range names {
		x += a.text(x, 0, subjectStyle(v.shown()[first+i].Number), name) + 2
	}
}

func letterOf(number int) rune { return rune('a' + number%26) }

// curves are those of a load under all subjects, the one at hand in front.
func curves(v *view, name string, ms measure) (list []curve, gap float64) {
	subjects := v.shown()
	for i, sub := range subjects {
		at := slices.IndexFunc(sub.Loads, func(l *Load) bool { return l.Name == name })
		if at < 0 {
			continue
		}
		s := sub.Loads[at].Series
		gap = max(gap, 3.5*s.width)
		c := curve{style: subjectStyle(sub.Number)}
		if i < len(subjects)-1 {
			c.letter = letterOf(sub.Number)
		} else if ms.second != nil {
			list = append(list, curve{points: pointsOf(v, s, ms.second), style: faint})
		}
		c.points = pointsOf(v, s, ms.value)
		list = append(list, c)
	}
	return list, gap
}

// pointsOf reads the values of a series. Where that takes longer than a frame may, the rest is left to the next.
func pointsOf(v *view, s *series, value func(*bucket) (float64, bool)) []point {
	var points []point
	for i := range s.buckets {
		b := &s.buckets[i]
		if len(b.todo) > 0 && v.until() {
			v.again = true
			continue
		}
		if y, ok := value(b); ok {
			points = append(points, point{(float64(i) + 0.5) * s.width, y})
		}
	}
	return points
}

// traits say what a load does: "http 150/s, new connections".
func traits(l *Load) string {
	i := l.Info
	text := i.Kind
	switch {
	case i.Kind == "hold" || i.Kind == "stream":
		text += fmt.Sprintf(" %d connections", max(i.Count, 1))
	case i.RatePerSec > 0:
		text += " " + units.Rate(i.RatePerSec)
	}
	if i.Connections != "" && i.Kind != "hold" && i.Kind != "connect" {
		text += ", " + i.Connections
	}
	return text
}

// loadsOf are the loads of a subject that go through the proxier, by the order of their start, as far as they pass the filter.
func (v *view) loadsOf(sub *Subject, direct bool) []*Load {
	var list []*Load
	for _, l := range sub.Loads {
		if (direct || !l.direct()) && matches(v.filter, l.Name) {
			list = append(list, l)
		}
	}
	return list
}

// chosen is the index of the chosen load in a list.
func (v *view) chosen(list []*Load) int {
	return max(slices.IndexFunc(list, func(l *Load) bool { return l.Name == v.load }), 0)
}

// choose moves the choice by a number of loads.
func (v *view) choose(list []*Load, by int) {
	if len(list) == 0 {
		return
	}
	v.load = list[min(max(v.chosen(list)+by, 0), len(list)-1)].Name
}
