package tui

import (
	"strings"

	"github.com/charmbracelet/lipgloss"
)

// style is how a character looks. Whatever a style says, the text says too.
type style uint8

const (
	plain style = iota
	bold
	faint
	good
	bad
	warn
	accent  // keys, what is chosen
	inverse // the tab in view
	frame   // lines between panes
	subject0
)

// subjectColours tell the curves of subjects apart; they come from the terminal's own palette, so that they can be read on
// its background.
var subjectColours = []string{"6", "3", "5", "2", "4", "1"}

// subjectStyle is the style of the n-th subject, from 0.
func subjectStyle(n int) style { return subject0 + style(n%len(subjectColours)) }

// theme writes styles for one terminal.
type theme struct {
	around [][2]string // by style: what goes before and after a text
}

func newTheme(r *lipgloss.Renderer) *theme {
	s := r.NewStyle
	list := []lipgloss.Style{
		plain:   s(),
		bold:    s().Bold(true),
		faint:   s().Faint(true),
		good:    s().Foreground(lipgloss.Color("2")),
		bad:     s().Foreground(lipgloss.Color("1")).Bold(true),
		warn:    s().Foreground(lipgloss.Color("3")),
		accent:  s().Foreground(lipgloss.Color("6")).Bold(true),
		inverse: s().Reverse(true).Bold(true),
		frame:   s().Foreground(lipgloss.Color("8")),
	}
	for _, c := range subjectColours {
		list = append(list, s().Foreground(lipgloss.Color(c)))
	}
	t := &theme{}
	for _, style := range list {
		before, after, _ := strings.Cut(style.Render("x"), "x")
		t.around = append(t.around, [2]string{before, after})
	}
	return t
}

// colours says whether there are any.
func (t *theme) colours() bool { return t.around[good][0] != "" }

// shows says whether a blank of a style can be seen.
func (t *theme) shows(s style) bool { return s == inverse && t.around[s][0] != "" }
