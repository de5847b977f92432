package tui

import (
	"math"

	plot "github.com/NimbleMarkets/ntcharts/canvas"
	"github.com/NimbleMarkets/ntcharts/canvas/graph"
)

// curve is one line of a chart.
type curve struct {
	points []point
	style  style
	letter rune // stands for the curve where there is no colour to tell it by; 0: it is the one in front
}

type point struct{ x, y float64 }

// chart is curves over time.
type chart struct {
	curves   []curve // those behind first
	xMin     float64 // seconds
	xMax     float64
	log      bool // the vertical axis is logarithmic
	format   func(float64) string
	gap      float64 // seconds without a point over which no line is drawn
	minimum  float64 // log: what the axis begins at, at least
	atLeast  float64 // linear: what the axis goes to, at least
	coloured bool
}

// axisWidth is what the labels of a vertical axis take, with the axis.
const axisWidth = 7

// draw draws the chart with its vertical axis.
func (ch *chart) draw(a area) {
	if a.w < axisWidth+4 || a.h < 1 {
		return
	}
	low, high := ch.span()
	inner := a.sub(axisWidth, 0, a.w-axisWidth, a.h)
	for y := range a.h {
		a.set(axisWidth-1, y, '│', frame)
	}
	ch.labels(a, low, high)
	for _, c := range ch.curves {
		if c.letter != 0 && !ch.coloured {
			ch.scatter(inner, c, low, high)
		} else {
			ch.line(inner, c, low, high)
		}
	}
}

// labels writes the values along the vertical axis: its ends, and between them the middle or, of a logarithmic one, the
// decades, as far as they have a line of their own.
func (ch *chart) labels(a area, low, high float64) {
	heights := []float64{high, low}
	if ch.log {
		for d := high - 1; d > low; d-- {
			heights = append(heights, d)
		}
	} else if a.h >= 5 && a.h%2 == 1 {
		heights = append(heights, (low+high)/2)
	}
	taken := map[int]bool{}
	for _, h := range heights {
		y := int(math.Round((high - h) / (high - low) * float64(a.h-1)))
		if !taken[y] {
			a.right(axisWidth-1, y, faint, ch.format(ch.value(h)))
		}
		taken[y] = true
	}
}

// value is what a height stands for.
func (ch *chart) value(height float64) float64 {
	if ch.log {
		return math.Pow(10, height)
	}
	return height
}

func (ch *chart) height(value float64) float64 {
	if ch.log {
		return math.Log10(max(value, 1e-9))
	}
	return value
}

// span is the least and the largest height of the vertical axis.
func (ch *chart) span() (low, high float64) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, c := range ch.curves {
		for _, p := range c.points {
			if p.x >= ch.xMin {
				least, most = min(least, p.y), max(most, p.y)
			}
		}
	}
	if !ch.log {
		return 0, ceiling(max(most, ch.atLeast))
	}
	if math.IsInf(least, 1) {
		least, most = ch.minimum, ch.minimum*10
	}
	low = math.Floor(math.Log10(max(least, ch.minimum)))
	return low, max(math.Ceil(math.Log10(max(most, ch.minimum))), low+1)
}

// ceiling is the next round number: 1, 2, 2.5 or 5 with zeros.
func ceiling(v float64) float64 {
	if v <= 0 || math.IsInf(v, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 2.5, 5} {
		if v <= f*unit*1.0001 {
			return f * unit
		}
	}
	return 10 * unit
}

func (ch *chart) line(a area, c curve, low, high float64) {
	grid := graph.NewBrailleGrid(a.w, a.h, ch.xMin, max(ch.xMax, ch.xMin+1), low, high)
	var before *plot.Point
	last := math.Inf(-1)
	for _, p := range c.points {
		if p.x < ch.xMin || p.x > ch.xMax {
			continue
		}
		at := grid.GridPoint(plot.Float64Point{X: p.x, Y: min(max(ch.height(p.y), low), high)})
		at.X, at.Y = min(max(at.X, 0), 2*a.w-1), min(max(at.Y, 0), 4*a.h-1)
		grid.Set(at)
		if before != nil && p.x-last <= ch.gap {
			for _, between := range graph.GetLinePoints(*before, at) {
				grid.Set(between)
			}
		}
		before, last = &at, p.x
	}
	for y, row := range grid.BraillePatterns() {
		for x, r := range row {
			if r != 0 && r != '\u2800' {
				a.set(x, y, r, c.style)
			}
		}
	}
}

// scatter draws a curve with its letter.
func (ch *chart) scatter(a area, c curve, low, high float64) {
	for _, p := range c.points {
		if p.x < ch.xMin || p.x > ch.xMax {
			continue
		}
		x := int((p.x - ch.xMin) / max(ch.xMax-ch.xMin, 1) * float64(a.w-1))
		y := int(math.Round((high - min(max(ch.height(p.y), low), high)) / (high - low) * float64(a.h-1)))
		a.set(x, y, c.letter, c.style)
	}
}

// drawTime draws a time axis with its marks, and below it what they stand for. It takes two lines.
func drawTime(a area, xMin, xMax float64, marks []Mark, format func(float64) string) {
	plot := a.sub(axisWidth, 0, a.w-axisWidth, 2)
	if plot.w < 4 {
		return
	}
	a.set(axisWidth-1, 0, '└', frame)
	plot.line(0, '─', frame)
	free := 0 // first column of the labels that is free
	ending := format(xMax)
	limit := plot.w - len([]rune(ending)) - 1
	if len(marks) == 0 || plot.columnAt(marks[0].At, xMin, xMax) > len(format(xMin))+1 {
		free = plot.text(0, 1, faint, format(xMin)) + 1
	}
	for _, m := range marks {
		if m.At < xMin || m.At > xMax {
			continue
		}
		x := plot.columnAt(m.At, xMin, xMax)
		plot.set(x, 0, '▲', warn)
		if w := columns(m.Text); x >= free && x+w <= limit {
			free = x + plot.text(x, 1, warn, m.Text) + 1
		}
	}
	plot.right(plot.w, 1, faint, ending)
}

// columnAt is the column of a moment.
func (a area) columnAt(at, xMin, xMax float64) int {
	return min(int((at-xMin)/max(xMax-xMin, 1)*float64(a.w-1)), a.w-1)
}

// sparkline is the latest values as one line of blocks, of a height relative to top.
func sparkline(values []float64, top float64) string {
	blocks := []rune("▁▂▃▄▅▆▇█")
	out := make([]rune, 0, len(values))
	for _, v := range values {
		i := 0
		if top > 0 {
			i = int(math.Round(v / top * float64(len(blocks)-1)))
		}
		out = append(out, blocks[min(max(i, 0), len(blocks)-1)])
	}
	return string(out)
}

// bar is a share of a width.
func (a area) bar(x, y, width int, share float64, s style) {
	eighths := []rune(" ▏▎▍▌▋▊▉█")
	full := min(max(share, 0), 1) * float64(width)
	for i := range width {
		part := min(max(full-float64(i), 0), 1)
		if r := eighths[int(math.Round(part*8))]; r != ' ' {
			a.set(x+i, y, r, s)
		} else {
			a.set(x+i, y, '·', frame)
		}
	}
}
