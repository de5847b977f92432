package events

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// pollInterval is how often a growing log is looked at where nothing tells that it has grown: without inotify, and
// on file systems that do not report every write.
const pollInterval = 500 * time.Millisecond

// Follow is the events of a log that may still be growing, as they come. It ends after the run's last event
// (RunEnded), when ctx is done, or after an error; a line that is not complete yet is waited for. Path is the run's
// directory, in which the log may not have been made yet, or the log itself.
func Follow(ctx context.Context, path string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f, grown, err := openGrowing(ctx, path)
		if err != nil {
			if ctx.Err() == nil {
				yield(Event{}, err)
			}
			return
		}
		defer f.Close()
		defer grown.close()
		for e, err := range Read(&tail{ctx: ctx, file: f, grown: grown}) {
			if err != nil {
				yield(e, fmt.Errorf("%s: %w", f.Name(), err))
				return
			}
			if !yield(e, nil) || e.RunEnded != nil {
				return
			}
		}
	}
}

// openGrowing opens the log, which it waits for if there is only its directory.
func openGrowing(ctx context.Context, path string) (*os.File, *growth, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("find the run: %w", err)
	}
	file := path
	if info.IsDir() {
		file = filepath.Join(path, FileName)
	}
	grown := watch(filepath.Dir(file))
	for {
		f, err := os.Open(file)
		if err == nil {
			return f, grown, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			grown.close()
			return nil, nil, fmt.Errorf("open the event log: %w", err)
		}
		if err := grown.wait(ctx); err != nil {
			grown.close()
			return nil, nil, err
		}
	}
}

// tail reads a file and waits at its end. To its reader the file ends when ctx does.
type tail struct {
	ctx   context.Context
	file  *os.File
	grown *growth
}

func (t *tail) Read(p []byte) (int, error) {
	for {
		n, err := t.file.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if t.grown.wait(t.ctx) != nil {
			return 0, io.EOF
		}
	}
}

// growth tells that something in a directory may have changed.
type growth struct {
	watcher *fsnotify.Watcher // nil: by looking from time to time
}

func watch(dir string) *growth {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(dir); err == nil {
			return &growth{watcher: w}
		}
		w.Close()
	}
	slog.Debug("no file change notifications: looking at the log from time to time", "error", err)
	return &growth{}
}

// wait returns when there may be more to read, or with the context's error.
func (g *growth) wait(ctx context.Context) error {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	var changed <-chan fsnotify.Event
	var failed <-chan error
	if g.watcher != nil {
		changed, failed = g.watcher.Events, g.watcher.Errors
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case err := <-failed: // an overflow, say: there is something to look at
		slog.Debug("file change notifications", "error", err)
	case <-timer.C:
	}
	return nil
}

func (g *growth) close() {
	if g.watcher != nil {
		_ = g.watcher.Close() // nothing was written through it
	}
}
