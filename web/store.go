package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"sync"
	"time"

	"proxylab/bench/events"
	"proxylab/bench/report"
	"proxylab/bench/report/html"
)

// errNoRun is that there is no run of that name.
var errNoRun = errors.New("there is no such run")

// names of runs: a plain name of a directory.
var runName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,200}$`)

// kept is how many runs stay in memory.
const kept = 8

// store reads the runs of a directory. Logs are read once and from then on where they have grown.
type store struct {
	root *os.Root

	mu   sync.Mutex
	runs map[string]*recording
	uses []string // the least recently used first
}

func newStore(root *os.Root) *store { return &store{root: root, runs: map[string]*recording{}} }

// open opens the log of a run. A link is not followed out of the directory.
func (s *store) open(id string) (*os.File, error) {
	if !runName.MatchString(id) {
		return nil, errNoRun
	}
	f, err := s.root.Open(path.Join(id, events.FileName))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errNoRun
		}
		return nil, fmt.Errorf("open the log of run %s: %w", id, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errNoRun
	}
	return f, nil
}

// run is a run as its log has it now.
func (s *store) run(id string) (*recording, error) {
	s.mu.Lock()
	r := s.runs[id]
	if r == nil {
		r = &recording{id: id, store: s}
		r.restart()
	}
	s.mu.Unlock()
	if err := r.advance(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[id] = r
	s.uses = append(slices.DeleteFunc(s.uses, func(u string) bool { return u == id }), id)
	for len(s.uses) > kept {
		delete(s.runs, s.uses[0])
		s.uses = s.uses[1:]
	}
	return r, nil
}

// recording is a run of which the log has been read up to a place.
type recording struct {
	id    string
	store *store

	mu      sync.Mutex
	file    os.FileInfo // what was read: another file under that name is another run
	offset  int64
	folder  *html.Folder
	version int64 // grows with what was read
	ended   bool
	corrupt error // a line that is no event: what follows is not read

	view        *html.View
	viewVersion int64
	drawing     time.Duration // how long the view took to make
}

func (r *recording) restart() {
	r.offset, r.folder, r.ended, r.corrupt, r.view = 0, html.NewFolder(), false, nil, nil
	r.version++
}

// advance reads what the log has more since the last time, whole lines only.
func (r *recording) advance() error {
	f, err := r.store.open(r.id)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at the log of run %s: %w", r.id, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil && (!os.SameFile(r.file, info) || info.Size() < r.offset) {
		r.restart()
	}
	r.file = info
	if info.Size() == r.offset || r.corrupt != nil {
		return nil
	}
	lines := &wholeLines{in: io.NewSectionReader(f, r.offset, info.Size()-r.offset)}
	for e, err := range events.ReadAhead(lines) {
		if err != nil {
			r.corrupt = fmt.Errorf("the log of run %s is corrupt: %w", r.id, err)
			break
		}
		r.folder.Add(e)
		r.version++
		r.ended = r.ended || e.RunEnded != nil
	}
	r.offset += lines.n
	return nil
}

// wholeLines is a reader that ends before a line that is not complete yet.
type wholeLines struct {
	in   io.Reader
	rest []byte
	n    int64 // bytes given out
}

func (w *wholeLines) Read(p []byte) (int, error) {
	for {
		if end := bytes.LastIndexByte(w.rest, '\n') + 1; end > 0 {
			n := copy(p, w.rest[:end])
			w.rest = w.rest[n:]
			w.n += int64(n)
			return n, nil
		}
		block := make([]byte, 256<<10)
		n, err := w.in.Read(block)
		w.rest = append(w.rest, block[:n]...)
		if n == 0 && err != nil {
			return 0, err
		}
	}
}

// shown is the run as it is shown, with a number that changes when it does, and how long the drawing took.
func (r *recording) shown() (v *html.View, version int64, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil || r.viewVersion != r.version {
		begin := time.Now()
		view, err := r.folder.View()
		if err != nil {
			return nil, 0, 0, err
		}
		r.view, r.viewVersion, r.drawing = view, r.version, time.Since(begin)
	}
	return r.view, r.viewVersion, r.drawing, nil
}

// result is the run's result.
func (r *recording) result() *report.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.folder.Result()
}

// broken is why the log was not read to its end, nil if it was.
func (r *recording) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.corrupt
}

// staleAfter is how long a log may not grow before its run counts as dead. Ticks come twice a second while anything is
// measured, but a lab takes its time to come up.
const staleAfter = 2 * time.Minute

// live says whether the run seems to go on.
func (r *recording) live() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended && r.corrupt == nil && time.Since(r.file.ModTime()) < staleAfter
}
