package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"proxylab/bench/events"
)

// callRows are the operations of the API, the most frequent first, and which of them have failed at times.
func callRows(v *view, b *Balancers) (rows [][]string, failed []bool) {
	rows, failed = [][]string{{"OPERATION", "CALLS", "P50", "P99", "FAILED"}}, []bool{false}
	for _, name := range b.operations() {
		if !matches(v.filter, name) {
			continue
		}
		c := b.Calls[name]
		rows = append(rows, []string{name, fmt.Sprint(c.Count), seconds(c.quantile(50)), seconds(c.quantile(99)), fmt.Sprint(c.Failed)})
		failed = append(failed, c.Failed > 0)
	}
	return rows, failed
}

// callsRight are the columns of callRows that hold figures.
var callsRight = []bool{1: true, 2: true, 3: true, 4: true}

// timed is a line about a moment.
type timed struct {
	heading bool
	at      string
	text    string
	right   string
	st      style
}

func (l timed) draw(a area) {
	if l.heading {
		a.text(0, 0, bold, l.text)
		return
	}
	x := a.text(0, 0, faint, l.at) + 1
	room := max(a.w-columns(l.right)-1, 0)
	a.sub(0, 0, room, 1).text(x, 0, l.st, l.text)
	a.right(a.w, 0, bold, l.right)
}

// timeLines are what took its time, or went wrong, the latest first: Services published, failovers, faults. Parts that have nothing
// to say are left out.
func timeLines(v *view, b *Balancers) []timed {
	lines := publishedLines(v, b)
	for i, f := range slices.Backward(b.Failovers) {
		if i == len(b.Failovers)-1 {
			lines = append(lines, timed{heading: true, text: "Failovers: the VIPs served again after"})
		}
		lines = append(lines, failoverLine(v, f))
	}
	for i, f := range slices.Backward(b.Faults) {
		if i == len(b.Faults)-1 {
			lines = append(lines, timed{heading: true, text: "Faults"})
		}
		lines = append(lines, timed{at: v.clock(f.At), text: faultText(f.LBFault), st: warn})
	}
	return slices.DeleteFunc(lines, func(l timed) bool { return !l.heading && !matches(v.filter, l.text) })
}

func publishedLines(v *view, b *Balancers) (lines []timed) {
	if len(b.Published) == 0 {
		return nil
	}
	lines = append(lines, timed{heading: true, text: "Published: first byte through the VIP after"})
	for _, p := range slices.Backward(b.Published) {
		lines = append(lines, timed{at: v.clock(p.At), text: publishedText(p.LBPublished), right: seconds(p.Seconds), st: plain})
		if p.Error != "" {
			last := &lines[len(lines)-1]
			last.right, last.st = "> "+last.right, bad
		}
	}
	return lines
}

func publishedText(p *events.LBPublished) string {
	text := p.Service
	if !p.Created {
		text += " changed"
	}
	if p.Address != "" {
		text += " " + p.Address
	}
	if p.AddressSeconds != nil {
		text += ", address " + seconds(*p.AddressSeconds)
	}
	if p.Error != "" {
		text += ": " + oneLine(p.Error)
	}
	return text
}

// faultText says once what happened: some words say it again.
func faultText(f *events.LBFault) string {
	verb, about, _ := strings.Cut(oneLine(f.Text), " ")
	if verb != f.What && verb != "strike" {
		about = oneLine(f.Text)
	}
	return strings.TrimSuffix(f.Name+" "+f.What+": "+about, ": ")
}

func failoverLine(v *view, f Failover) timed {
	text := f.From + " → " + cmp.Or(f.To, "none")
	if f.Reason != "" {
		text += ", " + f.Reason
	}
	if f.FlowsLost != nil {
		text += fmt.Sprintf(", flows lost %d", *f.FlowsLost)
	}
	if f.FlowsKept != nil {
		text += fmt.Sprintf(", kept %d", *f.FlowsKept)
	}
	l := timed{at: v.clock(f.At), text: text, right: seconds(f.Seconds), st: plain}
	if f.To == "" {
		l.right, l.st = "", bad
	}
	return l
}

// drawCallsAndTimes is the side of the tree, where there is room for it: the operations as far as half of it, and below what took
// its time.
func drawCallsAndTimes(a area, v *view, b *Balancers) {
	rows, failed := callRows(v, b)
	times := timeLines(v, b)
	most := max(a.h-len(times)-1, a.h/2)
	a.text(0, 0, bold, "API calls")
	hidden := 0
	if len(rows)+1 > most {
		hidden = len(rows) - most + 2
		rows = rows[:max(most-2, 1)]
	}
	drawTable(a.sub(0, 1, a.w, most), rows, callsRight, markedRows(failed))
	y := len(rows) + 1
	if hidden > 0 {
		a.text(0, y, faint, fmt.Sprintf("… %d more operations", hidden))
		y++
	}
	y++
	for i, l := range times {
		if y+i == a.h-1 && len(times)-i > 1 {
			a.text(0, y+i, faint, fmt.Sprintf("… %d more", len(times)-i))
			return
		}
		l.draw(a.sub(0, y+i, a.w, 1))
	}
}
