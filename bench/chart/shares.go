package chart

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Division is how one whole is divided.
type Division struct {
	Name  string
	Hue   Hue
	Parts []int64
}

// Shares are wholes below each other, each divided into its parts, the largest first.
type Shares struct {
	ID, Title, Note string
	Part            string // what a part is, for the table: "pod"
	Divisions       []Division
}

// Draw draws them.
func (s Shares) Draw() (*Figure, error) {
	f := &Figure{ID: s.ID, Title: s.Title, Note: s.Note}
	f.Table.Columns = []string{"", s.Part + "s", "largest share", "smallest share", "shares"}
	for _, d := range s.Divisions {
		parts := shares(d)
		if len(parts) == 0 {
			f.Table.Rows = append(f.Table.Rows, []string{d.Name, "–", "–", "–", "–"})
			continue
		}
		all := ""
		for i, p := range parts {
			if i > 0 {
				all += " "
			}
			all += Share.Format(p)
		}
		f.Table.Rows = append(f.Table.Rows, []string{d.Name, fmt.Sprint(len(parts)), Share.Format(parts[0]), Share.Format(parts[len(parts)-1]), all})
	}
	var err error
	f.Wide, f.Narrow, err = both(s.ID, s.Title, s.Note+" The table below the chart has the shares.",
		func(bool) float64 { return barHeight*float64(len(s.Divisions)) + 4 }, s.paint)
	return f, err
}

// shares are the parts of a whole, the largest first.
func shares(d Division) []float64 {
	var sum float64
	for _, n := range d.Parts {
		sum += float64(n)
	}
	var out []float64
	for _, n := range d.Parts {
		if n > 0 {
			out = append(out, float64(n)/sum)
		}
	}
	slices.SortFunc(out, func(a, b float64) int {
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return out
}

func (s Shares) paint(c *canvas) (*plot.Plot, error) {
	p := c.bare()
	rows(p, len(s.Divisions))
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, 1, ticks{}
	p.Add(edge{})
	for i, d := range s.Divisions {
		p.Add(division{d, i, len(s.Divisions), s.Part, c})
	}
	return p, nil
}

type division struct {
	d     Division
	i, of int
	part  string
	c     *canvas
}

func (d division) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	top, bottom := y(float64(d.of-d.i)), y(float64(d.of-d.i-1))
	parts := shares(d.d)
	label := d.d.Name + ": nothing is known"
	if n := len(parts); n == 1 {
		label = d.d.Name + ": 1 " + d.part
	} else if n > 1 {
		label = fmt.Sprintf("%s: %d %ss, %s to %s", d.d.Name, n, d.part, Share.Format(parts[n-1]), Share.Format(parts[0]))
	}
	onGround(&c, d.c, vg.Point{X: c.Min.X, Y: top - 2}, label)
	at := 0.0
	for i, share := range parts {
		left, right := x(at), x(at+share)
		if right-left > 2 {
			right-- // a gap between neighbours
		}
		ink := d.d.Hue.color()
		if i%2 == 1 {
			ink = d.d.Hue.faint()
		}
		block(&c, ink, left, right, bottom+6, bottom+16)
		at += share
	}
}
