package compare

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"proxylab/bench/stats"
)

// Table is the comparison for people: what got worse first, then the rest, proxier by proxier.
func Table(c *Comparison) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "base %s\nnew  %s\nthreshold %s, p < 0.05\n\n", c.Base.ID, c.New.ID, percent(c.Threshold))
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", " "
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	w.AppendHeader(table.Row{"", "base", "new", "change", "p", "n", "verdict"})
	last := ""
	for _, r := range c.Rows {
		if r.Proxier != last {
			if last != "" {
				w.AppendRow(table.Row{""})
			}
			w.AppendRow(table.Row{r.Proxier})
			last = r.Proxier
		}
		w.AppendRow(table.Row{"  " + r.Figure, r.Span(r.Base), r.Span(r.New), r.ChangeText(), r.PText(),
			fmt.Sprintf("%d/%d", r.Base.N, r.New.N), r.Verdict})
	}
	right := func(n int) table.ColumnConfig {
		return table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	w.SetColumnConfigs([]table.ColumnConfig{right(2), right(3), right(4), right(5), right(6)})
	if len(c.Rows) > 0 {
		out.WriteString(w.Render() + "\n\n")
	}
	out.WriteString(c.Summary() + "\n")
	for _, n := range c.Notes {
		out.WriteString("- " + n + "\n")
	}
	return []byte(out.String())
}

// Summary is the outcome in a sentence.
func (c *Comparison) Summary() string {
	worse, better, unjudged := 0, 0, 0
	for _, r := range c.Rows {
		switch r.Verdict {
		case Regression:
			worse++
		case Improvement:
			better++
		case Unjudged:
			unjudged++
		}
	}
	s := fmt.Sprintf("%d of %d figures got worse, %d got better", worse, len(c.Rows), better)
	if unjudged > 0 {
		s += fmt.Sprintf(", %d cannot be judged", unjudged)
	}
	return s + "."
}

// Span is a median, with its confidence interval where it has one.
func (r Row) Span(c stats.Center) string {
	s := r.text(c.Median)
	if c.Bounded && c.Lo != c.Hi {
		s += " [" + r.text(c.Lo) + ", " + r.text(c.Hi) + "]"
	}
	return s
}

// ChangeText is "+12%", or what there is to say where the base is 0.
func (r Row) ChangeText() string {
	switch {
	case math.IsNaN(r.Change):
		return "from 0"
	case r.Change == 0:
		return "0%"
	case r.Change > 0:
		return "+" + percent(r.Change)
	}
	return "−" + percent(-r.Change)
}

// PText is the p-value to two digits; without enough repetitions there is none worth saying.
func (r Row) PText() string {
	if r.Verdict == Unjudged {
		return "–"
	}
	if r.P < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", r.P)
}

func percent(share float64) string {
	if share >= 0.0995 {
		return fmt.Sprintf("%.0f%%", 100*share)
	}
	return fmt.Sprintf("%.1f%%", 100*share)
}

type jsonCenter struct {
	N      int      `json:"n"`
	Median float64  `json:"median"`
	Min    float64  `json:"min"`
	Max    float64  `json:"max"`
	Lo     *float64 `json:"lo,omitempty"` // of the 95 % confidence interval of the median; absent: too few repetitions
	Hi     *float64 `json:"hi,omitempty"`
}

func center(c stats.Center) jsonCenter {
	out := jsonCenter{N: c.N, Median: c.Median, Min: c.Min, Max: c.Max}
	if c.Bounded {
		out.Lo, out.Hi = &c.Lo, &c.Hi
	}
	return out
}

type jsonRow struct {
	Proxier        string     `json:"proxier"`
	Figure         string     `json:"figure"`
	HigherIsBetter bool       `json:"higherIsBetter"`
	Base           jsonCenter `json:"base"`
	New            jsonCenter `json:"new"`
	Change         *float64   `json:"change,omitempty"` // share of the base; absent where the base is 0
	P              *float64   `json:"p,omitempty"`      // absent: too few repetitions
	Verdict        string     `json:"verdict"`
}

// JSON is the comparison for programs: SI units, absent what there is not.
func JSON(c *Comparison) ([]byte, error) {
	doc := struct {
		Base        string    `json:"base"`
		New         string    `json:"new"`
		Threshold   float64   `json:"threshold"`
		Regressions int       `json:"regressions"`
		Judged      bool      `json:"judged"`
		Rows        []jsonRow `json:"rows"`
		Notes       []string  `json:"notes"`
	}{c.Base.ID, c.New.ID, c.Threshold, len(c.Regressions()), c.Judged(), []jsonRow{}, append([]string{}, c.Notes...)}
	for _, r := range c.Rows {
		row := jsonRow{Proxier: r.Proxier, Figure: r.Figure, HigherIsBetter: r.HigherIsBetter, Base: center(r.Base), New: center(r.New), Verdict: r.Verdict}
		if !math.IsNaN(r.Change) {
			row.Change = &r.Change
		}
		if r.Verdict != Unjudged && !math.IsNaN(r.P) {
			row.P = &r.P
		}
		doc.Rows = append(doc.Rows, row)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("write the comparison as JSON: %w", err)
	}
	return out.Bytes(), nil
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
	Out      string      `xml:"system-out,omitempty"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// JUnit is a test per figure: a regression fails, what cannot be judged is skipped.
func JUnit(c *Comparison) ([]byte, error) {
	s := junitSuite{Name: "compare " + c.Base.ID + " " + c.New.ID, Tests: len(c.Rows), Failures: len(c.Regressions()), Out: strings.Join(c.Notes, "\n")}
	for _, r := range c.Rows {
		t := junitCase{Class: r.Proxier, Name: r.Figure}
		message := &junitMessage{fmt.Sprintf("%s to %s (%s, p %s)", r.Span(r.Base), r.Span(r.New), r.ChangeText(), r.PText())}
		switch r.Verdict {
		case Regression:
			t.Failure = message
		case Unjudged:
			t.Skipped = &junitMessage{"too few repetitions: " + message.Message}
			s.Skipped++
		}
		s.Cases = append(s.Cases, t)
	}
	out, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the comparison as XML: %w", err)
	}
	return append([]byte(xml.Header), append(out, '\n')...), nil
}
