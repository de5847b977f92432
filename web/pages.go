package web

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"time"

	"proxylab/bench/compare"
	"proxylab/bench/report"
	"proxylab/bench/report/html"
)

// page writes a page whole or not at all.
func (s *Server) page(w http.ResponseWriter, status int, name string, data any) {
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, name, data); err != nil {
		s.options.Log.Error("the page could not be written", "page", name, "error", err)
		http.Error(w, "the page could not be written: the log of proxylab says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // a visitor that is gone
}

func (s *Server) refuse(w http.ResponseWriter, status int, why string) {
	s.page(w, status, "problem", struct{ Title, Text string }{http.StatusText(status), why})
}

// fail answers what went wrong with a run.
func (s *Server) fail(w http.ResponseWriter, id string, err error) {
	if errors.Is(err, errNoRun) {
		s.refuse(w, http.StatusNotFound, "There is no such run in this directory.")
		return
	}
	s.options.Log.Error("a run could not be shown", "run", id, "error", err)
	s.refuse(w, http.StatusInternalServerError, "The run could not be shown: "+err.Error())
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	runs, err := s.store.list()
	if err != nil {
		s.options.Log.Error("the runs could not be listed", "error", err)
		s.refuse(w, http.StatusInternalServerError, "The runs could not be listed: "+err.Error())
		return
	}
	base := 1 // what the latest run is most likely to be compared with
	for i := len(runs) - 1; i > 0; i-- {
		if runs[i].Scenario == runs[0].Scenario {
			base = i
		}
	}
	s.page(w, http.StatusOK, "run-list", struct {
		Dir  string
		Runs []summary
		Base int
	}{s.options.Dir, runs, base})
}

// shownRun is what the page of a run is made from.
type shownRun struct {
	*html.View
	ID      string
	Live    bool
	Corrupt error
	Parts   []part
}

func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	shown, _, _, err := s.look(id)
	if err != nil {
		s.fail(w, id, err)
		return
	}
	s.page(w, http.StatusOK, "run", shown)
}

// look reads on in a run's log and makes its page's parts.
func (s *Server) look(id string) (*shownRun, int64, time.Duration, error) {
	rec, err := s.store.run(id)
	if err != nil {
		return nil, 0, 0, err
	}
	begin := time.Now()
	v, version, took, err := rec.shown()
	if err != nil {
		return nil, 0, 0, err
	}
	shown := &shownRun{View: v, ID: id, Live: rec.live(), Corrupt: rec.broken()}
	if shown.Parts, err = s.parts(shown); err != nil {
		return nil, 0, 0, err
	}
	return shown, version, max(took, time.Since(begin)), nil
}

// part is a piece of a run's page that can be replaced while it is open.
type part struct {
	ID   string        `json:"id"`
	HTML template.HTML `json:"html"`
}

// parts are the pieces of the page, top to bottom.
func (s *Server) parts(shown *shownRun) ([]part, error) {
	var list []part
	add := func(id, name string, data any) error {
		var out bytes.Buffer
		if err := s.templates.ExecuteTemplate(&out, name, data); err != nil {
			return fmt.Errorf("write the part %q of a run's page: %w", name, err)
		}
		if len(bytes.TrimSpace(out.Bytes())) > 0 {
			list = append(list, part{id, template.HTML(out.String())}) //nolint:gosec // made by html/template
		}
		return nil
	}
	errs := []error{
		add("part-head", "run-head", shown),
		add("part-findings", "findings", shown.View),
		add("part-steps", "steps", shown.View),
	}
	for _, g := range shown.Groups {
		errs = append(errs, add("part-"+g.ID, "group", g))
	}
	errs = append(errs, add("part-table", "table", shown.View), add("part-notes", "notes", shown.View))
	return list, errors.Join(errs...)
}

func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	rec, err := s.store.run(id)
	if err != nil {
		s.fail(w, id, err)
		return
	}
	v, _, _, err := rec.shown()
	if err != nil {
		s.fail(w, id, err)
		return
	}
	data, err := v.Report()
	if err != nil {
		s.fail(w, id, err)
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `inline; filename="`+id+`.html"`)
	_, _ = w.Write(data) // a visitor that is gone
}

func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	f, err := s.store.open(id)
	if err != nil {
		s.fail(w, id, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+id+`.events.jsonl"`)
	_, _ = io.Copy(w, f) // a visitor that is gone
}

func (s *Server) result(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	rec, err := s.store.run(id)
	if err != nil {
		s.fail(w, id, err)
		return
	}
	data, err := report.JSON(rec.result())
	if err != nil {
		s.fail(w, id, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="`+id+`.result.json"`)
	_, _ = w.Write(data) // a visitor that is gone
}

// defaultThreshold is the smallest effect that counts, in per cent, where nobody says otherwise.
const defaultThreshold = 10.0

func (s *Server) compare(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	base, with := q.Get("base"), q.Get("new")
	if base == "" || with == "" {
		s.refuse(w, http.StatusBadRequest, "Choose two runs in the list of runs: the one to compare with, and the new one.")
		return
	}
	threshold := defaultThreshold
	if text := q.Get("threshold"); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= 1000) {
			s.refuse(w, http.StatusBadRequest, "The threshold is a number of per cent from 0 to 1000.")
			return
		}
		threshold = v
	}
	var views [2]*html.View
	for i, id := range []string{base, with} {
		rec, err := s.store.run(id)
		if err == nil {
			views[i], _, _, err = rec.shown()
		}
		if err != nil {
			s.fail(w, id, err)
			return
		}
	}
	charts, err := html.Overlay(views[0], views[1])
	if err != nil {
		s.fail(w, with, err)
		return
	}
	c := compare.Results(views[0].Result, views[1].Result, threshold/100)
	s.page(w, http.StatusOK, "compare", struct {
		*compare.Comparison
		BaseID, NewID string
		Percent       float64
		Groups        []html.Group
		New           *html.View
	}{c, base, with, threshold, charts, views[1]})
}
