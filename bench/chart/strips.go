package chart

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"proxylab/bench/stats"
)

// Strip is the samples of one thing in a distribution.
type Strip struct {
	Name   string
	Hue    Hue
	Values []float64 // those of 0 and less are not drawn
}

// Strips are distributions below each other, on one logarithmic axis: each sample a dot, the median and the 99th
// percentile a line.
type Strips struct {
	ID, Title, Note string
	Strips          []Strip
	Unit            Unit
}

const (
	stripHeight = 46
	maxDots     = 160 // of a strip with more samples these many evenly spaced quantiles are drawn
)

// Draw draws them.
func (s Strips) Draw() (*Figure, error) {
	f := &Figure{ID: s.ID, Title: s.Title, Note: s.Note}
	f.Table.Columns = []string{"", "samples", "least", "p50", "p90", "p99", "most"}
	for _, one := range s.Strips {
		d, ok := stats.OfSamples(one.Values)
		if !ok {
			f.Table.Rows = append(f.Table.Rows, []string{one.Name, "0", "–", "–", "–", "–", "–"})
			continue
		}
		row := []string{one.Name, fmt.Sprint(d.Count)}
		for _, v := range []float64{d.Min, d.P50, d.P90, d.P99, d.Max} {
			row = append(row, s.Unit.Format(v))
		}
		f.Table.Rows = append(f.Table.Rows, row)
	}
	var err error
	f.Wide, f.Narrow, err = both(s.ID, s.Title, s.Note+" Dots are samples, the long stroke is the median, the short one p99.",
		func(bool) float64 { return stripHeight*float64(len(s.Strips)) + 26 }, s.paint)
	return f, err
}

func (s Strips) paint(c *canvas) (*plot.Plot, error) {
	p := c.bare()
	low, high := math.Inf(1), math.Inf(-1)
	for _, one := range s.Strips {
		for _, v := range one.Values {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if math.IsInf(low, 0) {
		low, high = 0.001, 1
	}
	a := logAxis(low, high, s.Unit)
	p.X.Scale = plot.LogScale{}
	p.X.Min, p.X.Max, p.X.Tick.Marker = a.min, a.max, thinned(a.ticks, c)
	rows(p, len(s.Strips))
	p.Add(columnsGrid{a.ticks}, edge{})
	for i, one := range s.Strips {
		p.Add(strip{one, i, len(s.Strips), c, s.Unit})
	}
	return p, nil
}

// thinned leaves out labels that a narrow drawing has no room for.
func thinned(all ticks, c *canvas) ticks {
	room := 10
	if c.narrow {
		room = 5
	}
	if len(all) <= room {
		return all
	}
	every := (len(all) + room - 1) / room
	out := slices.Clone(all)
	for i := range out {
		if i%every != 0 {
			out[i].Label = ""
		}
	}
	return out
}

// rows makes the vertical axis one of n rows, the first on top; rows are named in the drawing.
func rows(p *plot.Plot, n int) {
	p.Y.Min, p.Y.Max = 0, float64(max(n, 1))
	p.Y.Tick.Marker = ticks{}
}

// columnsGrid is a line up for each tick.
type columnsGrid struct{ at ticks }

func (g columnsGrid) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, t := range g.at {
		c.StrokeLine2(draw.LineStyle{Color: line, Width: 1}, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
}

// edge keeps room for what sticks out at the sides.
type edge struct{}

func (edge) Plot(draw.Canvas, *plot.Plot) {}

func (edge) GlyphBoxes(*plot.Plot) []plot.GlyphBox {
	return []plot.GlyphBox{
		{X: 1, Y: 0.5, Rectangle: vg.Rectangle{Max: vg.Point{X: 10}}},
		{X: 0, Y: 0.5, Rectangle: vg.Rectangle{Min: vg.Point{X: -2}}},
	}
}

type strip struct {
	s     Strip
	i, of int
	c     *canvas
	unit  Unit
}

func (s strip) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	top, bottom := y(float64(s.of-s.i)), y(float64(s.of-s.i-1))
	middle := bottom + (top-bottom)*0.32
	label := s.s.Name
	d, ok := stats.OfSamples(s.s.Values)
	if ok {
		label += fmt.Sprintf(": p50 %s, p99 %s", s.unit.Format(d.P50), s.unit.Format(d.P99))
	} else {
		label += ": no samples"
	}
	onGround(&c, s.c, vg.Point{X: c.Min.X, Y: top - 3}, label)
	if !ok {
		return
	}
	for k, v := range dots(s.s.Values) {
		if v > 0 {
			jitter := vg.Length(float64(k*7%11)-5) * 0.9 // the same each time
			disc(&c, s.s.Hue.faint(), vg.Point{X: x(v), Y: middle + jitter}, 2.4)
		}
	}
	for _, q := range []struct {
		at     float64
		height vg.Length
	}{{d.P50, 10}, {d.P99, 6}} {
		if q.at > 0 {
			c.StrokeLine2(draw.LineStyle{Color: s.s.Hue.color(), Width: 2.4}, x(q.at), middle-q.height, x(q.at), middle+q.height)
		}
	}
}

// onGround writes on a ground of the page's, so that the grid does not run through the letters.
func onGround(c *draw.Canvas, size *canvas, topLeft vg.Point, label string) {
	w := vg.Length(size.textWidth(label)) + 4
	c.FillPolygon(ground, []vg.Point{topLeft, {X: topLeft.X + w, Y: topLeft.Y}, {X: topLeft.X + w, Y: topLeft.Y - 15}, {X: topLeft.X, Y: topLeft.Y - 15}})
	c.FillText(size.style(ink, text.XLeft, text.YTop), topLeft, label)
}

// dots are the samples, or evenly spaced quantiles of them where there are many.
func dots(values []float64) []float64 {
	v := slices.Clone(values)
	slices.Sort(v)
	if len(v) <= maxDots {
		return v
	}
	out := make([]float64, maxDots)
	for i := range out {
		out[i] = v[i*(len(v)-1)/(maxDots-1)]
	}
	return out
}

func disc(c *draw.Canvas, ink interface{ RGBA() (r, g, b, a uint32) }, at vg.Point, r vg.Length) {
	c.SetColor(ink)
	var p vg.Path
	p.Move(vg.Point{X: at.X + r, Y: at.Y})
	p.Arc(at, r, 0, 2*math.Pi)
	p.Close()
	c.Fill(p)
}
