package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"pgregory.net/rapid"
)

type drawable interface{ Draw() (*Figure, error) }

func samples() map[string]drawable {
	curve := Series{Name: "iptables (nft)", Hue: HueOf("iptables")}
	dashed := Series{Name: "kube-proxy/iptables", Hue: HueOf("kube-proxy/iptables")}
	for i := range 30 {
		x := float64(i)
		curve.X, curve.Y = append(curve.X, x), append(curve.Y, 0.001*(2+math.Sin(x)))
		dashed.X, dashed.Y = append(dashed.X, x), append(dashed.Y, 0.002*(2+math.Cos(x)))
	}
	curve.Y[10], curve.Y[12] = math.NaN(), math.NaN() // a lonely value between gaps
	return map[string]drawable{
		"lines": Lines{ID: "l", Title: "Latency <p99>", Note: "Of requests & more.", Unit: Seconds, Log: true, Series: []Series{curve, dashed},
			Marks: []Mark{{3, "1"}, {6, "2"}, {6.1, "3"}}},
		"strips": Strips{ID: "s", Title: "Syncs", Unit: Seconds, Strips: []Strip{{"a", HueOf("userspace"), []float64{0.01, 0.02, 0.5, 0}}, {"b", HueOf("ipvs"), nil}}},
		"bars":   Bars{ID: "b", Title: "CPU", Unit: Seconds, Column: "CPU", Bars: []Bar{{"a", HueOf("nftables"), 3, ""}, {"b", HueOf("else"), 0, "0 of 20"}}},
		"shares": Shares{ID: "d", Title: "Pods", Part: "pod", Divisions: []Division{{"a", HueOf("iptables"), []int64{5, 10, 5, 0}}, {"b", HueOf("ipvs"), []int64{3}}, {"c", HueOf("ipvs"), nil}}},
	}
}

func TestGolden(t *testing.T) {
	for name, d := range samples() {
		f, err := d.Draw()
		if err != nil {
			t.Fatal(err)
		}
		assert.Check(t, golden.String(string(f.Wide), name+".wide.svg"))
		assert.Check(t, golden.String(string(f.Narrow), name+".narrow.svg"))
	}
}

var strayColour = regexp.MustCompile(`="#|#AB|#-`)

// sound says what is wrong with a drawing: it is no XML, has a colour of its own, or what a page's policy forbids.
func sound(svg string) string {
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err.Error()
		}
	}
	switch {
	case strings.Contains(svg, "style="), strings.Contains(svg, "<script"):
		return "it has a style attribute or a script"
	case strayColour.MatchString(svg):
		return "it has a colour that is no variable"
	case strings.Contains(svg, "NaN"), strings.Contains(svg, "Inf"):
		return "it has a place that is no number"
	case !strings.Contains(svg, `role="img"`), !strings.Contains(svg, "<title"):
		return "it has no name for those who do not see it"
	}
	return ""
}

func TestDrawingsAreSound(t *testing.T) {
	list := samples()
	list["no lines"] = Lines{ID: "x", Title: "x"}
	list["flat"] = Lines{ID: "x", Title: "x", Series: []Series{{X: []float64{1}, Y: []float64{0}}}}
	list["no strips"] = Strips{ID: "x", Title: "x"}
	list["no bars"] = Bars{ID: "x", Title: "x"}
	list["no shares"] = Shares{ID: "x", Title: "x"}
	for name, d := range list {
		f, err := d.Draw()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, svg := range []string{string(f.Wide), string(f.Narrow)} {
			if wrong := sound(svg); wrong != "" {
				t.Errorf("%s: %s: %.200s", name, wrong, svg)
			}
		}
		for _, row := range f.Table.Rows {
			if len(row) != len(f.Table.Columns) {
				t.Errorf("%s: a row of %d cells, of %d columns", name, len(row), len(f.Table.Columns))
			}
		}
	}
}

func TestAnyValuesCanBeDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-10, 1e9), 0, 40).Draw(t, "values")
		s := Series{Name: rapid.String().Draw(t, "name")}
		for i, v := range values {
			s.X, s.Y = append(s.X, float64(i)), append(s.Y, v)
		}
		for _, d := range []drawable{
			Lines{ID: "x", Title: "x", Series: []Series{s}, Log: rapid.Bool().Draw(t, "log"), Unit: Unit(rapid.IntRange(0, 5).Draw(t, "unit"))},
			Strips{ID: "x", Title: "x", Strips: []Strip{{"x", 0, values}}},
		} {
			f, err := d.Draw()
			if err != nil {
				t.Fatal(err)
			}
			if wrong := sound(string(f.Wide)); wrong != "" && !strings.Contains(wrong, "XML") {
				t.Fatal(wrong)
			}
		}
	})
}

// TestHuesStandOut: three to one against the ground, as WCAG asks of graphics, in light and dark.
func TestHuesStandOut(t *testing.T) {
	for _, h := range hues {
		for _, c := range []struct{ ink, ground string }{{h.light, "#ffffff"}, {h.dark, "#181d22"}} {
			if r := contrast(t, c.ink, c.ground); r < 3 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", h.name, c.ink, c.ground, r)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n := 0
		for _, c := range hex[1+2*i : 3+2*i] {
			n = 16*n + strings.IndexRune("0123456789abcdef", c)
		}
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
