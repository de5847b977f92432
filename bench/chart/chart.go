// Package chart draws the charts of the web page and of the HTML report, as SVG: curves over time, distributions, bars
// and shares.
//
// A chart is drawn twice, for a page and for a phone, because text that shrinks with a chart cannot be read. Its colours are
// variables of the page's style sheet (Variables), so that it follows dark and light. What it shows, its Table says in text.
package chart

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is a chart that has been drawn.
type Figure struct {
	ID    string // for an element of a page
	Title string
	Note  string // a sentence on how to read it; may be empty

	Wide, Narrow template.HTML // the same as SVG, for about 560 and 340 pixels
	Legend       []Key         // empty: everything is named in the chart
	Table        Table
}

// Key is one line of a legend.
type Key struct {
	Name string
	Hue  Hue
	Thin bool
}

// Width is how thick its line is, in pixels.
func (k Key) Width() string {
	if k.Thin {
		return "1"
	}
	return "3"
}

// Table is what a chart shows, in text.
type Table struct {
	Columns []string
	Rows    [][]string // each as long as Columns; the first cell is the row's name
	Note    string     // what the table leaves out; may be empty
}

// Sizes of the two drawings, in pixels; the height of some depends on how much there is to show.
const (
	wideWidth   = 560
	narrowWidth = 340
	lineHeight  = 230
)

// canvas is one drawing of a chart.
type canvas struct {
	width, height float64
	narrow        bool
	fonts         text.Plain
}

// style is a text style in the size of the chart's small print.
func (c *canvas) style(ink color.Color, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color:   ink,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: 12},
		XAlign:  x,
		YAlign:  y,
		Handler: c.fonts,
	}
}

// textWidth is how long a text is, about: the page has a font of its own.
func (c *canvas) textWidth(s string) float64 {
	w, _, _ := c.fonts.Box(s, c.style(ink, 0, 0).Font)
	return w.Points()
}

// both draws a chart in both sizes.
func both(id, title, desc string, height func(narrow bool) float64, paint func(*canvas) (*plot.Plot, error)) (wide, narrow template.HTML, err error) {
	for _, c := range []*canvas{{width: wideWidth}, {width: narrowWidth, narrow: true}} {
		c.height = height(c.narrow)
		c.fonts = text.Plain{Fonts: font.NewCache(liberation.Collection())}
		p, err := paint(c)
		if err != nil {
			return "", "", fmt.Errorf("draw %q: %w", title, err)
		}
		var out bytes.Buffer
		vc := vgsvg.NewWith(vgsvg.UseWH(vg.Length(c.width), vg.Length(c.height)))
		p.Draw(draw.New(vc))
		if _, err := vc.WriteTo(&out); err != nil {
			return "", "", fmt.Errorf("draw %q: %w", title, err)
		}
		if c.narrow {
			narrow = dress(out.String(), id+"-narrow", "narrow", title, desc, c)
		} else {
			wide = dress(out.String(), id+"-wide", "wide", title, desc, c)
		}
	}
	return wide, narrow, nil
}

// bare is a plot without a frame, with text in the style of all charts.
func (c *canvas) bare() *plot.Plot {
	p := plot.New()
	p.TextHandler = c.fonts
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Padding = 6 // between the drawing and the labels
		a.LineStyle.Width = 0
		a.Tick.Length = 0
		a.Tick.LineStyle.Width = 0
		x, y := a.Tick.Label.XAlign, a.Tick.Label.YAlign
		a.Tick.Label = c.style(ink, x, y)
		a.Label.TextStyle = c.style(ink, text.XCenter, text.YTop)
	}
	p.X.Tick.Label.YAlign = text.YTop
	return p
}

// ticks are set places on an axis.
type ticks []plot.Tick

func (t ticks) Ticks(float64, float64) []plot.Tick { return t }
