package chart

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bar is one value with its name.
type Bar struct {
	Name  string
	Hue   Hue
	Value float64
	Text  string // of the value; empty: as the unit has it
}

// Bars are values below each other, from 0.
type Bars struct {
	ID, Title, Note string
	Bars            []Bar
	Unit            Unit
	Column          string // what the values are, for the table
}

const barHeight = 38

// Draw draws them.
func (b Bars) Draw() (*Figure, error) {
	f := &Figure{ID: b.ID, Title: b.Title, Note: b.Note}
	f.Table.Columns = []string{"", b.Column}
	for _, one := range b.Bars {
		f.Table.Rows = append(f.Table.Rows, []string{one.Name, b.text(one)})
	}
	var err error
	f.Wide, f.Narrow, err = both(b.ID, b.Title, b.Note+" The table below the chart has the figures.",
		func(bool) float64 { return barHeight*float64(len(b.Bars)) + 4 }, b.paint)
	return f, err
}

func (b Bars) text(one Bar) string {
	if one.Text != "" {
		return one.Text
	}
	return b.Unit.Format(one.Value)
}

func (b Bars) paint(c *canvas) (*plot.Plot, error) {
	p := c.bare()
	most := 0.0
	for _, one := range b.Bars {
		most = max(most, one.Value)
	}
	if most <= 0 {
		most = 1
	}
	rows(p, len(b.Bars))
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, most, ticks{}
	p.Add(edge{})
	for i, one := range b.Bars {
		p.Add(bar{one, i, len(b.Bars), c, one.Name + ": " + b.text(one)})
	}
	return p, nil
}

type bar struct {
	b     Bar
	i, of int
	c     *canvas
	label string
}

func (b bar) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	top, bottom := y(float64(b.of-b.i)), y(float64(b.of-b.i-1))
	onGround(&c, b.c, vg.Point{X: c.Min.X, Y: top - 2}, b.label)
	block(&c, line, c.Min.X, c.Max.X, bottom+6, bottom+16)
	if b.b.Value > 0 {
		block(&c, b.b.Hue.color(), c.Min.X, max(x(b.b.Value), c.Min.X+1.5), bottom+6, bottom+16)
	}
}

func block(c *draw.Canvas, ink interface{ RGBA() (r, g, b, a uint32) }, left, right, bottom, top vg.Length) {
	c.FillPolygon(ink, []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
}
