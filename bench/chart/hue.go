package chart

import (
	"fmt"
	"image/color"
	"strings"
)

// Hue is the colour and the stroke of a proxier. It is the same in every chart. A mode has a colour, dark and solid for the
// native proxier, lighter and dashed for kube-proxy's: who cannot tell colours apart has the dash and the lightness.
type Hue int

// hues have a colour on light and one on dark ground each. They differ for the common kinds of colour blindness, and stand out
// from the ground by 3 to 1 at least.
var hues = []struct {
	name        string
	light, dark string
	dashed      bool
}{
	{"userspace", "#8a3f86", "#d391cb", false},
	{"iptables", "#0a5ca8", "#5aa9ea", false},
	{"ipvs", "#00704f", "#35b78f", false},
	{"nftables", "#b23b06", "#f2844c", false},
	{"kube-proxy/iptables", "#3b93d3", "#a8d2f5", true},
	{"kube-proxy/ipvs", "#2c9c78", "#97e0c6", true},
	{"kube-proxy/nftables", "#b97a00", "#f6c656", true},
	{"", "#55606b", "#a5b1bd", false}, // of what this version does not know
}

// HueOf is the hue of a proxier.
func HueOf(proxier string) Hue {
	for i, h := range hues {
		if h.name == proxier {
			return Hue(i)
		}
	}
	return Hue(len(hues) - 1)
}

// Class is the class that the style sheet knows it by: "hue-1".
func (h Hue) Class() string { return fmt.Sprintf("hue-%d", int(h)) }

// Dashed says how its line is drawn.
func (h Hue) Dashed() bool { return hues[h].dashed }

// Marks in a drawing that stand for variables of the style sheet: no chart has other colours.
var (
	ink  = mark(0xfe, 0)
	line = mark(0xfe, 1)
	soft = mark(0xfe, 2)
	// ground is behind all.
	ground = mark(0xfe, 3)
)

func mark(kind, n uint8) color.NRGBA { return color.NRGBA{R: 0xab, G: kind, B: n, A: 0xff} }

func (h Hue) color() color.NRGBA { return mark(0xfd, uint8(h)) }

// faint is the hue as it fills areas that lie over or beside each other. It is a mark of its own, since the drawing library
// would mix colour and opacity.
func (h Hue) faint() color.NRGBA { return mark(0xfc, uint8(h)) }

const faintOpacity = "0.5"

// variables are what the marks become.
func variables() *strings.Replacer {
	var pairs []string
	add := func(c color.NRGBA, name, fallback string) {
		pairs = append(pairs, fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B), "var(--"+name+", "+fallback+")")
	}
	faint := func(h Hue) {
		c := h.faint()
		pairs = append(pairs, fmt.Sprintf(`fill="#%02X%02X%02X"`, c.R, c.G, c.B),
			fmt.Sprintf(`fill="var(--%s, %s)" fill-opacity="%s"`, h.Class(), hues[h].light, faintOpacity))
	}
	add(ink, "chart-ink", "#4a5560")
	add(line, "chart-line", "#d5dade")
	add(soft, "chart-soft", "#8b96a1")
	add(ground, "chart-ground", "#ffffff")
	for i := range hues {
		add(Hue(i).color(), Hue(i).Class(), hues[i].light)
		faint(Hue(i))
	}
	return strings.NewReplacer(pairs...)
}

// Variables are the declarations of the hues for a style sheet: those on light ground, or those on dark.
func Variables(dark bool) string {
	var b strings.Builder
	for i, h := range hues {
		value := h.light
		if dark {
			value = h.dark
		}
		fmt.Fprintf(&b, "--hue-%d: %s; ", i, value)
	}
	return strings.TrimSpace(b.String())
}

// Hues are all of them.
func Hues() []Hue {
	list := make([]Hue, len(hues))
	for i := range list {
		list[i] = Hue(i)
	}
	return list
}
