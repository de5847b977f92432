// Package html shows a result as HTML: the parts that the web page and the report share, and the report itself, one file that
// needs nothing else.
package html

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"time"

	"proxylab/bench/chart"
	"proxylab/bench/events"
	"proxylab/bench/report"
	"proxylab/bench/timeline"
)

//go:embed *.tmpl *.css
var files embed.FS

// View is everything that is shown of a run.
type View struct {
	Result   *report.Result
	Timeline *timeline.Timeline
	Findings []report.Finding
	Proxiers []string // columns of the sections
	Sections []report.Section
	Groups   []Group // of charts
	Steps    []StepView
	Missing  []string
	Failures []string
}

// Folder makes a view out of events as they come. It is not safe for concurrent use.
type Folder struct {
	result   *report.Folder
	timeline *timeline.Folder
	steps    []string // as the log announces them
}

// NewFolder returns one that has seen nothing.
func NewFolder() *Folder {
	return &Folder{result: report.NewFolder(), timeline: timeline.NewFolder()}
}

// Add takes the next event of the log.
func (f *Folder) Add(e events.Event) {
	if e.RunStarted != nil {
		f.steps = e.RunStarted.Steps
	}
	f.result.Add(e)
	f.timeline.Add(e)
}

// Result is the result of the events so far.
func (f *Folder) Result() *report.Result { return f.result.Result() }

// View is what is shown of the events so far. It fails when a chart cannot be drawn.
func (f *Folder) View() (*View, error) {
	v := &View{Result: f.result.Result(), Timeline: f.timeline.Timeline()}
	v.Findings = report.Findings(v.Result)
	v.Proxiers, v.Sections = report.Sections(v.Result)
	v.Missing, v.Failures = report.Unmeasured(v.Result), report.Failures(v.Result)
	v.Steps = stepViews(f.steps, v)
	var err error
	v.Groups, err = groups(v)
	return v, err
}

// ReadFile is the view of a recorded run; path is its directory or its log. A corrupt line ends what is read, with an error
// and the view of what came before it.
func ReadFile(path string) (*View, error) {
	file, err := events.Locate(path)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}
	defer in.Close()
	f := NewFolder()
	for e, err := range events.ReadAhead(in) {
		if err != nil {
			v, drawErr := f.View()
			return v, errors.Join(fmt.Errorf("%s: %w", file, err), drawErr)
		}
		f.Add(e)
	}
	return f.View()
}

// Report is the run as one self-contained file.
func (v *View) Report() ([]byte, error) {
	t, err := Templates()
	if err != nil {
		return nil, err
	}
	style, err := Style()
	if err != nil {
		return nil, err
	}
	if t, err = t.ParseFS(files, "report.tmpl"); err != nil {
		return nil, fmt.Errorf("the template of the report: %w", err)
	}
	var out bytes.Buffer
	err = t.ExecuteTemplate(&out, "report", struct {
		*View
		Style template.CSS
	}{v, template.CSS(style)}) //nolint:gosec // our own style sheet
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	return out.Bytes(), nil
}

// Style is the style sheet of page and report.
func Style() ([]byte, error) {
	css, err := files.ReadFile("style.css")
	if err != nil {
		return nil, fmt.Errorf("the style sheet: %w", err)
	}
	css = bytes.ReplaceAll(css, []byte("--hues-light: 0;"), []byte(chart.Variables(false)))
	css = bytes.ReplaceAll(css, []byte("--hues-dark: 0;"), []byte(chart.Variables(true)))
	for _, h := range chart.Hues() {
		css = fmt.Appendf(css, ".%s { stroke: var(--%s); fill: var(--%s); color: var(--%s); }\n", h.Class(), h.Class(), h.Class(), h.Class())
	}
	return css, nil
}

// Templates are the parts: "head", "findings", "charts", "tables", "notes", each executed with a View.
func Templates() (*template.Template, error) {
	t, err := template.New("parts").Funcs(template.FuncMap{
		"time":     func(t *time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 UTC") },
		"stamp":    func(t *time.Time) string { return t.UTC().Format(time.RFC3339) },
		"duration": chart.Seconds.Format,
		"inc":      func(i int) int { return i + 1 },
	}).ParseFS(files, "parts.tmpl")
	if err != nil {
		return nil, fmt.Errorf("the templates of a run: %w", err)
	}
	return t, nil
}
