package tui

// pane is a part of a frame that is kept until what it shows has changed.
type pane struct {
	of     any // what it was drawn of
	canvas *canvas
}

// pane draws a part of the frame that takes long to draw, or shows it as it was drawn before, where it was drawn of the same: of is
// comparable and holds all that draw goes by. A part that was not done in time is drawn again.
func (v *view) pane(a area, name string, of any, draw func(area)) {
	if v.panes == nil {
		v.panes = map[string]*pane{}
	}
	p := v.panes[name]
	if p == nil || p.canvas.w != a.w || p.canvas.h != a.h {
		p = &pane{canvas: newCanvas(a.w, a.h)}
		v.panes[name] = p
	}
	if p.of == nil || p.of != of {
		before := v.again
		v.again = false
		p.canvas.clear()
		draw(p.canvas.all())
		if p.of = of; v.again {
			p.of = nil
		}
		v.again = v.again || before
	}
	a.paste(p.canvas)
}

// paste copies a canvas of the area's own size.
func (a area) paste(from *canvas) {
	for y := range from.h {
		at := (a.y+y)*a.c.w + a.x
		copy(a.c.cells[at:at+from.w], from.cells[y*from.w:(y+1)*from.w])
	}
}

// chartsOf is all that the charts of a load go by.
type chartsOf struct {
	load     *Load
	version  int // of the load
	subjects int
	marks    int
	ended    bool // the subject
	second   int64
	zoom     int
	coloured bool
}

// drawLoad draws the charts of a load, anew when it has reported, and once a second, as time goes on.
func drawLoad(a area, v *view, l *Load) {
	cur := v.state.Current()
	of := chartsOf{load: l, version: l.version, subjects: len(v.state.Subjects), marks: len(cur.Marks), ended: !cur.Ended.IsZero(),
		second: v.now.Unix(), zoom: v.zoom, coloured: v.coloured}
	v.pane(a, "load "+l.Name, of, func(a area) { drawCharts(a, v, l) })
}
