package chart

import (
	"math"

	"proxylab/bench/units"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Series is a curve.
type Series struct {
	Name string
	Hue  Hue
	Thin bool      // of what others are compared with
	X, Y []float64 // in order of X; a Y that is no number leaves a gap
}

// Mark is a moment on the time axis, such as a step of a scenario.
type Mark struct {
	At    float64
	Label string // short; marks that would lie over each other get one label
}

// Lines are curves over time.
type Lines struct {
	ID, Title, Note string
	Series          []Series
	Marks           []Mark
	Unit            Unit
	Log             bool // a logarithmic axis, for what spans several magnitudes; values of 0 and less are gaps
}

// Draw draws them. It fails when nothing can be drawn.
func (l Lines) Draw() (*Figure, error) {
	f := &Figure{ID: l.ID, Title: l.Title, Note: l.Note, Table: l.table()}
	for _, s := range l.Series {
		f.Legend = append(f.Legend, Key{s.Name, s.Hue, s.Thin})
	}
	var err error
	f.Wide, f.Narrow, err = both(l.ID, l.Title, l.Note+" The table below the chart has the figures.",
		func(bool) float64 { return lineHeight }, l.paint)
	return f, err
}

func (l Lines) paint(c *canvas) (*plot.Plot, error) {
	p := c.bare()
	low, high, end := l.bounds()
	axis := linearAxis(low, high, l.Unit)
	if l.Log {
		axis = logAxis(low, high, l.Unit)
		p.Y.Scale = plot.LogScale{}
	}
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = axis.min, axis.max, axis.ticks
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, end, timeTicks(end, c.narrow)
	p.Add(grid{axis.ticks}, markers{l.Marks, c})
	for _, s := range l.Series {
		p.Add(curve{s, l.Log})
	}
	return p, nil
}

// bounds are what the axes must hold.
func (l Lines) bounds() (low, high, end float64) {
	low, high, end = math.Inf(1), math.Inf(-1), 1
	for _, s := range l.Series {
		for i, y := range s.Y {
			end = max(end, s.X[i])
			if math.IsNaN(y) || l.Log && y <= 0 {
				continue
			}
			low, high = min(low, y), max(high, y)
		}
	}
	if math.IsInf(low, 0) { // nothing yet
		low, high = 0.001, 1
	}
	return low, high, end
}

// grid is a line across for each tick that has a label.
type grid struct{ at ticks }

func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, t := range g.at {
		if t.Label != "" {
			c.StrokeLine2(draw.LineStyle{Color: line, Width: 1}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
		}
	}
}

// markers are lines down at moments, with their labels on top where there is room.
type markers struct {
	list []Mark
	c    *canvas
}

func (m markers) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	free := vg.Length(math.Inf(-1))
	sty := m.c.style(soft, text.XCenter, text.YTop)
	sty.Font.Size = 11
	for _, mark := range m.list {
		at := x(mark.At)
		if mark.At < p.X.Min || mark.At > p.X.Max {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: soft, Width: 0.8, Dashes: []vg.Length{1, 3}}, at, c.Min.Y, at, c.Max.Y)
		half := vg.Length(m.c.textWidth(mark.Label)) / 2
		if at-half > free {
			c.FillText(sty, vg.Point{X: at, Y: c.Max.Y + 14}, mark.Label)
			free = at + half + 3
		}
	}
}

// GlyphBoxes keep room above for the labels.
func (m markers) GlyphBoxes(p *plot.Plot) []plot.GlyphBox {
	return []plot.GlyphBox{
		{X: 0.5, Y: 1, Rectangle: vg.Rectangle{Max: vg.Point{Y: 16}}},
		{X: 1, Y: 0.5, Rectangle: vg.Rectangle{Max: vg.Point{X: 8}}},
	}
}

type curve struct {
	s   Series
	log bool
}

func (k curve) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := draw.LineStyle{Color: k.s.Hue.color(), Width: 1.8}
	if k.s.Thin {
		style.Width = 0.8
	}
	if k.s.Hue.Dashed() {
		style.Dashes = []vg.Length{5, 2.5}
	}
	var run []vg.Point
	flush := func() {
		if len(run) == 1 { // a lonely value is to be seen as well
			c.FillPolygon(style.Color, square(run[0], 1.5))
		}
		c.StrokeLines(style, run)
		run = nil
	}
	for i, v := range k.s.Y {
		if math.IsNaN(v) || k.log && v <= 0 {
			flush()
			continue
		}
		run = append(run, vg.Point{X: x(k.s.X[i]), Y: y(v)})
	}
	flush()
}

func square(at vg.Point, r vg.Length) []vg.Point {
	return []vg.Point{{X: at.X - r, Y: at.Y - r}, {X: at.X + r, Y: at.Y - r}, {X: at.X + r, Y: at.Y + r}, {X: at.X - r, Y: at.Y + r}}
}

// tableRows is how many rows a table of curves has at most.
const tableRows = 48

func (l Lines) table() Table {
	t := Table{Columns: []string{"time"}}
	at := map[float64]bool{}
	var times []float64
	for _, s := range l.Series {
		t.Columns = append(t.Columns, s.Name)
		for _, x := range s.X {
			if !at[x] {
				at[x] = true
				times = append(times, x)
			}
		}
	}
	times = sorted(times)
	every := (len(times) + tableRows - 1) / tableRows
	if every > 1 {
		t.Note = "One in " + units.Number(float64(every)) + " values; the log has them all."
	}
	for i := 0; i < len(times); i += max(every, 1) {
		row := []string{Seconds.Format(times[i])}
		for _, s := range l.Series {
			row = append(row, l.at(s, times[i]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (l Lines) at(s Series, x float64) string {
	for i := range s.X {
		if s.X[i] == x && !math.IsNaN(s.Y[i]) {
			return l.Unit.Format(s.Y[i])
		}
	}
	return "–"
}
