package tui

import (
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// canvas is a grid of characters that a frame is drawn on. What would lie outside is not drawn, so that a frame is never
// wider nor higher than its terminal.
type canvas struct {
	w, h  int
	cells []cell
}

type cell struct {
	char  rune // 0: the right half of the wide one before
	style style
}

// widths does not ask the environment: frames and box lines are one column wide everywhere.
var widths = func() *runewidth.Condition {
	c := runewidth.NewCondition()
	c.EastAsianWidth = false
	return c
}()

// columns is how wide a text is. It counts rune by rune, as text is drawn; to look for graphemes took half of a frame's time.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	if r >= ' ' && r <= '~' {
		return 1
	}
	return widths.RuneWidth(r)
}

func newCanvas(w, h int) *canvas {
	c := &canvas{w: max(w, 0), h: max(h, 0)}
	c.cells = make([]cell, c.w*c.h)
	c.clear()
	return c
}

func (c *canvas) clear() {
	for i := range c.cells {
		c.cells[i] = cell{char: ' '}
	}
}

func (c *canvas) set(x, y int, char rune, s style) {
	if x >= 0 && x < c.w && y >= 0 && y < c.h {
		c.cells[y*c.w+x] = cell{char, s}
	}
}

// all is the whole canvas as an area.
func (c *canvas) all() area { return area{c, 0, 0, c.w, c.h} }

// render is the frame: h lines of at most w columns, without blanks at their ends.
func (c *canvas) render(t *theme) string {
	var out strings.Builder
	out.Grow(2 * len(c.cells))
	for y := range c.h {
		if y > 0 {
			out.WriteByte('\n')
		}
		line := c.cells[y*c.w : (y+1)*c.w]
		end := len(line)
		for end > 0 && line[end-1].char == ' ' && !t.shows(line[end-1].style) {
			end--
		}
		for x := 0; x < end; {
			s := line[x].style
			out.WriteString(t.around[s][0])
			for ; x < end && line[x].style == s; x++ {
				if line[x].char != 0 {
					out.WriteRune(line[x].char)
				}
			}
			out.WriteString(t.around[s][1])
		}
	}
	return out.String()
}

// area is a part of a canvas, with coordinates of its own.
type area struct {
	c          *canvas
	x, y, w, h int
}

// sub is a part of an area. What it would have outside is cut off.
func (a area) sub(x, y, w, h int) area {
	x, y = max(x, 0), max(y, 0)
	return area{a.c, a.x + x, a.y + y, max(min(w, a.w-x), 0), max(min(h, a.h-y), 0)}
}

func (a area) set(x, y int, char rune, s style) {
	if x >= 0 && x < a.w && y >= 0 && y < a.h {
		a.c.set(a.x+x, a.y+y, char, s)
	}
}

// text writes one line at a place, cut off with "…" where it does not fit, and returns how many columns it took.
func (a area) text(x, y int, s style, text string) int {
	if y < 0 || y >= a.h || x >= a.w {
		return 0
	}
	text = fit(text, a.w-x)
	at := x
	for _, r := range text {
		w := runeColumns(r)
		if w == 0 {
			continue
		}
		a.set(at, y, r, s)
		if w == 2 {
			a.set(at+1, y, 0, s)
		}
		at += w
	}
	return at - x
}

// right writes text so that it ends before column x.
func (a area) right(x, y int, s style, text string) {
	text = fit(text, x)
	a.text(x-columns(text), y, s, text)
}

// line fills a line with one character.
func (a area) line(y int, char rune, s style) {
	for x := range a.w {
		a.set(x, y, char, s)
	}
}

// column is a vertical line.
func (a area) column(x int) {
	for y := range a.h {
		a.set(x, y, '│', frame)
	}
}

func (a area) clear() {
	for y := range a.h {
		a.line(y, ' ', plain)
	}
}

// ansi writes a line with the colours that bench/report uses.
func (a area) ansi(x, y int, text string) {
	s := plain
	for text != "" {
		before, after, found := strings.Cut(text, "\x1b[")
		x += a.text(x, y, s, before)
		if !found {
			return
		}
		code, rest, _ := strings.Cut(after, "m")
		s = map[string]style{"1": bold, "2": faint, "31": bad, "32": good}[code]
		text = rest
	}
}

// fit cuts text to a number of columns. What a terminal would act on, or what takes no column, is made a blank or left out.
func fit(text string, width int) string {
	if width <= 0 {
		return ""
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || r == unicode.ReplacementChar:
			return '?'
		case runeColumns(r) == 0:
			return -1
		}
		return r
	}, text)
	if columns(text) <= width {
		return text
	}
	left := width - 1
	for i, r := range text {
		if left -= runeColumns(r); left < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// columnsOf are the widths of a table's columns: each as wide as its widest cell.
func columnsOf(rows [][]string) []int {
	var width []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], columns(text))
		}
	}
	return width
}
