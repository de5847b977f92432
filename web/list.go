package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/report"
)

// summary is a run in the list of runs.
type summary struct {
	ID       string
	Scenario string
	Proxiers []string
	Repeat   int
	Started  *time.Time
	Seconds  float64 // 0: it is not known
	Outcome  string  // as the log says; "live", "cut off", "unreadable"
}

// list are the runs of the directory, the latest first. Of each log only the beginning and the end is read.
func (s *store) list() ([]summary, error) {
	dir, err := s.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []summary
	for _, e := range entries {
		f, err := s.open(e.Name())
		if err != nil {
			continue // not a run
		}
		list = append(list, glance(e.Name(), f))
		f.Close()
	}
	slices.SortFunc(list, func(a, b summary) int {
		if a.Started != nil && b.Started != nil && !a.Started.Equal(*b.Started) {
			return b.Started.Compare(*a.Started)
		}
		return strings.Compare(b.ID, a.ID)
	})
	return list, nil
}

// tail is how much of a log's end is looked at: the last event is short.
const tail = 64 << 10

func glance(id string, f *os.File) summary {
	s := summary{ID: id, Outcome: report.CutOff}
	first, err := bufio.NewReader(f).ReadBytes('\n')
	var e events.Event
	if err != nil || json.Unmarshal(first, &e) != nil || e.RunStarted == nil {
		s.Outcome = "unreadable"
		if errors.Is(err, io.EOF) { // a run that has just begun
			s.Outcome = report.CutOff
		}
		return s
	}
	s.Scenario, s.Proxiers, s.Repeat, s.Started = e.RunStarted.Scenario, e.RunStarted.Proxiers, e.RunStarted.Repeat, &e.Time
	info, err := f.Stat()
	if err != nil {
		return s
	}
	if last, ok := lastEvent(f, info.Size()); ok {
		s.Seconds = last.Time.Sub(e.Time).Seconds()
		if last.RunEnded != nil {
			s.Outcome = last.RunEnded.Outcome
			return s
		}
	}
	if time.Since(info.ModTime()) < staleAfter {
		s.Outcome = "live"
	}
	return s
}

// lastEvent is the last whole line of a log.
func lastEvent(f *os.File, size int64) (events.Event, bool) {
	begin := max(size-tail, 0)
	end := make([]byte, size-begin)
	if _, err := f.ReadAt(end, begin); err != nil && !errors.Is(err, io.EOF) {
		return events.Event{}, false
	}
	stop := bytes.LastIndexByte(end, '\n')
	if stop < 0 {
		return events.Event{}, false
	}
	line := end[bytes.LastIndexByte(end[:stop], '\n')+1 : stop]
	var e events.Event
	err := json.Unmarshal(line, &e)
	return e, err == nil && !e.Time.IsZero()
}
